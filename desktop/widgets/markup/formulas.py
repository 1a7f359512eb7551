"""Formulas as pictures at the size of the text: outlines of the markup process on a sheet."""

from __future__ import annotations

from math import ceil, floor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from llm_lite.desktop.widgets.markup.process import FAILED, Answer, MarkupProcess, markup
from llm_lite.desktop.widgets.markup.sheet import Letter, Picture, Sheets
from llm_lite.desktop.widgets.markup.worker import EM

Floats = NDArray[np.float64]


# Of an em to the size that Dear ImGui gives a text: its lower-case letters are then as tall as
# those of the text around.
EM_SCALE = 0.93
LEAST_SCALE = 0.45  # of a formula that is wider than its place: what is smaller cannot be read
MOST_PIXELS = 4096  # a side
BESIDE = 0.06  # of the text's size: room between a formula and the words around it


class Formulas:
    """Pictures of formulas, made once for each size; for one ImGui context."""

    def __init__(self, process: MarkupProcess | None = None) -> None:
        self.process = process or markup()
        self.sheets = Sheets()
        self._known: dict[Any, Picture | None] = {}
        self._epoch = 0

    @property
    def epoch(self) -> int:
        """Return a number that changes when formulas that were shown as source, or are on a sheet
        that went, may be pictures now."""
        return self.process.version + self.sheets.epoch

    def begin(self) -> None:
        """Begin a frame, before its first call."""
        self.sheets.begin()

    def picture(self, tex: str, size: float, width: float, display: bool) -> Picture | None:
        """Return the picture of a formula in text of `size` pixels, at most `width` wide; None:
        show its source."""
        if self._epoch != self.sheets.epoch:
            self._known.clear()
            self._epoch = self.sheets.epoch
        answer = self.process.formula(tex, display)
        if answer is None or answer is FAILED:
            return None
        scale = size * EM_SCALE / EM
        if answer["width"] * scale > width:
            fitting = width / answer["width"]
            if fitting < scale * LEAST_SCALE:
                return None
            scale = fitting
        key = (tex, display, scale)
        if key not in self._known:
            beside = 0 if display else round(BESIDE * size)
            self._known[key] = self._draw(answer, scale, beside)
        return self._known[key]

    def _draw(self, answer: Answer, scale: float, beside: int) -> Picture | None:
        contours = [np.array(flat).reshape(-1, 2) * scale for flat in answer["contours"]]
        letters = tuple(
            Letter(letter, x * scale + beside, y * scale, em * scale / EM_SCALE)
            for letter, x, y, em in answer["letters"]
        )
        if not contours and not letters:
            return None
        points = np.concatenate(contours or [np.zeros((1, 2))])
        left, top = (floor(low) for low in points.min(axis=0))
        right, bottom = (ceil(high) for high in points.max(axis=0))
        size = (max(right - left, 1), max(bottom - top, 1))
        if max(size) > MOST_PIXELS:
            return None
        corner = np.array([left, top])
        pixels = coverage([each - corner for each in contours], *size)
        sheet, at = self.sheets.place(pixels)
        return Picture(
            sheet, at, size, answer["width"] * scale + 2 * beside, answer["ascent"] * scale,
            answer["descent"] * scale, (left + beside, top), letters,
        )  # fmt: skip


def coverage(contours: list[Floats], width: int, height: int) -> NDArray[np.uint8]:
    """Return the coverage of closed polygons, each [points, 2] of x and y in pixels, as [height,
    width] from 0 to 255."""
    start = np.concatenate(contours)
    end = np.concatenate([np.roll(contour, -1, axis=0) for contour in contours])
    total = np.zeros((height, width + 2))
    _add(total, start, end)
    filled = np.abs(np.cumsum(total, axis=1))[:, :width]
    shares: NDArray[np.uint8] = np.rint(np.clip(filled, 0.0, 1.0) * 255).astype(np.uint8)
    return shares


def _add(total: Floats, start: Floats, end: Floats) -> None:
    keep = start[:, 1] != end[:, 1]
    start, end = _cut(start[keep], end[keep], axis=1)
    start, end = _cut(start, end, axis=0)
    height, width = total.shape
    middle = (start + end) / 2
    row = np.floor(middle[:, 1]).astype(np.intp)
    column = np.floor(middle[:, 0])
    inside = (row >= 0) & (row < height)
    at = np.clip(column, 0, width - 2).astype(np.intp)
    share = np.clip(at + 1 - middle[:, 0], 0.0, 1.0)  # of the pixel, right of the edge
    rise = end[:, 1] - start[:, 1]
    np.add.at(total, (row[inside], at[inside]), (rise * share)[inside])
    np.add.at(total, (row[inside], at[inside] + 1), (rise * (1 - share))[inside])


def _cut(start: Floats, end: Floats, axis: int) -> tuple[Floats, Floats]:
    """Cut edges where they cross whole numbers on an axis: then each lies in one row or column."""
    low = np.minimum(start[:, axis], end[:, axis])
    high = np.maximum(start[:, axis], end[:, axis])
    first, last = np.floor(low) + 1, np.ceil(high) - 1
    cuts = np.maximum(last - first + 1, 0).astype(np.intp)
    if not cuts.any():
        return start, end
    parts = cuts + 1
    owner = np.repeat(np.arange(len(start)), parts)
    place = np.arange(len(owner)) - np.repeat(np.cumsum(parts) - parts, parts)
    begin, stop, turned = start[owner], end[owner], (start[:, axis] > end[:, axis])[owner]
    line = first[owner] + place  # the cut behind a part, counted from the low end
    span = (high - low)[owner]
    with np.errstate(divide="ignore", invalid="ignore"):
        before = np.where(place == 0, 0.0, (line - 1 - low[owner]) / span)
        behind = np.where(place == cuts[owner], 1.0, (line - low[owner]) / span)
    from_low, to_high = np.where(turned, 1 - before, before), np.where(turned, 1 - behind, behind)
    a = np.where(turned, to_high, from_low)[:, None]
    b = np.where(turned, from_low, to_high)[:, None]
    return begin + (stop - begin) * a, begin + (stop - begin) * b
