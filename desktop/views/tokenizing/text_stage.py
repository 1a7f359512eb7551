"""The text as the tokenizer reads it: normalized, and the bytes of each character."""

from __future__ import annotations

import unicodedata

from imgui_bundle import ImVec2, imgui

from llm_lite.core.messages.inspecting.tokenizing import MOST_CHARACTERS, TokenizedText
from llm_lite.core.text.tokenization.spelling import hexadecimal, shown
from llm_lite.desktop.language.translate import mark, tr
from llm_lite.desktop.state.incoming import NAME, fit_line
from llm_lite.desktop.views.tokenizing import tips
from llm_lite.desktop.views.tokenizing.chips import Chip, Look, draw_chips, kept_page
from llm_lite.desktop.widgets.theme import u32
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import heading, wrapped

NORMALIZED = mark("Normalized")
BYTES = mark("Characters and bytes")
NOTHING = mark("This tokenizer takes the text as it is.")
SAME = mark("Changes: {names}. Here they change nothing.")
CHANGES = mark("Changes: {names}.")
MOST_NAMES = 12  # of normalizers
_HUES = (0, 2, 3, 5)  # of characters of 1, 2, 3 and 4 bytes


def draw(ui: Ui, told: TokenizedText) -> None:
    names = fit_line(", ".join(told.normalizers[:MOST_NAMES]), NAME)
    heading(ui, tr(NORMALIZED))
    changed = told.normalized != told.text
    if not told.normalizers:
        wrapped(ui, tr(NOTHING))
    else:
        wrapped(ui, tr(CHANGES if changed else SAME).format(names=names))
    if changed:
        _draw_characters(ui, "tokenizer.normalized", told, told.normalized, with_bytes=False)
    imgui.dummy(ImVec2(0, ui.u(1)))
    count = len(told.text.encode("utf-8", "replace"))
    note = tr("{n:,} characters are {bytes:,} bytes in UTF-8: one to four each.")
    heading(ui, tr(BYTES), note.format(n=len(told.text), bytes=count))
    _draw_characters(ui, "tokenizer.character", told, told.text, with_bytes=True)


def _draw_characters(
    ui: Ui, name: str, told: TokenizedText, characters: str, *, with_bytes: bool
) -> None:
    held = ui.memory.get(f"{name}.made")
    if held is None or held[0] is not told:
        chips = [_chip(char, with_bytes) for char in characters[:MOST_CHARACTERS]]
        held = ui.memory[f"{name}.made"] = (told, chips)
    chips = held[1]
    width = imgui.get_content_region_avail().x
    page = kept_page(ui, f"{name}.page", chips, chips, width, ui.u(0.5))
    series = ui.theme.palette.series

    def paint(number: int) -> Look:
        size = len(characters[number].encode("utf-8", "replace"))
        fill = u32(series[_HUES[size - 1]], 0.10 + 0.07 * size) if with_bytes else 0
        return Look(fill or ui.color("hover"), ui.color("text"), ui.color("muted"))

    pointed = draw_chips(ui, name, chips, page, paint)
    if pointed is not None:
        char = characters[pointed]
        facts = [
            (tr("Code point"), f"U+{ord(char):04X}"),
            (tr("Name"), unicodedata.name(char, "–").lower()),
            (tr("Bytes"), hexadecimal(char.encode("utf-8", "replace"))),
        ]
        tips.draw_facts(ui, f"“{shown(char)}”", facts)


def _chip(char: str, with_bytes: bool) -> Chip:
    below = hexadecimal(char.encode("utf-8", "replace")) if with_bytes else ""
    return Chip(shown(char), below, char == "\n")
