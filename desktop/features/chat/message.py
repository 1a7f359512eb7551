"""One message as it is read: who wrote it, its thoughts, its text, in which a token is marked that
is pointed at elsewhere, how it ended, and what can be done with it."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence
from typing import Any

from imgui_bundle import ImVec2, imgui
from msgspec import Struct

from llm_lite.core.messages import AnswerRun, GenerationStats
from llm_lite.core.records import replace
from llm_lite.desktop.features.attachments.shown import ShownFiles
from llm_lite.desktop.features.chat.model import (
    ContinueAnswer,
    EditMessage,
    Regenerate,
    UnfoldThought,
)
from llm_lite.desktop.features.chat.panels import change_words, open_other_writer
from llm_lite.desktop.features.chat.state import Thought
from llm_lite.desktop.features.commands.keys import with_keys
from llm_lite.desktop.features.history.model import ForkConversation
from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.state import AppState, Message
from llm_lite.desktop.features.selection.selecting import draw_page
from llm_lite.desktop.features.selection.selection import SAID, THOUGHT
from llm_lite.desktop.features.tokens.choices import draw_choices_button
from llm_lite.desktop.features.tokens.state import passage
from llm_lite.desktop.features.tokens.tokens import (
    draw_versions,
    has_versions,
    place_of,
    versions_width,
)
from llm_lite.desktop.features.tools.calls import CallCards
from llm_lite.desktop.features.tree.roles import draw_role
from llm_lite.desktop.language.core_words import translated
from llm_lite.desktop.language.translate import mark, tr
from llm_lite.desktop.language.units import duration, rate, sentence, tokens
from llm_lite.desktop.widgets.by_keyboard import is_on_its_way, press_area
from llm_lite.desktop.widgets.icons import (
    ICON_BRANCH,
    ICON_CHEVRON_DOWN,
    ICON_CHEVRON_RIGHT,
    ICON_CONTINUE,
    ICON_DICE,
    ICON_EDIT,
    ICON_INFO,
    ICON_REGENERATE,
    ICON_SPARKLES,
    ICON_WARNING,
)
from llm_lite.desktop.widgets.markdown.code_frame import copy_button
from llm_lite.desktop.widgets.markdown.rich_text import Page, rich_text
from llm_lite.desktop.widgets.scripts import cannot_draw
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import fit, icon_button, meter, tip

LIVE_LINES = 2
EMPTY_LINES = re.compile(r"\n\s*\n")
HINT = mark("The model's reasoning before its answer. Later turns leave it out of the prompt.")
ENDINGS = {
    "stop string": mark("Stopped at a stop string."),
    "role": mark("Ended where the model began to write as somebody else."),
    "repetition": mark("Ended: the answer was repeating itself."),
    "length": mark("Reached the limit of max tokens."),
    "context": mark("The context is full."),
    "stopped": mark("Stopped."),
    "error": mark("The answer could not be finished."),
}
MORE = mark("Press Continue for more.")
REUSE = mark(
    "This share of the prompt was in the KV cache already (prefix reuse) and was not "
    "computed again."
)
REGENERATE = mark("Regenerate; a new seed gives another answer")
EXACTLY = mark("Regenerate exactly: the same seed, sampling and interventions")
EDIT = mark("Edit the answer; the model's version is kept")
FORK = mark("Fork to a new conversation: a copy of this one up to here")
REACH = 64  # characters in which what is shown next is looked for
WORDS = re.compile(r"\s+|\S+")
Span = tuple[int, int]  # of characters
Mark = tuple[float, float, float, float]  # x, y, width, height within the page


class ThoughtFold:
    """The thoughts of message `index` in `width` pixels; of no height where there are none."""

    def __init__(
        self, ui: Ui, index: int, thought: Thought | None, width: float, writing: bool
    ) -> None:
        self.ui, self.index, self.thought, self.width = ui, index, thought, width
        self.live = bool(writing and thought and thought.going_on)
        self.row = ui.u(7)
        self.page: Page | None = None
        if thought is None or not thought.text:
            return
        if thought.unfolded or self.live:
            rich = rich_text(ui, "thoughts")
            room = float(round(width))
            # Of two lines none is to be empty.
            words = thought.text if thought.unfolded else EMPTY_LINES.sub("\n", thought.text)
            self.page = rich.page(ui, words, room, quoted=True, live=self.live)

    @property
    def height(self) -> float:
        if self.thought is None or not self.thought.text:
            return 0.0
        shown = self._shown_height()
        return self.row + (shown + self.ui.u(3) if shown else 0.0) + self.ui.u(1)

    def _shown_height(self) -> float:
        if self.page is None or self.thought is None:
            return 0.0
        most = LIVE_LINES * self.ui.theme.line
        return self.page.height if self.thought.unfolded else min(self.page.height, most)

    def draw(self, state: AppState, at: ImVec2) -> list[Action]:
        """Draw the thoughts with their corner at a place on the screen."""
        if self.thought is None or not self.thought.text:
            return []
        turned = self._draw_line(at, self.thought)
        if self.page is not None:
            self._draw_text(state, self.page, at.x, at.y + self.row + self.ui.u(0.5))
        return [UnfoldThought(self.index, not self.thought.unfolded)] if turned else []

    def _draw_line(self, at: ImVec2, thought: Thought) -> bool:
        """Draw the line, and return whether it was clicked."""
        ui, small = self.ui, self.ui.theme.size("small")
        words = heading(thought, self.live)
        with ui.font(style="small"):
            width = small + ui.u(1.5) + imgui.calc_text_size(words).x
        imgui.set_cursor_screen_pos(ImVec2(at.x - ui.u(1.5), at.y))
        size = ImVec2(width + ui.u(3), self.row)
        clicked = press_area(f"##thought.{self.index}", size)
        hovered = imgui.is_item_hovered()
        ui.mark(f"message.{self.index}.thought")
        tip(ui, with_keys(tr(HINT), "thoughts"))
        draw, color = imgui.get_window_draw_list(), ui.color("text" if hovered else "muted")
        low, high = imgui.get_item_rect_min(), imgui.get_item_rect_max()
        if hovered:
            draw.add_rect_filled(low, high, ui.color("hover"), ui.u(1.5))
        y = round(at.y + (self.row - small) / 2)
        icon = ICON_CHEVRON_DOWN if thought.unfolded else ICON_CHEVRON_RIGHT
        font = ui.fonts["regular"]
        draw.add_text(font, small, ImVec2(at.x, y), color, icon)
        draw.add_text(font, small, ImVec2(at.x + small + ui.u(1.5), y), color, words)
        return clicked

    def _draw_text(self, state: AppState, page: Page, x: float, y: float) -> None:
        height = self._shown_height()
        hidden = page.height - height  # above what is shown
        draw = imgui.get_window_draw_list()
        low, high = ImVec2(x, y), ImVec2(x + self.width, y + height)
        draw.push_clip_rect(low, ImVec2(high.x + self.ui.u(4), high.y), True)
        name, corner = f"thought.{self.index}", (x, y - hidden)
        if self.thought is not None and self.thought.unfolded:
            draw_page(state, self.ui, (self.index, THOUGHT), page, corner, self.width, name)
        else:
            rich_text(self.ui, "thoughts").draw(self.ui, page, *corner, self.width, name)
        if self.live:
            self._draw_caret(page, x, y - hidden)
        draw.pop_clip_rect()
        self.ui.rects[f"message.{self.index}.thoughts"] = (low.x, low.y, high.x, high.y)

    def _draw_caret(self, page: Page, x: float, y: float) -> None:
        ui, (top, laid) = self.ui, page.blocks[-1]
        if laid.runs:
            run = laid.runs[-1]
            spot = ImVec2(x + run.x + run.width + ui.u(2), y + top + run.y + ui.theme.text / 2)
            imgui.get_window_draw_list().add_circle_filled(spot, ui.u(1), ui.color("accent"))


def reuse(stats: GenerationStats) -> str:
    if not stats.reused_tokens or not stats.prompt_tokens:
        return ""
    return tr("{share:.0%} reused").format(share=stats.reused_tokens / stats.prompt_tokens)


class MessageItem:
    """One message at its width: its height, and how it is drawn at the cursor."""

    def __init__(self, state: AppState, ui: Ui, index: int, message: Message, width: float) -> None:
        self.state, self.ui, self.index, self.message = state, ui, index, message
        self.width, self.user = width, message.role != "assistant"
        self.last = index == len(state.messages) - 1
        self.writing = self.last and state.answering is message
        self.row, self.left = ui.u(7), 0.0
        # Beside a question there is room for its buttons.
        room = min(width * 0.84, width - ui.u(15)) - ui.u(7) if self.user else width
        self.page: Page = rich_text(ui).page(
            ui, message.markdown, float(round(room)), plain=self.user, live=self.writing
        )
        self.label = 0.0 if message.role in ("user", "text") else ui.theme.size("small") + ui.u(2)
        self.lack = cannot_draw(ui, message.text)  # a sentence about scripts without glyphs
        self.fold = ThoughtFold(ui, index, message.thought, width, self.writing)
        self.files = ShownFiles(ui, index, message, width)
        self.cards = CallCards(state, ui, index, message, width)
        self.height = self._height() + self.files.height

    def _height(self) -> float:
        if self.user:
            tools = self.row if has_versions(self.state, self.index) else 0.0
            lack = self._note_height(self.lack)
            return self.label + self.page.height + self.ui.u(4) + lack + tools
        text = self.page.height
        if self.writing:
            text = max(text, self.ui.theme.line) + (0 if self.message.text else self.ui.u(4))
        if self.fold.live or (self.cards.height and not self.message.text):
            text = 0.0
        above = self.label + self.fold.height + text + self.cards.height
        notes = self._note_height(self.lack) + self._note_height(self._ending())
        return above + notes + self.row + self.ui.u(1)

    def _ending(self) -> str:
        reason = self.message.stop_reason
        if self.message.problem or reason is None or reason == "end":
            return sentence(translated(self.message.problem))
        words = tr(ENDINGS[reason])
        return f"{words} {tr(MORE)}" if reason == "length" and self.last else words

    def _note_height(self, words: str) -> float:
        """Return the height of small lines below the text with the gap above them; 0 without
        words."""
        return self._note_size(words).y + self.ui.u(2) if words else 0.0

    def _note_size(self, words: str) -> ImVec2:
        with self.ui.font(style="small"):
            return imgui.calc_text_size(words, wrap_width=self.width - self.ui.u(6))

    def draw(self) -> list[Action]:
        at = imgui.get_cursor_screen_pos()
        held = imgui.HoveredFlags_.allow_when_blocked_by_active_item  # a button being pressed
        hovered = imgui.is_window_hovered(held) and imgui.is_mouse_hovering_rect(
            at, ImVec2(at.x + self.width, at.y + self.height)
        )
        name = f"message.{self.index}"
        self.ui.rects[name] = (at.x, at.y, at.x + self.width, at.y + self.height)
        hovered = hovered or is_on_its_way()
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
        side, below = ui.u(6), high.y
        if self.lack:
            left = high.x - self._note_size(self.lack).x - ui.theme.size("small") - ui.u(1.5)
            self._draw_lack(left, below + ui.u(1))
            below += self._note_height(self.lack)
        if has_versions(self.state, self.index):
            left = high.x - versions_width(self.state, ui, self.index)
            imgui.set_cursor_screen_pos(ImVec2(left, below + ui.u(0.5)))
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
        if self.lack:
            self._draw_lack(at.x, y + ui.u(2))
            y += self._note_height(self.lack)
        if words := self._ending():
            self._draw_ending(words, at.x, y + ui.u(2))
            y += self._note_height(words)
        imgui.set_cursor_screen_pos(ImVec2(at.x - ui.u(1.5), y + ui.u(1)))
        return folded + self._draw_tools()

    def _draw_label(self, at: ImVec2) -> None:
        ui, draw, small = self.ui, imgui.get_window_draw_list(), self.ui.theme.size("small")
        font = ui.fonts["bold"]
        draw.add_text(font, small, at, ui.color("accent"), ICON_SPARKLES)
        spot = ImVec2(at.x + small + ui.u(1.5), at.y)
        draw.add_text(font, small, spot, ui.color("muted"), writer(self.message))

    def _draw_writing(self, x: float, y: float) -> None:
        """Draw the caret at the end of the text, or what is being waited for."""
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
            words = tr("Waiting for the first token")
        with ui.font(style="small"):
            draw.add_text(ImVec2(x, y + ui.u(0.5)), ui.color("muted"), words)
        if running.phase == "prefill" and running.prompt_tokens:
            imgui.set_cursor_screen_pos(ImVec2(x, y + ui.theme.line + ui.u(0.5)))
            meter(ui, running.done / running.prompt_tokens, min(self.width, ui.u(60)), ui.u(1))
            ui.mark("chat.prefill")

    def _draw_lack(self, x: float, y: float) -> None:
        """Draw the sentence about what of the text has no glyphs here."""
        ui, draw, small = self.ui, imgui.get_window_draw_list(), self.ui.theme.size("small")
        font, color, beside = ui.fonts["regular"], ui.color("muted"), small + ui.u(1.5)
        draw.add_text(font, small, ImVec2(x, y), color, ICON_INFO)
        spot = ImVec2(x + beside, y)
        draw.add_text(font, small, spot, color, self.lack, self.width - ui.u(6))
        size = self._note_size(self.lack)
        name = f"message.{self.index}.lack"
        ui.rects[name] = (x, y, spot.x + size.x, y + size.y)

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
        imgui.begin_disabled(self.state.busy)
        actions += draw_again(self.state, ui, self.index, side)
        draw_choices_button(self.state, ui, self.index, side)
        imgui.end_disabled()
        if self.last and not self.state.busy and not self.cards.asks:
            imgui.same_line(0, ui.u(1))
            hint = tr("Continue from where the answer ended")
            if icon_button(ui, "chat.continue", ICON_CONTINUE, hint, side=side, style="small"):
                actions.append(ContinueAnswer())
        if has_versions(self.state, self.index):
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


def heading(thought: Thought, live: bool) -> str:
    """Return the line that says how long the model thought."""
    if live:
        words = tr("Thinking for {time}, {tokens}")
        return words.format(time=spent(thought.seconds), tokens=tokens(thought.tokens))
    if not thought.tokens:  # read from a file that does not say
        return tr("Thoughts")
    words = tr("Thought for {time}, {tokens}")
    return words.format(time=spent(thought.seconds), tokens=tokens(thought.tokens))


def spent(seconds: float) -> str:
    """Write a time as '0.4 s', '3.2 s', '48 s' or '2 min 5 s'."""
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    return f"{whole} s" if whole < 60 else f"{whole // 60} min {whole % 60} s"


def writer(message: Message) -> str:
    """Return who is named at the head of an answer."""
    known = message.written.model.name if message.written else ""
    name = known or tr("Assistant")  # imported, from a file that does not say
    parts = [name, *(change_words(message.written) if message.written else ())]
    return "  ·  ".join([*parts, tr("edited by you")] if message.edited else parts)


def draw_again(state: AppState, ui: Ui, index: int, side: float) -> list[Action]:
    """Draw buttons behind others on their line: answer again, exactly so, or in a
    person's words."""
    actions: list[Action] = []
    message, last = state.messages[index], index == len(state.messages) - 1
    name = f"message.{index}"
    imgui.same_line(0, ui.u(1))
    regenerate = "chat.regenerate" if last else f"{name}.regenerate"
    if icon_button(ui, regenerate, ICON_REGENERATE, tr(REGENERATE), side=side, style="small"):
        actions.append(Regenerate(None if last else index))
    if message.written is not None and message.sampling is not None and not message.edited:
        imgui.same_line(0, ui.u(1))
        if icon_button(ui, f"{name}.exactly", ICON_DICE, tr(EXACTLY), side=side, style="small"):
            actions += _again(state, ui, index, message.written)
    imgui.same_line(0, ui.u(1))
    if icon_button(ui, f"{name}.edit", ICON_EDIT, tr(EDIT), side=side, style="small"):
        actions.append(EditMessage(index))
    if state.history.open is not None:
        imgui.same_line(0, ui.u(1))
        if icon_button(ui, f"{name}.fork", ICON_BRANCH, tr(FORK), side=side, style="small"):
            actions.append(ForkConversation(message.id))
    return actions


