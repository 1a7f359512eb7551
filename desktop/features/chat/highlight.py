"""In plain reading, the token that the pointer is over elsewhere."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence
from typing import Any

from imgui_bundle import ImVec2, imgui

from llm_lite.core.records import replace
from llm_lite.desktop.features.program.state import AppState, Message
from llm_lite.desktop.features.tokens.state import passage
from llm_lite.desktop.features.tokens.tokens import place_of
from llm_lite.desktop.widgets.markdown.rich_text import Page
from llm_lite.desktop.widgets.ui import Ui

REACH = 64  # characters in which what is shown next is looked for
WORDS = re.compile(r"\s+|\S+")
Mark = tuple[float, float, float, float]  # x, y, width, height within the page


def draw_highlight(state: AppState, ui: Ui, index: int, page: Page, x: float, y: float) -> None:
    """Behind the text of message `index`, whose page lies at (x, y)."""
    position = state.cache.pointed
    if position is None or position >= len(state.owners) or state.owners[position] != index:
        return
    draw, pad = imgui.get_window_draw_list(), ui.u(0.5)
    for left, top, width, height in _marks(state, ui, index, page, position):
        low = ImVec2(x + left - pad, y + top - pad)
        high = ImVec2(x + left + width + pad, y + top + height + pad)
        draw.add_rect_filled(low, high, ui.color("accent", 0.35), ui.u(0.75))
        draw.add_rect(low, high, ui.color("accent"), ui.u(0.75), max(1.0, ui.u(0.3)))
        ui.rects["chat.pointed"] = (low.x, low.y, high.x, high.y)


def _marks(state: AppState, ui: Ui, index: int, page: Page, position: int) -> list[Mark]:
    """Of the token; the text's layout is matched to its tokens once."""
    message = state.messages[index]
    place = place_of(state, ui, index)
    held = ui.memory.get("highlight")
    key = (place, page)
    if held is None or held[0] is not message or held[1] != key:
        held = ui.memory["highlight"] = (message, key, _spans(state, message, page, place))
    own, runs = held[2]
    if place is None or not 0 <= position - place.start < len(own):
        return []
    return _within(ui, page, runs, own[position - place.start])


def _spans(state: AppState, message: Message, page: Page, place: Any) -> tuple[Any, Any]:
    """Characters of the message's tokens, and of the runs of its page, in its text; tokens of its
    thoughts lie before it."""
    if place is not None:
        place = replace(place, end=place.stop)
    found = passage(message.whole, message.pieces, place, state.positions)
    lead = len(found.text) - len(message.spoken)  # what is said, and calls, end the whole
    own = tuple((a - lead, b - lead) for a, b in found.spans[found.own :])
    return own, character_places(
        message.text, [run.text for _, laid in page.blocks for run in laid.runs]
    )


def character_places(text: str, shown: Sequence[str]) -> list[list[int]]:
    """Where in `text` each character of what is shown of it stands, in order: what is shown lacks
    marks, and breaks lines elsewhere."""
    found: list[list[int]] = []
    at = 0
    for words in shown:
        places: list[int] = []
        for part in WORDS.findall(words):
            if part.isspace():
                places += [at] * len(part)
                continue
            start = text.find(part, at, at + len(part) + REACH)
            for character in part if start < 0 else "":
                known = text.find(character, at, at + REACH)
                places.append(at if known < 0 else known)
                at = at if known < 0 else known + 1
            if start >= 0:
                places += range(start, start + len(part))
                at = start + len(part)
        found.append(places)
    return found


def _within(ui: Ui, page: Page, runs: Any, span: tuple[int, int]) -> list[Mark]:
    """The parts of runs that show the characters of `span`."""
    marks: list[Mark] = []
    laid_runs = ((top, laid, run) for top, laid in page.blocks for run in laid.runs)
    for (top, laid, run), places in zip(laid_runs, runs, strict=True):
        low, high = (bisect_left(places, end) for end in span)
        if low >= high:
            continue
        if run.picture is not None:  # the token is somewhere in the formula
            marks.append((run.x, top + run.y, run.width, laid.size))
            continue
        ui.push_font(run.style, laid.size)
        before = imgui.calc_text_size(run.text[:low]).x
        width = imgui.calc_text_size(run.text[low:high]).x
        imgui.pop_font()
        marks.append((run.x + before, top + run.y, width, laid.size))
    return marks


def show_message(ui: Ui, scroll: Any, tops: Sequence[float], ends: Sequence[float]) -> None:
    """Bring the message that was asked for into sight, if it is not there; they lie from `tops` to
    `ends`."""
    index: int | None = ui.memory.get("chat.show")
    if index is None or not 0 <= index < len(tops):
        return
    ui.memory.pop("chat.show")
    y, height = tops[index], ends[index] - tops[index]
    top, room = imgui.get_scroll_y(), imgui.get_window_height()
    if y < top or y + min(height, room / 2) > top + room:
        scroll.follow = False
        imgui.set_scroll_y(max(0.0, y - room / 4))
