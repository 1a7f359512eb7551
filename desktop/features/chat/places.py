"""Places of the messages in the list, in pixels from its top."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from operator import is_
from typing import Any

from imgui_bundle import imgui
from msgspec import Struct

from llm_lite.desktop.features.chat.unseen import Unseen
from llm_lite.desktop.features.program.state import AppState, Message
from llm_lite.desktop.widgets.markdown.rich_text import rich_text
from llm_lite.desktop.widgets.ui import Ui

A_FRAME = 24_000  # characters of messages that are measured in one
Height = Callable[[int], float]  # of a message, by its index


class Stack(Struct):
    """The places of all messages but the last, and what they were found for."""

    key: object = None  # None: to be found again
    messages: tuple[Message, ...] = ()
    tops: list[float] = []
    ends: list[float] = []
    measuring: bool = False  # some heights are guessed yet


class HeldPlaces(Struct):
    """The places of the frame before."""

    chat: int | None = None
    tops: list[float] = []
    measuring: bool = False


def find_places(
    state: AppState, ui: Ui, marks: Unseen, width: float, height: Height
) -> tuple[list[float], list[float]]:
    """Find where each message begins and ends. Those before the last are found again only when
    one of them, or what they depend on, is another."""
    before = state.messages[:-1]
    look = rich_text(ui).height_key(ui)
    key = (width, ui.theme.text, marks.lost, state.comparing, state.xray.shown, look)
    kept = ui.local(Stack)
    if state.xray.shown or kept.key != key or not _alike(kept.messages, before):
        kept.tops, kept.ends, whole = _stacked(state, ui, marks, width, height)
        kept.key, kept.messages, kept.measuring = key if whole else None, before, not whole
        if not whole:
            ui.redraw_in(0.0)
    tops, ends = list(kept.tops), list(kept.ends)
    if state.messages:
        last = len(before)
        tops.append(below(state, ends, ui) + marks.height(last))
        ends.append(tops[-1] + height(last))
    return tops, ends


def _alike(messages: Sequence[Message], others: Sequence[Message]) -> bool:
    """Tell whether they are the very same: to compare their texts would go through all
    versions."""
    return len(messages) == len(others) and all(map(is_, messages, others))


def _stacked(
    state: AppState, ui: Ui, marks: Unseen, width: float, height: Height
) -> tuple[list[float], list[float], bool]:
    """Place all messages but the last; return whether all were measured too."""
    heights, whole = _measured(state, ui, width, height)
    tops: list[float] = []
    ends: list[float] = []
    for index, tall in enumerate(reversed(heights)):
        tops.append(below(state, ends, ui) + marks.height(index))
        ends.append(tops[-1] + tall)
    return tops, ends, whole


def _measured(state: AppState, ui: Ui, width: float, height: Height) -> tuple[list[float], bool]:
    """Measure all messages but the last, the newest first. A long conversation that comes into the
    chat is measured from its end, in several frames; what is left is guessed."""
    known = ui.memory.get("heights", {})
    heights: list[float] = []
    left, whole = A_FRAME, True
    for index in range(len(state.messages) - 2, -1, -1):
        message = state.messages[index]
        if index not in known or known[index][0] is not message:
            left -= len(message.whole)
            if left < 0 and heights:
                heights.append(_guess(ui, message, width))
                whole = False
                continue
        heights.append(height(index))
    return heights, whole


def _guess(ui: Ui, message: Message, width: float) -> float:
    """Guess the height of a message by the length of its text."""
    lines = 1 + len(message.text) * ui.theme.text * 0.5 // width + message.text.count("\n")
    return float(lines * ui.theme.line + ui.u(8))


def hold_in_place(
    state: AppState, ui: Ui, follow: bool, tops: list[float], ends: list[float]
) -> None:
    """What is in sight stays there while heights are found: at the end, or where one has scrolled
    to. Dear ImGui would scroll there a frame later."""
    held = ui.local(HeldPlaces)
    chat, old, measuring = held.chat, held.tops, held.measuring
    held.chat, held.tops, held.measuring = state.chat, tops, ui.local(Stack).measuring
    moved = 0.0
    if follow and ends and (chat != state.chat or measuring):
        end = ends[-1] + ui.u(4) + ui.u(2)
        moved = max(0.0, end - imgui.get_window_height()) - imgui.get_scroll_y()
    elif chat == state.chat and measuring and len(old) == len(tops):
        first = max(0, bisect_right(old, imgui.get_scroll_y()) - 1)
        moved = tops[first] - old[first]
    if moved:
        window: Any = imgui.internal.get_current_window()
        window.scroll.y += moved
        window.dc.cursor_start_pos.y -= moved
        window.dc.cursor_max_pos.y -= moved


def below(state: AppState, ends: list[float], ui: Ui) -> float:
    """Return where the next message begins: an answer nearer to its question than a turn to the
    next."""
    if not ends:
        return ui.u(4)
    message = state.messages[len(ends)]
    if message.reply is not None:
        return ends[-1] + ui.u(1)
    return ends[-1] + ui.u(10 if message.role != "assistant" else 4)


def in_sight(tops: list[float], ends: list[float]) -> range:
    """The messages of which something is seen, or the line above them."""
    low = imgui.get_scroll_y()
    first, last = bisect_left(ends, low), bisect_right(tops, low + imgui.get_window_height())
    return range(first, min(last + 1, len(tops)))  # one whose line alone is in sight
