"""The messages of the chat: only those in sight are drawn, all heights come from a cache."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from imgui_bundle import ImVec2, imgui

from llm_lite.core.messages import GenerationStats
from llm_lite.desktop.actions.act import Action
from llm_lite.desktop.actions.chatting import ContinueAnswer, EditMessage
from llm_lite.desktop.language.core_words import said
from llm_lite.desktop.language.translate import mark, tr
from llm_lite.desktop.state.state import AppState, Message
from llm_lite.desktop.state.units import duration, rate, sentence, tokens
from llm_lite.desktop.views.attachments.shown import ShownFiles
from llm_lite.desktop.views.chat.again import draw_again, draw_other_writer, writer
from llm_lite.desktop.views.chat.asked import draw_asked
from llm_lite.desktop.views.chat.compare import CompareItem, scroll_to_end
from llm_lite.desktop.views.chat.highlight import draw_highlight, show_message
from llm_lite.desktop.views.chat.places import find_places, hold_in_place, in_sight
from llm_lite.desktop.views.chat.thoughts import ThoughtFold
from llm_lite.desktop.views.chat.unseen import Unseen
from llm_lite.desktop.views.selection.selecting import draw_page, follow_selecting
from llm_lite.desktop.views.selection.selection import SAID
from llm_lite.desktop.views.tokens.choice import draw_choice
from llm_lite.desktop.views.tokens.choices import draw_choices, draw_choices_button
from llm_lite.desktop.views.tokens.tokens import (
    TokenItem,
    draw_pointed,
    draw_versions,
    place_of,
    versions_width,
)
from llm_lite.desktop.views.tools.calls import HAND, CallCards
from llm_lite.desktop.views.tools.results import ResultItem
from llm_lite.desktop.views.tree.roles import draw_role
from llm_lite.desktop.widgets.by_keyboard import FLAT, is_on_its_way
from llm_lite.desktop.widgets.icons import (
    ICON_CHEVRON_DOWN,
    ICON_CONTINUE,
    ICON_EDIT,
    ICON_SPARKLES,
    ICON_WARNING,
)
from llm_lite.desktop.widgets.markdown.code_frame import copy_button
from llm_lite.desktop.widgets.markdown.rich_text import Page, rich_text
from llm_lite.desktop.widgets.theme import MEASURE
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import fit, icon_button, meter, tip

ENDINGS = {
    "stop string": mark("Ended before a stop string."),
    "length": mark("Reached the limit of new tokens."),
    "context": mark("The context is full."),
    "stopped": mark("Stopped."),
    "error": mark("The answer could not be finished."),
}

MORE = mark("Continue makes more.")
REUSE = mark(
    "So much of what the model had to read was in the cache already and was not read again."
)


@dataclass(slots=True)
class Scroll:
    """Whether the view follows the answer, and the largest scroll when it was last drawn."""

    chat: int
    follow: bool = True
    bottom: float = 0.0
    count: int = 0


def column(ui: Ui) -> tuple[float, float]:
    """Offset and width of the reading column in the current window."""
    room = imgui.get_content_region_avail().x
    width = min(room - ui.u(6), float(round(MEASURE * ui.theme.text)))
    return float(round((room - width) / 2)), width


def draw_conversation(state: AppState, ui: Ui, height: float) -> list[Action]:
    """The scrolling list of messages, `height` pixels tall."""
    actions: list[Action] = []
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
    actions += draw_choice(state, ui) + draw_asked(ui) + draw_other_writer(state, ui)
    actions += draw_choices(state, ui)
    _jump_button(ui, scroll)
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
) -> _Item | TokenItem | CompareItem | ResultItem:
    """A message as it is to be shown."""
    if message.reply is not None and not state.xray.shown:
        return ResultItem(state, ui, index, message, width)
    if state.comparing and state.comparing.index == index:
        return CompareItem(state, ui, index, width)
    if state.xray.shown:
        return TokenItem(state, ui, index, message, width)
    return _Item(state, ui, index, message, width)


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


def _jump_button(ui: Ui, scroll: Scroll) -> None:
    low, high = imgui.get_item_rect_min(), imgui.get_item_rect_max()
    if scroll.follow or scroll.bottom <= 0:
        return
    side = ui.u(8)
    back = imgui.get_cursor_screen_pos()
    spot = ImVec2((low.x + high.x - side) / 2, high.y - side - ui.u(2))
    imgui.set_cursor_screen_pos(spot)
    imgui.set_next_item_allow_overlap()
    imgui.begin_child("jump", ImVec2(side, side), 0, imgui.WindowFlags_.no_background)
    draw, middle = imgui.get_window_draw_list(), ImVec2(spot.x + side / 2, spot.y + side / 2)
    draw.add_circle_filled(middle, side / 2, ui.color("raised"))
    draw.add_circle(middle, side / 2 - 1, ui.color("border"), 0, ui.u(0.25))
    with ui.styled(frame_rounding=side / 2):
        if icon_button(ui, "chat.jump", ICON_CHEVRON_DOWN, tr("To the end"), side=side):
            scroll.follow = True
    imgui.end_child()
    imgui.set_cursor_screen_pos(back)


def reuse(stats: GenerationStats) -> str:
    if not stats.reused_tokens or not stats.prompt_tokens:
        return ""
    return tr("{share:.0%} reused").format(share=stats.reused_tokens / stats.prompt_tokens)


class _Item:
    """One message at its width: its height, and how it is drawn at the cursor."""

    def __init__(self, state: AppState, ui: Ui, index: int, message: Message, width: float) -> None:
        self.state, self.ui, self.index, self.message = state, ui, index, message
        self.width, self.user = width, message.role != "assistant"
        self.last = index == len(state.messages) - 1
        self.writing = self.last and state.answering is message
        self.row, self.left, self.tools = ui.u(7), 0.0, False
        # Beside a question there is room for its buttons.
        room = min(width * 0.84, width - ui.u(15)) - ui.u(7) if self.user else width
        self.page: Page = rich_text(ui).page(
            ui, message.markdown, float(round(room)), plain=self.user, live=self.writing
        )
        self.label = 0.0 if message.role == "user" else ui.theme.size("small") + ui.u(2)
        self.fold = ThoughtFold(ui, index, message.thought, width, self.writing)
        self.files = ShownFiles(ui, index, message, width)
        self.cards = CallCards(state, ui, index, message, width)
        self.height = self._height() + self.files.height

    def _height(self) -> float:
        if self.user:
            tools = self.row if self.message.versions else 0.0
            return self.label + self.page.height + self.ui.u(4) + tools
        text = self.page.height
        if self.writing:
            text = max(text, self.ui.theme.line) + (0 if self.message.text else self.ui.u(4))
        if self.fold.live or (self.cards.height and not self.message.text):
            text = 0.0
        above = self.label + self.fold.height + text + self.cards.height
        return above + self._ending_height() + self.row + self.ui.u(1)

    def _ending(self) -> str:
        reason = self.message.stop_reason
        if self.message.problem or reason is None or reason == "end":
            return sentence(said(self.message.problem))
        words = tr(ENDINGS[reason])
        return f"{words} {tr(MORE)}" if reason == "length" and self.last else words

    def _ending_height(self) -> float:
        words = self._ending()
        if not words:
            return 0.0
        with self.ui.font(style="small"):
            wrap = imgui.calc_text_size(words, wrap_width=self.width - self.ui.u(6))
        return wrap.y + self.ui.u(2)

    def draw(self) -> list[Action]:
        at = imgui.get_cursor_screen_pos()
        held = imgui.HoveredFlags_.allow_when_blocked_by_active_item  # a button being pressed
        hovered = imgui.is_window_hovered(held) and imgui.is_mouse_hovering_rect(
            at, ImVec2(at.x + self.width, at.y + self.height)
        )
        name = f"message.{self.index}"
        self.ui.rects[name] = (at.x, at.y, at.x + self.width, at.y + self.height)
        hovered = hovered or is_on_its_way()
        self.tools = hovered or self.last
        return self._draw_user(at, hovered) if self.user else self._draw_answer(at)

    def _draw_user(self, at: ImVec2, hovered: bool) -> list[Action]:
        ui, page = self.ui, self.page
        if self.label:
            draw_role(ui, self.message.role, at.x + self.width, at.y)
            at = ImVec2(at.x, at.y + self.label)
        pad_x, pad_y = ui.u(3.5), ui.u(2)
        width = page.width + pad_x * 2
        actions = self.files.draw(at)
        at = ImVec2(at.x, at.y + self.files.height)
        low = ImVec2(at.x + self.width - width, at.y)
        high = ImVec2(at.x + self.width, at.y + page.height + pad_y * 2)
        draw = imgui.get_window_draw_list()
        edited = self.state.editing == self.index
        if self.message.text:
            draw.add_rect_filled(low, high, ui.color("bubble"), ui.u(3))
        if edited:
            draw.add_rect(low, high, ui.color("accent"), ui.u(3), ui.u(0.5))
        draw_highlight(self.state, ui, self.index, page, low.x + pad_x, low.y + pad_y)
        name = f"user.{self.index}"
        spot = (low.x + pad_x, low.y + pad_y)
        draw_page(self.state, ui, (self.index, SAID), page, spot, page.width, name)
        side = ui.u(6)
        if self.message.versions:
            left = high.x - versions_width(self.message, ui)
            imgui.set_cursor_screen_pos(ImVec2(left, high.y + ui.u(0.5)))
            actions += draw_versions(self.state, ui, self.index)
        if not hovered:
            return actions
        top = high.y - pad_y - (ui.theme.line + side) / 2  # beside the last line
        imgui.set_cursor_screen_pos(ImVec2(low.x - side * 2 - ui.u(2), round(top)))
        name = f"message.{self.index}"
        clicked = icon_button(
            ui, f"{name}.edit", ICON_EDIT, tr("Edit and ask again"), side=side, style="small"
        )
        imgui.same_line(0, ui.u(1))
        copy_button(ui, f"{name}.copy", self.message.text, tr("Copy the message"), side)
        return [*actions, EditMessage(self.index)] if clicked else actions

    def _draw_answer(self, at: ImVec2) -> list[Action]:
        ui = self.ui
        self.left = at.x
        self._draw_label(at)
        folded = self.fold.draw(self.state, ImVec2(at.x, at.y + self.label))
        y = at.y + self.label + self.fold.height
        draw_highlight(self.state, ui, self.index, self.page, at.x, y)
        spot, name = (at.x, y), f"answer.{self.index}"
        draw_page(self.state, ui, (self.index, SAID), self.page, spot, self.width, name)
        if self.writing and not self.cards.height:
            if not self.fold.live:
                self._draw_writing(at.x, y)
            return folded
        y += self.page.height if self.message.text else 0.0
        folded += self.cards.draw(ImVec2(at.x, y))
        y += self.cards.height
        if self.writing:
            return folded
        if words := self._ending():
            self._draw_ending(words, at.x, y + ui.u(2))
            y += self._ending_height()
        imgui.set_cursor_screen_pos(ImVec2(at.x - ui.u(1.5), y + ui.u(1)))
        return folded + self._draw_tools()

    def _draw_label(self, at: ImVec2) -> None:
        ui, draw, small = self.ui, imgui.get_window_draw_list(), self.ui.theme.size("small")
        font = ui.fonts["bold"]
        draw.add_text(font, small, at, ui.color("accent"), ICON_SPARKLES)
        spot = ImVec2(at.x + small + ui.u(1.5), at.y)
        draw.add_text(font, small, spot, ui.color("muted"), writer(self.state, self.message))

    def _draw_writing(self, x: float, y: float) -> None:
        """The caret at the end of the text, or what is being waited for."""
        ui, draw, running = self.ui, imgui.get_window_draw_list(), self.state.running
        assert running is not None
        if self.message.text:
            runs = [(top, run) for top, laid in self.page.blocks for run in laid.runs]
            if runs:
                top, run = runs[-1]
                end = x + run.x + run.width + ui.u(2)
                spot = ImVec2(end, y + top + run.y + ui.theme.text / 2)
                draw.add_circle_filled(spot, ui.u(1), ui.color("accent"))
            return
        words = tr("Waiting for the engine")
        if running.phase != "waiting":
            words = tr("Reading the prompt: {n} of {whole} tokens")
            words = words.format(n=running.done, whole=running.prompt_tokens)
        if running.phase == "decode":
            words = tr("Thinking of the first word")
        with ui.font(style="small"):
            draw.add_text(ImVec2(x, y + ui.u(0.5)), ui.color("muted"), words)
        if running.phase == "prefill" and running.prompt_tokens:
            imgui.set_cursor_screen_pos(ImVec2(x, y + ui.theme.line + ui.u(0.5)))
            meter(ui, running.done / running.prompt_tokens, min(self.width, ui.u(60)), ui.u(1))
            ui.mark("chat.prefill")

    def _draw_ending(self, words: str, x: float, y: float) -> None:
        ui, draw, small = self.ui, imgui.get_window_draw_list(), self.ui.theme.size("small")
        bad = self.message.stop_reason in ("error", "context")
        font, color = ui.fonts["regular"], ui.color("warning" if bad else "muted")
        if bad:
            draw.add_text(font, small, ImVec2(x, y), color, ICON_WARNING)
            x += small + ui.u(1.5)
        draw.add_text(font, small, ImVec2(x, y), color, words, self.width - ui.u(6))

    def _draw_tools(self) -> list[Action]:
        ui, name, side = self.ui, f"message.{self.index}", self.ui.u(6)
        actions: list[Action] = []
        imgui.begin_group()
        copy_button(ui, f"{name}.copy", self.message.text, tr("Copy the answer"), side)
        if self.tools and not self.state.busy:
            actions += draw_again(self.state, ui, self.index, side)
            draw_choices_button(self.state, ui, self.index, side)
        if self.last and not self.state.busy and not self.cards.asks:
            imgui.same_line(0, ui.u(1))
            hint = tr("Continue from where the answer ended")
            if icon_button(ui, "chat.continue", ICON_CONTINUE, hint, side=side, style="small"):
                actions.append(ContinueAnswer())
        if self.message.versions:
            imgui.same_line(0, ui.u(1))
            actions += draw_versions(self.state, ui, self.index)
        self._draw_stats(side)
        imgui.end_group()
        return actions

    def _draw_stats(self, side: float) -> None:
        stats, ui = self.message.stats, self.ui
        if stats is None or not stats.new_tokens:
            return
        first = tr("first after {time}").format(time=duration(stats.ttft_ms))
        parts = (tokens(stats.new_tokens), f"{rate(stats.decode_tok_s)} tok/s", first, reuse(stats))
        words = "  ·  ".join(filter(None, parts))
        imgui.same_line(0, ui.u(2))
        at = imgui.get_cursor_screen_pos()
        small = ui.theme.size("small")
        spot = ImVec2(at.x, at.y + (side - small) / 2)
        draw = imgui.get_window_draw_list()
        with ui.font(style="small"):
            words = fit(words, self.left + self.width - at.x)
            imgui.dummy(imgui.calc_text_size(words))
        ui.mark(f"message.{self.index}.stats")
        tip(ui, tr(REUSE) if stats.reused_tokens else "")
        draw.add_text(ui.fonts["regular"], small, spot, ui.color("muted"), words)
