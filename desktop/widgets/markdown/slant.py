"""Italics of letters that have none: Hangul, kana and Han are slanted as they are drawn."""

from __future__ import annotations

import ctypes
import re
from typing import Any

import numpy as np
from imgui_bundle import ImVec2

from llm_lite.desktop.widgets.markdown.wrapping import CJK

UPRIGHT = re.compile(f"[{CJK}\uac00-\ud7a3]")
SLANT = 0.19  # to the right, of the height above the baseline: as Inter's italics
WORDS = 5  # of four bytes in a vertex, x and y first
CORNERS = 4  # of a letter


def draw_italic(
    draw: Any, font: Any, size: float, at: tuple[float, float], color: int, words: str,
    baseline: float,
) -> None:  # fmt: skip
    """As add_text, but that letters stand upright in no word."""
    before = draw.vtx_buffer.size()
    draw.add_text(font, size, ImVec2(*at), color, words)
    if not UPRIGHT.search(words):
        return
    shown = [letter for letter in words if not letter.isspace()]
    count = draw.vtx_buffer.size() - before
    if count != CORNERS * len(shown):  # some letters were left out
        return
    address = draw.vtx_buffer.data_address() + before * WORDS * 4
    floats = (ctypes.c_float * (count * WORDS)).from_address(address)
    vertices = np.frombuffer(floats, np.float32).reshape(len(shown), CORNERS, WORDS)
    upright = np.array([UPRIGHT.match(letter) is not None for letter in shown])
    vertices[upright, :, 0] += (baseline - vertices[upright, :, 1]) * SLANT
