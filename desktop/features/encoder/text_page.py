"""The page of one text: its field, which is encoded at Enter or after a pause, its tokens as chips
that light up where a token attends, and how long it took."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from imgui_bundle import ImVec2, imgui
from msgspec import Struct, field

from llm_lite.core.errors import LlmLiteError
from llm_lite.core.messages import TextEncoded
from llm_lite.core.messages.encoding import EncodedToken, EncoderInfo
from llm_lite.core.records import replace
from llm_lite.core.text.token_spelling import shown as signs_shown
from llm_lite.desktop.features.attention.model import SetAttention
from llm_lite.desktop.features.attention.rows import ask_pointed
from llm_lite.desktop.features.encoder.model import ENCODED, ChooseEncoding, spelling
from llm_lite.desktop.features.encoder.state import LONGEST, Spelling
from llm_lite.desktop.features.export_picture.view import draw_save
from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.asking import Slot
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.features.tokenizer.chips import (
    Chip,
    ChipColors,
    Paint,
    control_colors,
    draw_chip,
    draw_chips,
    kept_page,
    lay_out_chips,
)
from llm_lite.desktop.features.tokens.colors import shades
from llm_lite.desktop.features.tokens.figure import WIDTH, draw_head
from llm_lite.desktop.features.tokens.model import SetXRay
from llm_lite.desktop.features.tokens.tokens import draw_most_attended
from llm_lite.desktop.features.tokens.view import draw_attention_choice, draw_legend_line
from llm_lite.desktop.language.incoming import typed
from llm_lite.desktop.language.translate import mark, tr, trn
from llm_lite.desktop.language.units import milliseconds, sentence
from llm_lite.desktop.widgets.figure import Figure
from llm_lite.desktop.widgets.text_input import lines_field
from llm_lite.desktop.widgets.theme import u32
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import fit, meter, text, wrapped

HINT = mark("Write a text")
KEYS = mark("Encoded at Enter, or after a pause")
UNREADABLE: dict[Spelling, str] = {
    "unknown": mark(
        "Most of these tokens are unknown ones: the model's vocabulary does not have this text, "
        "so its maps and vectors say little."
    ),
    "parts": mark(
        "The model's vocabulary does not have these words and cuts their characters into parts, "
        "so its maps and vectors say little."
    ),
}
EDGE = 0.9  # of what the model reads, from which the count is a warning
REST = 0.35  # seconds without a key press, after which the text is encoded
MOST_LINES = 8
SPECIAL = mark("The tokenizer's own: it stands for no text.")
UNKNOWN = mark("It stands for a word that the model's vocabulary does not have.")
STRENGTHS = (0.16, 0.30)  # of the chips of neighbouring words
HUES = (0, 1)  # of the first and the second text


def draw(state: AppState, ui: Ui, encoder: EncoderInfo) -> list[Action]:
    choice = state.encoding
    held = field_of(ui, choice.shown_text)
    width = imgui.get_content_region_avail().x
    done = draw_field(ui, held, "encoding.text", tr(HINT), choice.typing, width)
    actions: list[Action] = []
    if done.text != choice.shown_text or done.typing != choice.typing:
        changed = replace(choice, text=done.text, typing=done.typing)
        actions.append(ChooseEncoding(changed))
    draw_count(state, ui, encoder, tr(KEYS))
    return actions + draw_encoded(state, ui)


def draw_encoded(state: AppState, ui: Ui) -> list[Action]:
    """Draw the tokens of what was encoded for this page, or why there are none."""
    with same_height(state, ui, ENCODED, "tokens"):
        return _draw_encoded(state, ui)


def _draw_encoded(state: AppState, ui: Ui) -> list[Action]:
    answer, problem = ENCODED.answer(state), ENCODED.problem(state)
    if problem:
        wrapped(ui, sentence(problem), "warning")
        ui.mark("encoding.problem")
        return []
    if answer is None:
        text(ui, tr("Encoding") if ENCODED.waiting(state) else "", "muted", "small")
        return []
    if answer.left_out:
        words = trn(
            "The last token is not read: the model reads no more.",
            "The last {n:,} tokens are not read: the model reads no more.",
            answer.left_out,
        )
        wrapped(ui, words.format(n=answer.left_out), "warning")
    if (words := spelling(state)) != "words":
        wrapped(ui, tr(UNREADABLE[words]), "warning")
        ui.mark("encoding.unreadable")
    return draw_tokens(state, ui, answer)


def draw_count(
    state: AppState, ui: Ui, encoder: EncoderInfo, words: str, *, bold: bool = False
) -> None:
    """Draw words at the left; tokens, of those that are read, and milliseconds at the right."""
    answer = ENCODED.answer(state)
    count = count_words(answer, encoder)
    with ui.font(style="small"):
        right = imgui.calc_text_size(count).x
    with ui.font("bold" if bold else "regular", "small"):
        words = fit(words, imgui.get_content_region_avail().x - right - ui.u(4))
    place = ui.right(right)
    text(ui, words, "text" if bold else "faint", "small", bold)
    imgui.same_line(place)
    share = len(answer.tokens) / encoder.most_tokens if answer else 0.0
    text(ui, count, "warning" if share > EDGE else "muted", "small")
    ui.mark("encoding.count")
    imgui.set_cursor_pos_y(imgui.get_cursor_pos_y() - ui.u(1))
    shade = "warning" if share > EDGE else "accent"
    meter(ui, share, imgui.get_content_region_avail().x, ui.u(0.5), shade)
    imgui.dummy(ImVec2(0, 0))


def count_words(answer: TextEncoded | None, encoder: EncoderInfo) -> str:
    if answer is None:
        return tr("{most:,} tokens at most").format(most=encoder.most_tokens)
    words = tr("{n:,} of {most:,} tokens").format(n=len(answer.tokens), most=encoder.most_tokens)
    return f"{words}  ·  {milliseconds(answer.seconds)}"


class EncoderControls(Struct):
    """The time of the last key press, the sentence that takes the keyboard next, the chips and
    numbers of words of an answer, and the heights of parts of the page, in pixels."""

    typed_at: float = -math.inf
    sentence: int | None = None
    answer: TextEncoded | None = None
    chips: list[Chip] = field(default_factory=list)
    words: list[int] = field(default_factory=list)
    heights: dict[str, float] = field(default_factory=dict)


@contextmanager
def same_height(state: AppState, ui: Ui, slot: Slot[Any], name: str) -> Iterator[None]:
    """What is drawn inside stays as high as it was while its answer is awaited: gains that are
    dragged would move all that is below with each step."""
    heights, top = ui.local(EncoderControls).heights, imgui.get_cursor_pos_y()
    yield
    height = imgui.get_cursor_pos_y() - top
    if slot.waiting(state) is None or slot.answer(state) is not None:
        heights[name] = height
    elif (missing := heights.get(name, 0.0) - height) > 0:
        imgui.dummy(ImVec2(0, max(missing - imgui.get_style().item_spacing.y, 0.0)))


class TextField(Struct):
    """The text of the field; a text changed from outside needs a field with a new identity."""

    text: str = ""
    generation: int = 0
    focus: bool = False
    caret: int = 0  # in bytes of UTF-8
    goes_to: int | None = None  # where the caret is to go

    def renew(self, text: str) -> None:
        self.text, self.generation = text, self.generation + 1
        self.goes_to = len(text.encode("utf-8", "replace"))

    def insert(self, words: str) -> None:
        """Insert words at the caret, with spaces around them where a word stands there."""
        data = self.text.encode("utf-8", "replace")
        before, behind = (part.decode("utf-8", "ignore") for part in self._cut(data))
        lead = " " if before and not before[-1].isspace() else ""
        trail = " " if behind[:1].isalnum() else ""
        text = f"{before}{lead}{words}{trail}{behind}"
        self.renew(text)
        self.goes_to = self.caret = len(f"{before}{lead}{words}".encode("utf-8", "replace"))
        self.focus = True

    def _cut(self, data: bytes) -> tuple[bytes, bytes]:
        at = min(self.caret, len(data))
        return data[:at], data[at:]

    def watch(self, data: Any) -> int:
        """Follow the caret; this is the callback of the field while it has the focus."""
        if self.goes_to is not None:
            at = min(self.goes_to, data.buf_text_len)
            data.cursor_pos = data.selection_start = data.selection_end = at
            self.goes_to = None
        self.caret = data.cursor_pos
        return 0


class Typed(Struct, frozen=True):
    """The text of the field, and whether it still waits to be encoded."""

    text: str
    typing: bool


class ShownField(Struct):
    """The field that is shown, once it was drawn."""

    field: TextField | None = None


def focus_field(ui: Ui) -> None:
    """Give the field the keyboard when it is drawn next."""
    held = ui.local(ShownField).field
    if held is not None:
        held.focus = True


def field_of(ui: Ui, text: str) -> TextField:
    """Return the field that is shown, with a text that may have been changed from outside."""
    kept = ui.local(ShownField)
    held = kept.field = kept.field or TextField(text)
    if held.text != text:
        held.renew(text)
    return held


def draw_field(ui: Ui, held: TextField, name: str, hint: str, typing: bool, width: float) -> Typed:
    """Draw the field in `width` pixels, as high as its text; `typing` is what it was in the frame
    before."""
    size = ImVec2(width, _height(ui, held.text, width))
    at = imgui.get_cursor_screen_pos()
    if held.focus:
        imgui.set_keyboard_focus_here()
        held.focus = False
        held.goes_to = held.caret if held.goes_to is None else held.goes_to
    entered, words = _input(ui, held, name, size)
    ui.mark(name)
    _draw_edge(ui, at, size)
    if not words:
        spot = ImVec2(at.x + ui.u(3), at.y + ui.u(2))
        imgui.get_window_draw_list().add_text(spot, ui.color("muted"), hint)
    if imgui.is_key_pressed(imgui.Key.escape, False) and words != held.text:
        words = held.text  # Dear ImGui would restore the text from before; we keep it
        held.renew(words)
    if words != held.text:
        held.text, typing = typed(words[:LONGEST]), True
        ui.local(EncoderControls).typed_at = ui.now
    if entered:
        held.focus, typing = True, False
    return Typed(held.text, typing and not has_rested(ui))


def has_rested(ui: Ui) -> bool:
    """Return whether nothing was typed for a while; else ask for a frame when that is so."""
    left = REST - (ui.now - ui.local(EncoderControls).typed_at)
    if left > 0:
        ui.redraw_in(left)
    return left <= 0


def _input(ui: Ui, held: TextField, name: str, size: ImVec2) -> tuple[bool, str]:
    flags = imgui.InputTextFlags_
    with (
        ui.colored(frame_bg="raised", frame_bg_hovered="raised", frame_bg_active="raised"),
        ui.styled(frame_padding=(ui.u(3), ui.u(2)), frame_rounding=ui.u(2)),
    ):
        entered, words = lines_field(
            f"##{name}{held.generation}",
            held.text,
            size,
            flags.ctrl_enter_for_new_line
            | flags.enter_returns_true
            | flags.word_wrap
            | flags.callback_always,
            held.watch,
        )
    return bool(entered), str(words)


def _height(ui: Ui, text: str, width: float) -> float:
    with ui.font():
        wanted = imgui.calc_text_size(text + "|", wrap_width=width - ui.u(7)).y
    lines = min(MOST_LINES, max(2, round(wanted / ui.theme.text)))
    return lines * ui.theme.text + ui.u(4)


def _draw_edge(ui: Ui, at: ImVec2, size: ImVec2) -> None:
    edge = "accent" if imgui.is_item_active() else "border"
    end = ImVec2(at.x + size.x, at.y + size.y)
    imgui.get_window_draw_list().add_rect(at, end, ui.color(edge), ui.u(2), ui.u(0.35))


def draw_tokens(state: AppState, ui: Ui, answer: TextEncoded) -> list[Action]:
    """Draw chips, and below them how tokens attend, in what is left of the line."""
    chips = chips_of(ui, answer)
    width = imgui.get_content_region_avail().x
    page = kept_page(ui, "encoding.token.page", chips, chips, width, ui.u(0.5))
    pointed = draw_chips(ui, "encoding.token", chips, page, paint_of(state, ui, answer))
    return _draw_bar(state, ui) + _draw_pointed(state, ui, answer, pointed)


def paint_of(state: AppState, ui: Ui, answer: TextEncoded) -> Paint:
    """Return how chips are painted: by where a token attends, while one is pointed at or held; else
    by words, one beside the other."""
    found, words = shades(state, ui), _controls_of(ui, answer).words
    held = {state.xray.at, state.attention.row}

    def paint(at: int) -> ChipColors:
        edge = ui.color("accent") if at in held else 0
        if found is not None and at < len(found.fills):
            color = found.texts[at] or ui.color("text")
            return ChipColors(found.fills[at], color, found.texts[at] or ui.color("muted"), edge)
        return replace(_plain(ui, answer.tokens[at], words[at]), edge=edge or _edge(ui, answer, at))

    return paint


def chips_of(ui: Ui, answer: TextEncoded) -> list[Chip]:
    return _controls_of(ui, answer).chips


def _plain(ui: Ui, token: EncodedToken, word: int) -> ChipColors:
    """Give each text a hue, lighter and stronger from word to word."""
    if token.special:
        return control_colors(ui)
    hue = ui.theme.palette.series[HUES[token.segment % 2]]
    return ChipColors(u32(hue, STRENGTHS[word % 2]), ui.color("text"), ui.color("muted"))


def _edge(ui: Ui, answer: TextEncoded, at: int) -> int:
    return ui.color("accent", 0.6) if answer.tokens[at].special else 0


def _controls_of(ui: Ui, answer: TextEncoded) -> EncoderControls:
    """Make chips, and the number of the word of each, once for an answer."""
    controls = ui.local(EncoderControls)
    if controls.answer is not answer:
        controls.chips = [Chip(signs_shown(t.text) or "·", str(t.token)) for t in answer.tokens]
        controls.answer, controls.words = answer, words_of(answer.tokens)
    return controls


def words_of(tokens: tuple[EncodedToken, ...]) -> list[int]:
    """Number the words of tokens: a piece that continues a word has the number before."""
    spaced = any(token.text.startswith(" ") for token in tokens)
    found, number = list[int](), 0
    for token in tokens:
        continues = not token.text.startswith(" ") if spaced else token.text.startswith("##")
        number += 0 if continues and not token.special else 1
        found.append(number)
    return found


def _draw_bar(state: AppState, ui: Ui) -> list[Action]:
    """Draw by which heads tokens attend, and what the colours mean."""
    imgui.dummy((0, ui.u(0.5)))
    side = ui.u(6)
    imgui.begin_group()
    xray, without = draw_attention_choice(state, ui, ui.right(side) - ui.u(2))
    imgui.end_group()
    imgui.same_line(ui.right(side))
    actions = draw_save(state, ui, "text", side)
    draw_legend_line(state, ui)
    if xray != state.xray:
        actions.append(SetXRay(xray))
    if without != state.attention.exclude_first:
        actions.append(SetAttention(replace(state.attention, exclude_first=without)))
    return actions


def _draw_pointed(
    state: AppState, ui: Ui, answer: TextEncoded, pointed: int | None
) -> list[Action]:
    """Show where the token under the pointer attends, or the one that is held; a click holds it."""
    row = state.attention.row
    at = row if pointed is None and row is not None and row < len(answer.tokens) else pointed
    flipped = bool(imgui.get_io().key_shift) and at is not None
    wanted = replace(state.xray, at=at, flipped=flipped)
    actions: list[Action] = [SetXRay(wanted)] if wanted != state.xray else []
    actions += ask_pointed(state)
    if pointed is None:
        return actions
    _draw_tip(state, ui, answer.tokens[pointed], pointed)
    if imgui.is_mouse_clicked(0):
        held = None if pointed == row else pointed
        actions.append(SetAttention(replace(state.attention, row=held)))
    return actions


def _draw_tip(state: AppState, ui: Ui, token: EncodedToken, position: int) -> None:
    with ui.styled(window_padding=(ui.u(3), ui.u(2.5)), item_spacing=(ui.u(2), ui.u(1.25))):
        if not imgui.begin_tooltip():
            return
        text(ui, f"“{signs_shown(token.text)}”", bold=True)
        facts = (tr("token {n:,}").format(n=token.token), tr("position {n:,}").format(n=position))
        text(ui, "  ·  ".join(facts), "muted", "small")
        if token.special:
            text(ui, tr(UNKNOWN if token.unknown else SPECIAL), "muted", "small")
        draw_most_attended(state, ui, ui.u(60))
        imgui.end_tooltip()


def encoded_figure(state: AppState, ui: Ui) -> Figure:
    """Draw all tokens in lines, as they are coloured on the page.

    Raises LlmLiteError where there are none.
    """
    answer = ENCODED.answer(state)
    if answer is None or not answer.tokens:
        raise LlmLiteError(tr("there is no encoded text to make a picture of"))
    figure = Figure(ui)
    own, u = figure.ui, figure.ui.u
    wide, y = draw_head(figure, state)
    y += u(2)
    chips, paint = chips_of(own, answer), paint_of(state, own, answer)
    page = lay_out_chips(own, chips, u(WIDTH), u(0.5))
    for number, (chip, box) in enumerate(zip(chips, page.boxes, strict=True)):
        at = (u(8) + box.x, y + box.line * page.pitch)
        draw_chip(own, chip, at, (box.width, page.chip), paint(number), figure.list)
    ends = max(box.x + box.width for box in page.boxes)
    return figure.finish(max(wide, ends) + u(16), y + page.height + u(6))
