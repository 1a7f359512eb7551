"""In plain reading, the token that the pointer is over elsewhere."""

from __future__ import annotations

from typing import Any

from imgui_bundle import ImVec2, imgui

from desktop.rich_text import Page
from desktop.state import AppState, Message
from desktop.token_state import align, passage
from desktop.ui import Ui
from desktop.views.tokens import place_of

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
    """Characters of the message's tokens, and of the runs of its page, in its text."""
    found = passage(message.text, [t.text for t in message.tokens], place, state.positions)
    lead = len(found.text) - len(message.text)
    own = tuple((a - lead, b - lead) for a, b in found.spans[found.own :])
    runs = align(message.text, [run.text for _, laid in page.blocks for run in laid.runs])
    return own, runs


def _within(ui: Ui, page: Page, runs: Any, span: tuple[int, int]) -> list[Mark]:
    """The parts of runs that show the characters of `span`."""
    marks: list[Mark] = []
    laid_runs = ((top, laid, run) for top, laid in page.blocks for run in laid.runs)
    for (top, laid, run), (first, last) in zip(laid_runs, runs, strict=True):
        low, high = max(span[0], first), min(span[1], last)
        if low >= high:
            continue
        imgui.push_font(ui.fonts[run.style], laid.size)
        before = imgui.calc_text_size(run.text[: low - first]).x
        width = imgui.calc_text_size(run.text[low - first : high - first]).x
        imgui.pop_font()
        marks.append((run.x + before, top + run.y, width, laid.size))
    return marks


def show_message(ui: Ui, scroll: Any, index: int, y: float, height: float) -> None:
    """Bring the message that was asked for into sight, if it is not there."""
    if ui.memory.get("chat.show") != index:
        return
    ui.memory.pop("chat.show")
    top, room = imgui.get_scroll_y(), imgui.get_window_height()
    if y < top or y + min(height, room / 2) > top + room:
        scroll.follow = False
        imgui.set_scroll_y(max(0.0, y - room / 4))
