"""The list of messages: only those in sight are drawn, all heights come from a cache; two answers
beside each other."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from imgui_bundle import ImVec2, imgui
from msgspec import Struct

from llm_lite.desktop.features.chat.message import MessageItem
from llm_lite.desktop.features.chat.panels import draw_asked, draw_other_writer
from llm_lite.desktop.features.chat.places import (
    Heights,
    Scroll,
    Stack,
    Unseen,
    WantedMessage,
    bring_into_sight,
    find_places,
    hold_in_place,
    in_sight,
)
from llm_lite.desktop.features.history.model import Reveal
from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.state import AppState, Message
from llm_lite.desktop.features.selection.selecting import follow_selecting
from llm_lite.desktop.features.steer.model import DIVERGENCE, EndComparison
from llm_lite.desktop.features.tokens.choices import draw_choices
from llm_lite.desktop.features.tokens.state import align
from llm_lite.desktop.features.tokens.tokens import (
    TokenItem,
    draw_choice,
    draw_pointed,
    place_of,
)
from llm_lite.desktop.features.tools.calls import CallsShown, ResultItem
from llm_lite.desktop.language.translate import mark, tr
from llm_lite.desktop.language.units import nats
from llm_lite.desktop.widgets.by_keyboard import FLAT
from llm_lite.desktop.widgets.icons import ICON_CHEVRON_DOWN, ICON_CLOSE
from llm_lite.desktop.widgets.markdown.rich_text import rich_text
from llm_lite.desktop.widgets.token_text import TokenPage, draw_boxes, lay_out
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import column, fit, icon_button, tip

OVER_ALL = mark(
    "KL divergence of the next token's probabilities, the changes as they were against those as "
    "they are now, at every token of the answer at the left: both read that answer, whatever each "
    "would have said. 0 means that nothing changes."
)


class CompareItem:
    """Two answers beside each other at their width: the height, and how they are drawn at the
    cursor."""

    def __init__(self, state: AppState, ui: Ui, index: int, width: float) -> None:
        assert state.comparing is not None
        self.ui, self.index, self.width = ui, index, width
        base = state.tree.find(state.comparing.base)
        self.pair = (base or state.messages[index], state.messages[index])
        self.writing = state.running is not None
        self.parting = first_difference(*self.pair)
        self.column = float(round((width - ui.u(8)) / 2))
        self.pages = [
            _laid(ui, side, message, self.column) for side, message in enumerate(self.pair)
        ]
        self.label = 2 * ui.theme.size("small") + ui.u(5.5)
        self.apart = _how_far(state)
        tallest = max(page.height for page in self.pages)
        self.height = self.label + tallest + ui.u(4)
        self.end = self.label + self.pages[1].height + ui.u(8)  # of the answer at the right

    def draw(self) -> list[Action]:
        ui, at = self.ui, imgui.get_cursor_screen_pos()
        draw = imgui.get_window_draw_list()
        ui.rects["compare"] = (at.x, at.y, at.x + self.width, at.y + self.height)
        for side, page in enumerate(self.pages):
            x = at.x + side * (self.column + ui.u(8))
            draw_boxes(
                ui, page, (x, at.y + self.label), self._paint, {}, imgui.get_window_draw_list()
            )
        middle = at.x + self.column + ui.u(4)
        low = ImVec2(middle, at.y + self.label - ui.u(1))  # below the head, whose words are wide
        high = ImVec2(middle, at.y + self.height - ui.u(4))
        draw.add_line(low, high, ui.color("border"), max(1.0, ui.u(0.25)))
        return self._draw_head(at)

    def _draw_head(self, at: ImVec2) -> list[Action]:
        """Draw titles, summary and the way out; they stay in sight while the answers scroll."""
        ui, draw = self.ui, imgui.get_window_draw_list()
        small, side = ui.theme.size("small"), ui.u(6)
        lowest = at.y + self.height - self.label
        y = min(max(at.y, imgui.get_window_pos().y + ui.u(1)), lowest)
        if y > at.y:
            low = ImVec2(at.x - ui.u(1), y - ui.u(1))
            high = ImVec2(at.x + self.width + ui.u(1), y + self.label)
            draw.add_rect_filled(low, high, ui.color("base"))
        for number, title in enumerate((tr("As it was"), tr("With your changes"))):
            spot = ImVec2(at.x + number * (self.column + ui.u(8)), y)
            draw.add_text(ui.fonts["bold"], small, spot, ui.color("muted"), title)
        self._draw_summary(ImVec2(at.x, y), small)
        self._draw_apart(ImVec2(at.x, y + small + ui.u(1.5)))
        imgui.set_cursor_screen_pos(ImVec2(at.x + self.width - side, y - ui.u(1.5)))
        hint = tr("Keep the answer at the right; the other stays beside it as a version")
        done = icon_button(ui, "compare.close", ICON_CLOSE, hint, side=side, style="small")
        return [EndComparison()] if done and not self.writing else []

    def _draw_apart(self, at: ImVec2) -> None:
        """Draw how far the interventions are apart over all of the answer at the left."""
        ui = self.ui
        with ui.font(style="small"):
            shown = fit(self.apart, self.width)
            imgui.get_window_draw_list().add_text(at, ui.color("muted"), shown)
        imgui.set_cursor_screen_pos(at)
        imgui.dummy(ImVec2(max(self.width, 1.0), ui.theme.size("small")))
        ui.mark("compare.divergence")
        tip(ui, tr(OVER_ALL))

    def _paint(self, token: int) -> tuple[int, int]:
        """Return the colours behind a token and of it: plain where both answers have it, tinted
        from where they diverge."""
        ui = self.ui
        if self.parting is None or token < self.parting:
            return 0, ui.color("text")
        if token == self.parting:
            return ui.color("accent"), ui.color("on_accent")
        return ui.color("accent", 0.2), ui.color("text")

    def _draw_summary(self, at: ImVec2, small: float) -> None:
        ui = self.ui
        if self.parting is not None:
            words = tr("diverge at token {n}").format(n=self.parting + 1)
        elif self.writing:
            words = tr("the same so far")
        else:
            words = tr("the same, token for token")
        with ui.font(style="small"):
            x = at.x + self.width - imgui.calc_text_size(words).x - ui.u(8)
        draw = imgui.get_window_draw_list()
        draw.add_text(ui.fonts["regular"], small, ImVec2(x, at.y), ui.color("muted"), words)


def _how_far(state: AppState) -> str:
    """Return how far the interventions are apart over the answer that is compared, in words."""
    if DIVERGENCE.waiting(state) is not None:
        return tr("The KL over the whole answer is being measured.")
    found = DIVERGENCE.answer(state)
    if found is None or not found.kl:
        return ""
    mean = nats(sum(found.kl) / len(found.kl))
    words = tr("KL {kl} nats a token, the mean over {n:,} tokens of the answer at the left")
    return words.format(kl=mean, n=len(found.kl))


def scroll_to_end(item: CompareItem, top: float) -> None:
    """Scroll to where the answer at the right ends: the other one may be much longer."""
    wanted = top + item.end - imgui.get_window_height()
    imgui.set_scroll_y(min(max(wanted, 0.0), imgui.get_scroll_max_y()))


def first_difference(base: Message, other: Message) -> int | None:
    """Return the first token where the two part; None while one is the beginning of the other,
    unless both have ended."""
    for number, (a, b) in enumerate(zip(base.tokens, other.tokens, strict=False)):
        if a.id != b.id:
            return number
    shorter = min(len(base.tokens), len(other.tokens))
    ended = all(message.stop_reason is not None for message in (base, other))
    return shorter if ended and len(base.tokens) != len(other.tokens) else None


class ComparedPages(Struct):
    """The two answers laid out, each with the text and the key that it was laid out for."""

    known: dict[int, tuple[str, object, TokenPage]] = {}


def _laid(ui: Ui, side: int, message: Message, width: float) -> TokenPage:
    pages, key = ui.local(ComparedPages).known, (width, ui.theme.text)
    held = pages.get(side)
    if held is None or held[0] is not message.whole or held[1] != key:
        spans = align(message.whole, message.pieces)
        held = pages[side] = (message.whole, key, lay_out(ui, message.whole, spans, width))
    return held[2]


def draw_conversation(state: AppState, ui: Ui, height: float) -> list[Action]:
    """Draw the scrolling list of messages, `height` pixels tall with the way back to its end."""
    actions: list[Action] = []
    strip = _jump_height(state, ui)
    height -= strip
    flags = imgui.WindowFlags_.no_saved_settings
    offset, width = column(ui)  # before the scrollbar takes its part: in line with the input
    with ui.styled(window_padding=(0.0, 0.0)):
        imgui.begin_child("conversation", ImVec2(0, height), FLAT, flags)
        scroll = _scroll(state, ui)
        rich_text(ui).begin(ui)
        marks = Unseen(state, ui)
        heights = partial(_height, state, ui, width, ui.local(Heights))
        tops, ends = find_places(state, ui, marks, width, heights)
        hold_in_place(state, ui, scroll.follows_end, tops, ends)
        _show_wanted(ui, scroll, tops, ends)
        for index in in_sight(tops, ends):
            y, height = tops[index], ends[index] - tops[index]
            marks.draw(index, offset, y, width)
            marks.shade(index, offset, y, width, height)
            imgui.set_cursor_pos(ImVec2(offset, y))
            imgui.push_id(index)
            actions += _item(state, ui, index, state.messages[index], width).draw()
            imgui.pop_id()
        imgui.set_cursor_pos(ImVec2(0, (ends[-1] if ends else 0.0) + ui.u(4)))
        imgui.dummy(ImVec2(1, ui.u(2)))
        actions += follow_selecting(state, ui, scroll)
        if scroll.follows_end:
            _keep_end_in_sight(state, ui, tops, width)
        if state.xray.shown:
            actions += draw_pointed(state, ui)
        scroll.bottom = imgui.get_scroll_max_y()
        imgui.end_child()
        ui.mark("chat.messages")
    actions += draw_choice(state, ui) + draw_asked(ui) + draw_other_writer(state, ui)
    actions += draw_choices(state, ui)
    if strip:
        _draw_jump(ui, scroll, strip)
    return actions


def _show_wanted(ui: Ui, scroll: Scroll, tops: Sequence[float], ends: Sequence[float]) -> None:
    """Bring the message that was asked for into sight, if it is not there; they lie from `tops` to
    `ends`."""
    wanted = ui.local(WantedMessage)
    index = wanted.index
    if index is None or not 0 <= index < len(tops):
        return
    wanted.index = None
    y, height = tops[index], ends[index] - tops[index]
    top, room = imgui.get_scroll_y(), imgui.get_window_height()
    if y < top or y + min(height, room / 2) > top + room:
        scroll.follows_end = False
        imgui.set_scroll_y(max(0.0, y - room / 4))


class Revealing(Struct):
    message: int | None = None  # the id of the one that the last frame was to show


def show_found(state: AppState, ui: Ui) -> list[Action]:
    """Bring the message that a search has found into sight, once its place is known."""
    message = state.history.reveal
    if message is None:
        return []
    revealing = ui.local(Revealing)
    if revealing.message != message or ui.local(Stack).measuring:
        revealing.message = message
        ui.redraw_in(0.0)
        return []
    revealing.message = None
    bring_into_sight(ui, state.tree.index(message))
    return [Reveal(None)]


def _keep_end_in_sight(state: AppState, ui: Ui, tops: Sequence[float], width: float) -> None:
    """Keep the end of what is written in sight."""
    last = len(state.messages) - 1
    if state.comparing:
        scroll_to_end(CompareItem(state, ui, last, width), tops[last])
    else:
        imgui.set_scroll_here_y(1.0)


def _item(
    state: AppState, ui: Ui, index: int, message: Message, width: float
) -> MessageItem | TokenItem | CompareItem | ResultItem:
    """Return a message as it is to be shown."""
    if message.reply is not None and not state.xray.shown:
        return ResultItem(state, ui, index, message, width)
    if state.comparing and index == len(state.messages) - 1:
        return CompareItem(state, ui, index, width)
    if state.xray.shown:
        return TokenItem(state, ui, index, message, width)
    return MessageItem(state, ui, index, message, width)


def _scroll(state: AppState, ui: Ui) -> Scroll:
    """Follow the end, until the person scrolls up; again from a new message or the end."""
    scroll = ui.local(Scroll)
    if scroll.chat != state.chat:
        scroll.chat, scroll.follows_end, scroll.bottom, scroll.count = state.chat, True, 0.0, 0
    at, wheel = imgui.get_scroll_y(), imgui.get_io().mouse_wheel
    wheeled = imgui.is_window_hovered() and wheel > 0 and imgui.get_scroll_max_y() > 0
    dragged = imgui.is_mouse_dragging(0) and at < scroll.bottom - ui.u(8)
    if wheeled or dragged:
        scroll.follows_end = False
    elif at >= scroll.bottom - ui.u(2):
        scroll.follows_end = True
    if len(state.messages) > scroll.count:
        scroll.follows_end = True
    scroll.count = len(state.messages)
    return scroll


def _height(state: AppState, ui: Ui, width: float, known: Heights, index: int) -> float:
    """Return the height of one message. It is measured again only when the message, the width or
    the text size changes."""
    path = state.tree.path
    message, last = path[index], index == len(path) - 1  # what is said at its end depends on that
    place = place_of(state, ui, index) if state.xray.shown else None
    shown = (state.xray.shown, place, state.comparing, rich_text(ui).height_key(ui))
    writing = last and state.answering is message
    key: tuple[Any, ...] = (width, ui.theme.text, writing, last, *shown)
    if message.calls and last:
        key = (*key, state.tools, ui.local(CallsShown).by_hand)
    held = known.found.get(index)
    if held is None or held[0] is not message or held[1] != key:
        height = _item(state, ui, index, message, width).height
        held = known.found[index] = (message, key, height)
    return held[2]


def _jump_height(state: AppState, ui: Ui) -> float:
    """Return the height of the strip below the messages with the way to their end, in pixels; 0 at
    the end."""
    scroll = ui.local(Scroll)
    if scroll.chat != state.chat or scroll.follows_end or scroll.bottom <= 0:
        return 0.0
    return ui.u(9)


def _draw_jump(ui: Ui, scroll: Scroll, height: float) -> None:
    """Draw a button in a strip of its own: over the messages it would cover what is read."""
    corner, room = imgui.get_cursor_pos(), imgui.get_content_region_avail().x
    with ui.font(style="small"), ui.styled(frame_padding=(ui.u(3), ui.u(1.25))):
        words = f"{ICON_CHEVRON_DOWN}  {tr('To the end')}"
        width = imgui.calc_text_size(words).x + ui.u(6)
        x = corner.x + (room - width) / 2
        imgui.set_cursor_pos(ImVec2(x, corner.y + (height - imgui.get_frame_height()) / 2))
        with ui.colored(text="muted"):
            if imgui.button(f"{words}##jump", ImVec2(width, 0)):
                scroll.follows_end = True
        ui.mark("chat.jump")
    imgui.set_cursor_pos(corner)
    imgui.dummy(ImVec2(1, height))
