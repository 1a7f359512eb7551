"""The messages of the chat: only those in sight are drawn, all heights come from a cache."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from imgui_bundle import ImVec2, imgui
from msgspec import Struct

from llm_lite.core.errors import FileError
from llm_lite.core.files.places import expanded, user_folder
from llm_lite.core.plain_text import one_line
from llm_lite.desktop.features.attention.model import EndComparison
from llm_lite.desktop.features.chat.again import draw_other_writer
from llm_lite.desktop.features.chat.highlight import show_message
from llm_lite.desktop.features.chat.message import MessageItem
from llm_lite.desktop.features.chat.places import find_places, hold_in_place, in_sight
from llm_lite.desktop.features.chat.unseen import Unseen
from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.model import OpenLink, SaveText
from llm_lite.desktop.features.program.requests import versions
from llm_lite.desktop.features.program.state import AppState, Message
from llm_lite.desktop.features.selection.selecting import follow_selecting
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
from llm_lite.desktop.widgets.by_keyboard import FLAT
from llm_lite.desktop.widgets.icons import ICON_CHEVRON_DOWN, ICON_CLOSE
from llm_lite.desktop.widgets.markdown.code_frame import SAVE
from llm_lite.desktop.widgets.markdown.drawing import LINK
from llm_lite.desktop.widgets.markdown.rich_text import rich_text
from llm_lite.desktop.widgets.token_text import TokenPage, draw_boxes, lay_out
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import (
    button,
    column,
    icon_button,
    popover,
    primary_button,
    wrapped,
)


class CompareItem:
    """Both at their width: the height, and how they are drawn at the cursor."""

    def __init__(self, state: AppState, ui: Ui, index: int, width: float) -> None:
        assert state.comparing is not None
        kept = versions(state, index)
        self.ui, self.index, self.width = ui, index, width
        base = kept[min(state.comparing.base, len(kept) - 1)][0]
        self.pair = (base, state.messages[index])
        self.writing = state.running is not None
        self.parting = first_difference(*self.pair)
        self.column = float(round((width - ui.u(8)) / 2))
        self.pages = [
            _laid(ui, f"compare.{side}", message, self.column)
            for side, message in enumerate(self.pair)
        ]
        self.label = ui.theme.size("small") + ui.u(4)
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
        low, high = ImVec2(middle, at.y), ImVec2(middle, at.y + self.height - ui.u(4))
        draw.add_line(low, high, ui.color("border"), max(1.0, ui.u(0.25)))
        return self._draw_head(at)

    def _draw_head(self, at: ImVec2) -> list[Action]:
        """Titles, summary and the way out; they stay in sight while the answers scroll."""
        ui, draw = self.ui, imgui.get_window_draw_list()
        small, side = ui.theme.size("small"), ui.u(6)
        lowest = at.y + self.height - self.label
        y = min(max(at.y, imgui.get_window_pos().y + ui.u(1)), lowest)
        if y > at.y:
            low = ImVec2(at.x - ui.u(1), y - ui.u(1))
            high = ImVec2(at.x + self.width + ui.u(1), y + self.label)
            draw.add_rect_filled(low, high, ui.color("base"))
        for number, title in enumerate((tr("As it was"), tr("With your gains"))):
            spot = ImVec2(at.x + number * (self.column + ui.u(8)), y)
            draw.add_text(ui.fonts["bold"], small, spot, ui.color("muted"), title)
        self._draw_summary(ImVec2(at.x, y), small)
        imgui.set_cursor_screen_pos(ImVec2(at.x + self.width - side, y - ui.u(1.5)))
        hint = tr("Keep the answer at the right; the other stays beside it as a version")
        done = icon_button(ui, "compare.close", ICON_CLOSE, hint, side=side, style="small")
        return [EndComparison()] if done and not self.writing else []

    def _paint(self, token: int) -> tuple[int, int]:
        """What both said is plain; from where they diverge on, it is tinted."""
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


LINK_PANEL, SAVE_PANEL = "link", "code.save"
LONGEST = 4096  # characters of a path
OUTSIDE = mark(
    "It is shown by your browser, outside this program. The model wrote it: it may not lead where "
    "its words say."
)
SUFFIXES = {
    "python": "py",
    "javascript": "js",
    "typescript": "ts",
    "rust": "rs",
    "bash": "sh",
    "shell": "sh",
    "c++": "cpp",
    "c#": "cs",
    "ruby": "rb",
    "kotlin": "kt",
    "markdown": "md",
    "haskell": "hs",
    "perl": "pl",
    "latex": "tex",
    "text": "txt",
    "plaintext": "txt",
}


class Scroll(Struct):
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
    shown = (state.xray.shown, place, state.comparing, rich_text(ui).height_key(ui))
    key: tuple[Any, ...] = (width, ui.theme.text, state.answering is message, last, *shown)
    if message.calls and last:
        key = (*key, state.tools, ui.local(CallsShown).by_hand)
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


def draw_asked(ui: Ui) -> list[Action]:
    """The panels that a click in the text opened."""
    for wanted, panel in ((LINK, LINK_PANEL), (SAVE, SAVE_PANEL)):
        if wanted in ui.memory:
            ui.memory[f"{panel}.asked"] = ui.memory.pop(wanted)
            ui.memory[f"{panel}.at"] = ui.pointer
            ui.opened = panel
            if panel == SAVE_PANEL:
                _, language = ui.memory[f"{panel}.asked"]
                ui.memory[f"{panel}.path"] = one_line(str(default_path(language)))
    actions: list[Action] = []
    for panel, draw in ((LINK_PANEL, _draw_link), (SAVE_PANEL, _draw_save)):
        if f"{panel}.asked" in ui.memory:
            with ui.styled(item_spacing=(ui.u(2), ui.u(2))):  # that of the conversation is none
                actions += draw(ui)
    return actions


def default_path(language: str) -> Path:
    """In the documents, named by the moment and the language."""
    short = language.lower()
    suffix = SUFFIXES.get(short, short if re.fullmatch(r"[a-z0-9]{1,8}", short) else "txt")
    return user_folder("documents") / f"code-{time.strftime('%Y%m%d-%H%M%S')}.{suffix}"


def _place(ui: Ui, panel: str) -> ImVec2:
    x, y = ui.memory.get(f"{panel}.at", (0.0, 0.0))
    return ImVec2(x - ui.u(20), y + ui.u(4))


def _draw_link(ui: Ui) -> list[Action]:
    at = _place(ui, LINK_PANEL)
    with popover(ui, LINK_PANEL, tr("Open this address?"), at, ui.u(104)) as shown:
        if not shown:
            del ui.memory[f"{LINK_PANEL}.asked"]
            return []
        address: str = ui.memory[f"{LINK_PANEL}.asked"]
        wrapped(ui, tr(OUTSIDE))
        with ui.font("mono", "small"), ui.colored(text="text"):
            imgui.push_text_wrap_pos(0.0)
            imgui.text_unformatted(_breakable(address))
            imgui.pop_text_wrap_pos()
        opened = primary_button(ui, "link.open", tr("Open in the browser"))
        imgui.same_line()
        if button(ui, "link.copy", tr("Copy the address")):
            imgui.set_clipboard_text(address)
            imgui.close_current_popup()
        if opened:
            imgui.close_current_popup()
        return [OpenLink(address)] if opened else []


def _breakable(address: str) -> str:
    """On lines of at most 60 characters: an address has no words to break between."""
    return "\n".join(address[at : at + 60] for at in range(0, len(address), 60))


def _draw_save(ui: Ui) -> list[Action]:
    with popover(ui, SAVE_PANEL, tr("Save the code"), _place(ui, SAVE_PANEL), ui.u(104)) as shown:
        if not shown:
            del ui.memory[f"{SAVE_PANEL}.asked"]
            return []
        code, _ = ui.memory[f"{SAVE_PANEL}.asked"]
        imgui.set_next_item_width(-1)
        _, path = imgui.input_text(f"##{SAVE_PANEL}.path", ui.memory[f"{SAVE_PANEL}.path"])
        ui.mark(f"{SAVE_PANEL}.path")
        ui.memory[f"{SAVE_PANEL}.path"] = path = path[:LONGEST]
        wanted = path.strip()
        if not primary_button(ui, f"{SAVE_PANEL}.write", tr("Save"), enabled=bool(wanted)):
            return []
        imgui.close_current_popup()
        with suppress(FileError):  # of a home directory that is unknown the writer tells
            wanted = str(expanded(wanted))
        return [SaveText(wanted, code + "\n")]


def scroll_to_end(item: CompareItem, top: float) -> None:
    """To where the answer at the right ends: the other one may be much longer."""
    wanted = top + item.end - imgui.get_window_height()
    imgui.set_scroll_y(min(max(wanted, 0.0), imgui.get_scroll_max_y()))


def first_difference(base: Message, other: Message) -> int | None:
    """The first token where the two part; None while one is the beginning of the other, unless
    it has ended."""
    for number, (a, b) in enumerate(zip(base.tokens, other.tokens, strict=False)):
        if a.id != b.id:
            return number
    shorter = min(len(base.tokens), len(other.tokens))
    ended = all(message.stop_reason is not None for message in (base, other))
    return shorter if ended and len(base.tokens) != len(other.tokens) else None


def _laid(ui: Ui, name: str, message: Message, width: float) -> TokenPage:
    held: Any = ui.memory.get(name)
    key = (width, ui.theme.text)
    if held is None or held[0] is not message.whole or held[1] != key:
        spans = align(message.whole, message.pieces)
        held = (message.whole, key, lay_out(ui, message.whole, spans, width))
        ui.memory[name] = held
    page: TokenPage = held[2]
    return page
