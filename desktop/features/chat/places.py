"""Places of the messages in their list, in pixels from its top: which are in sight, which is to be
there, and the lines and bars about what the model no longer sees."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from operator import is_
from typing import Any

from imgui_bundle import ImVec2, imgui
from msgspec import Struct

from llm_lite.desktop.features.program.cached_text import unseen
from llm_lite.desktop.features.program.state import AppState, Message
from llm_lite.desktop.language.translate import mark, tr
from llm_lite.desktop.language.units import tokens
from llm_lite.desktop.widgets.icons import ICON_EYE, ICON_EYE_OFF
from llm_lite.desktop.widgets.markdown.rich_text import rich_text
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import fit

A_FRAME = 24_000  # characters of messages that are measured in one
Height = Callable[[int], float]  # of a message, by its index
GONE = mark("The model no longer sees this")
BACK = mark("From here on the model sees the conversation")


class Heights(Struct):
    """The heights of messages by index, in pixels, and what they were measured for."""

    found: dict[int, tuple[Message, object, float]] = {}


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
    appearance = rich_text(ui).height_key(ui)
    key = (width, ui.theme.text, marks.lost, state.comparing, state.xray.shown, appearance)
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
    known = ui.local(Heights).found
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
    state: AppState, ui: Ui, follows_end: bool, tops: list[float], ends: list[float]
) -> None:
    """Keep what is in sight there while heights are found: at the end, or where one has scrolled
    to. Dear ImGui would scroll there a frame later."""
    held = ui.local(HeldPlaces)
    chat, old, measuring = held.chat, held.tops, held.measuring
    held.chat, held.tops, held.measuring = state.chat, tops, ui.local(Stack).measuring
    moved = 0.0
    if follows_end and ends and (chat != state.chat or measuring):
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
    """Return the messages that are in sight, in part or by the line above them."""
    low = imgui.get_scroll_y()
    first, last = bisect_left(ends, low), bisect_right(tops, low + imgui.get_window_height())
    return range(first, min(last + 1, len(tops)))  # one whose line alone is in sight


class Scroll(Struct):
    """The scrolling of the list of messages."""

    chat: int | None = None
    follows_end: bool = True  # what is written is kept in sight
    bottom: float = 0.0  # the largest scroll when it was last drawn
    count: int = 0  # of messages


class WantedMessage(Struct):
    """The message that is to be in sight."""

    index: int | None = None


def bring_into_sight(ui: Ui, index: int | None) -> None:
    """Have message `index` in sight when the list is drawn next; None: stay where it is."""
    ui.local(WantedMessage).index = index


class Unseen:
    """Lines where the model's sight ends or begins, and bars beside what it lost."""

    def __init__(self, state: AppState, ui: Ui) -> None:
        self._ui, self.lost = ui, _lost(state, ui)

    def height(self, index: int) -> float:
        """Return the height of the line above message `index`; 0 where there is none."""
        return self._ui.theme.size("small") + self._ui.u(3) if self._words(index) else 0.0

    def draw(self, index: int, x: float, y: float, width: float) -> None:
        """Draw the line above message `index`, which begins at a place in the window."""
        words, icon = self._words(index), ICON_EYE_OFF if index in self.lost else ICON_EYE
        ui, height = self._ui, self.height(index)
        corner = imgui.get_window_pos()
        at = ImVec2(corner.x + x, corner.y + y - height - imgui.get_scroll_y())
        if not words or at.y + height < corner.y or at.y > corner.y + imgui.get_window_height():
            return
        _line(ui, at, width, f"{icon}  {words}", "warning" if index in self.lost else "muted")
        name = f"message.{index}.{'unseen' if index in self.lost else 'seen'}"
        ui.rects[name] = (at.x, at.y, at.x + width, at.y + height)

    def shade(self, index: int, x: float, y: float, width: float, height: float) -> None:
        """Draw a bar at the left of a message where some of its tokens were forgotten."""
        if index not in self.lost:
            return
        lost, whole = self.lost[index]
        ui, corner = self._ui, imgui.get_window_pos()
        low = ImVec2(corner.x + x - ui.u(3), corner.y + y - imgui.get_scroll_y())
        high = ImVec2(low.x + ui.u(0.75), low.y + height)
        color = ui.color("warning", 0.9 if lost == whole else 0.45)
        imgui.get_window_draw_list().add_rect_filled(low, high, color, ui.u(0.4))

    def _words(self, index: int) -> str:
        before = self.lost.get(index - 1)
        if index not in self.lost:
            return tr(BACK) if before else ""
        lost, whole = self.lost[index]
        if lost < whole:
            words = tr("The model no longer sees {tokens} of the {whole} that follow")
            return words.format(tokens=tokens(lost), whole=whole)
        return "" if before and before[0] == before[1] else tr(GONE)


class ForgottenMessages(Struct):
    """The messages with forgotten tokens, and what they were found for."""

    key: object = None
    lost: dict[int, tuple[int, int]] = {}


def _lost(state: AppState, ui: Ui) -> dict[int, tuple[int, int]]:
    """Return the messages with forgotten tokens: how many, and of how many. The result is kept
    until something else is forgotten."""
    text = state.in_front
    key = (text.forgotten, len(text.all_owners))
    kept = ui.local(ForgottenMessages)
    if kept.key != key:
        kept.key, kept.lost = key, unseen(text)
    return kept.lost


def _line(ui: Ui, at: ImVec2, width: float, words: str, color: str) -> None:
    """Draw words in the middle of a hairline."""
    draw, small = imgui.get_window_draw_list(), ui.theme.size("small")
    with ui.font(style="small"):
        words = fit(words, width - ui.u(8))
        room = imgui.calc_text_size(words).x
        left = round(at.x + (width - room) / 2)
        draw.add_text(ImVec2(left, at.y + ui.u(0.5)), ui.color(color), words)
    y, thick = round(at.y + ui.u(0.5) + small / 2), ui.u(0.25)
    for a, b in ((at.x, left - ui.u(2)), (left + room + ui.u(2), at.x + width)):
        if b > a:
            draw.add_rect_filled(ImVec2(a, y), ImVec2(b, y + thick), ui.color("border"))