def _again(state: AppState, ui: Ui, index: int, written: AnswerRun) -> list[Action]:
    if written.is_like(AnswerRun.by(state.model, state.executor)):
        return [Regenerate(index, exactly=True)]
    low, high = imgui.get_item_rect_min(), imgui.get_item_rect_max()
    open_other_writer(ui, written, (low.x, high.y + ui.u(1)))
    return []


class TokenSpans(Struct):
    """The characters of a message's tokens and of the runs of its page, and what they were found
    for."""

    message: Message | None = None
    key: object = None
    own: tuple[Span, ...] = ()  # of tokens
    runs: list[list[int]] = []


def draw_highlight(state: AppState, ui: Ui, index: int, page: Page, x: float, y: float) -> None:
    """Mark the token behind the text of message `index`, whose page lies at (x, y)."""
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
    """Return the marks of the token; the text's layout is matched to its tokens once."""
    message = state.messages[index]
    place = place_of(state, ui, index)
    held, key = ui.local(TokenSpans), (place, page)
    if held.message is not message or held.key != key:
        held.message, held.key = message, key
        held.own, held.runs = _spans(state, message, page, place)
    if place is None or not 0 <= position - place.start < len(held.own):
        return []
    return _within(ui, page, held.runs, held.own[position - place.start])


def _spans(
    state: AppState, message: Message, page: Page, place: Any
) -> tuple[tuple[Span, ...], list[list[int]]]:
    """Find the characters of the message's tokens, and of the runs of its page, in its text;
    tokens of its thoughts lie before it."""
    if place is not None:
        place = replace(place, end=place.stop)
    found = passage(message.whole, message.pieces, place, state.positions)
    lead = len(found.text) - len(message.visible_text)  # what is said, and calls, end the whole
    own = tuple((a - lead, b - lead) for a, b in found.spans[found.own :])
    return own, character_places(
        message.text, [run.text for _, laid in page.blocks for run in laid.runs]
    )


def character_places(text: str, shown: Sequence[str]) -> list[list[int]]:
    """Find where in `text` each character of what is shown of it stands, in order. What is shown
    lacks marks, and breaks lines elsewhere."""
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


def _within(ui: Ui, page: Page, runs: list[list[int]], span: Span) -> list[Mark]:
    """Return the parts of runs that show the characters of `span`."""
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
