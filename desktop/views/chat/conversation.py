"""The messages of the chat: only those in sight are drawn, all heights come from a cache."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from imgui_bundle import ImVec2, imgui

from llm_lite.core.records import dataclass
from llm_lite.desktop.actions.act import Action
from llm_lite.desktop.language.translate import tr
from llm_lite.desktop.state.state import AppState, Message
from llm_lite.desktop.views.chat.again import draw_other_writer
from llm_lite.desktop.views.chat.asked import draw_asked
from llm_lite.desktop.views.chat.compare import CompareItem, scroll_to_end
from llm_lite.desktop.views.chat.highlight import show_message
from llm_lite.desktop.views.chat.message import MessageItem
from llm_lite.desktop.views.chat.places import find_places, hold_in_place, in_sight
from llm_lite.desktop.views.chat.unseen import Unseen
from llm_lite.desktop.views.selection.selecting import follow_selecting
from llm_lite.desktop.views.tokens.choice import draw_choice
from llm_lite.desktop.views.tokens.choices import draw_choices
from llm_lite.desktop.views.tokens.tokens import (
    TokenItem,
    draw_pointed,
    place_of,
)
from llm_lite.desktop.views.tools.calls import HAND
from llm_lite.desktop.views.tools.results import ResultItem
from llm_lite.desktop.widgets.by_keyboard import FLAT
from llm_lite.desktop.widgets.icons import ICON_CHEVRON_DOWN
from llm_lite.desktop.widgets.markdown.rich_text import rich_text
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import column


@dataclass(slots=True)
class Scroll:
    """Whether the view follows the answer, and the largest scroll when it was last drawn."""

    chat: int
    follow: bool = True
    bottom: float = 0.0
    count: int = 0


def draw_conversation(state: AppState, ui: Ui, height: float) -> list[Action]:
    """The scrolling list of messages, `height` pixels tall with the way back to its end."""
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
        heights = partial(_height, state, ui, width)
        tops, ends = find_places(state, ui, marks, width, heights)
        hold_in_place(state, ui, scroll.follow, tops, ends)
        show_message(ui, scroll, tops, ends)
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
        if scroll.follow:
            _follow(state, ui, tops, width)
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


def _follow(state: AppState, ui: Ui, tops: Sequence[float], width: float) -> None:
    """Keep the end of what is written in sight."""
    last = len(state.messages) - 1
    if state.comparing and state.comparing.index == last:
        scroll_to_end(CompareItem(state, ui, last, width), tops[last])
    else:
        imgui.set_scroll_here_y(1.0)


def _item(
    state: AppState, ui: Ui, index: int, message: Message, width: float
) -> MessageItem | TokenItem | CompareItem | ResultItem:
    """A message as it is to be shown."""
    if message.reply is not None and not state.xray.shown:
        return ResultItem(state, ui, index, message, width)
    if state.comparing and state.comparing.index == index:
        return CompareItem(state, ui, index, width)
    if state.xray.shown:
        return TokenItem(state, ui, index, message, width)
    return MessageItem(state, ui, index, message, width)


def _scroll(state: AppState, ui: Ui) -> Scroll:
    """Follow the end, until the person scrolls up; again from a new message or the end."""
    scroll: Scroll = ui.memory.setdefault("scroll", Scroll(state.chat))
    if scroll.chat != state.chat:
        scroll = ui.memory["scroll"] = Scroll(state.chat)
    at, wheel = imgui.get_scroll_y(), imgui.get_io().mouse_wheel
    wheeled = imgui.is_window_hovered() and wheel > 0 and imgui.get_scroll_max_y() > 0
    dragged = imgui.is_mouse_dragging(0) and at < scroll.bottom - ui.u(8)
    if wheeled or dragged:
        scroll.follow = False
    elif at >= scroll.bottom - ui.u(2):
        scroll.follow = True
    if len(state.messages) > scroll.count:
        scroll.follow = True
    scroll.count = len(state.messages)
    return scroll


def _height(state: AppState, ui: Ui, width: float, index: int) -> float:
    """Of one message; measured again only when it, the width or the text size changes."""
    message = state.messages[index]
    known: dict[int, Any] = ui.memory.setdefault("heights", {})
    place = place_of(state, ui, index) if state.xray.shown else None
    last = index == len(state.messages) - 1  # what is said at its end depends on that
    shown = (state.xray.shown, place, state.comparing, rich_text(ui).look(ui))
    key: tuple[Any, ...] = (width, ui.theme.text, state.answering is message, last, *shown)
    if message.calls and last:
        key = (*key, state.tools, ui.memory.get(HAND))
    held = known.get(index)
    if held is None or held[0] is not message or held[1] != key:
        height = _item(state, ui, index, message, width).height
        held = known[index] = (message, key, height)
    return float(held[2])


def _jump_height(state: AppState, ui: Ui) -> float:
    """Of the strip below the messages with the way to their end, in pixels; 0 at the end."""
    scroll: Scroll | None = ui.memory.get("scroll")
    if scroll is None or scroll.chat != state.chat or scroll.follow or scroll.bottom <= 0:
        return 0.0
    return ui.u(9)


def _draw_jump(ui: Ui, scroll: Scroll, height: float) -> None:
    """A button in a strip of its own: over the messages it would cover what is read."""
    corner, room = imgui.get_cursor_pos(), imgui.get_content_region_avail().x
    with ui.font(style="small"), ui.styled(frame_padding=(ui.u(3), ui.u(1.25))):
        words = f"{ICON_CHEVRON_DOWN}  {tr('To the end')}"
        width = imgui.calc_text_size(words).x + ui.u(6)
        x = corner.x + (room - width) / 2
        imgui.set_cursor_pos(ImVec2(x, corner.y + (height - imgui.get_frame_height()) / 2))
        with ui.colored(text="muted"):
            if imgui.button(f"{words}##jump", ImVec2(width, 0)):
                scroll.follow = True
        ui.mark("chat.jump")
    imgui.set_cursor_pos(corner)
    imgui.dummy(ImVec2(1, height))
