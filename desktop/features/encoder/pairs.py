"""Several sentences: how alike they are, and the maps of any two of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

from imgui_bundle import ImVec2, imgui
from msgspec import Struct

from llm_lite.core.messages import CompareTexts, TextsCompared
from llm_lite.core.messages.encoding import EncoderInfo
from llm_lite.core.records import replace
from llm_lite.desktop.features.encoder.model import SIMILARITIES, ChooseEncoding
from llm_lite.desktop.features.encoder.state import (
    LONGEST_SENTENCE,
    MOST_SENTENCES,
    EncodingChoice,
)
from llm_lite.desktop.features.encoder.text_page import (
    EncoderControls,
    draw_count,
    draw_encoded,
    has_rested,
    same_height,
)
from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.features.tokens.colors import legible, mix
from llm_lite.desktop.language.incoming import typed
from llm_lite.desktop.language.translate import mark, tr
from llm_lite.desktop.language.units import sentence, signed
from llm_lite.desktop.widgets.by_keyboard import press_area
from llm_lite.desktop.widgets.icons import ICON_CLOSE, ICON_NEW
from llm_lite.desktop.widgets.theme import u32
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import button, fit, icon_button, text, wrapped

WIDEST, NARROWEST = 15.0, 9.0  # spacing units of a cell
LEAST_WORDS = 30.0  # spacing units for the sentences beside it
TWO = mark("Write two sentences or more, and their similarity appears.")
NO_PAIRS = mark(
    "The tokenizer of this model has no pairs: the maps are of the first of the two sentences."
)


class _Layout(Struct, frozen=True):
    """Pixels."""

    words: float  # width of the sentences
    cell: float  # width of a cell
    line: float  # height of one


def draw(state: AppState, ui: Ui, encoder: EncoderInfo) -> list[Action]:
    before = state.encoding
    choice = _draw_sentences(ui, before)
    with same_height(state, ui, SIMILARITIES, "similarities"):
        choice = _draw_similarities(state, ui, choice)
    actions: list[Action] = [ChooseEncoding(choice)] if choice != before else []
    imgui.dummy(ImVec2(0, ui.u(1)))
    draw_count(state, ui, encoder, _pair_words(before), bold=True)
    if not encoder.has_pairs:
        wrapped(ui, tr(NO_PAIRS))
    return actions + draw_encoded(state, ui)


def _pair_words(choice: EncodingChoice) -> str:
    one, other = choice.pair
    if one == other:
        return tr("Maps of sentence {n}").format(n=one + 1)
    return tr("Maps of sentences {n} and {m} together").format(n=one + 1, m=other + 1)


def _draw_sentences(ui: Ui, choice: EncodingChoice) -> EncodingChoice:
    """Draw a line for each sentence, with a button that takes it away; one more below."""
    sentences, typing = choice.shown_sentences, choice.typing and not has_rested(ui)
    with ui.styled(item_spacing=(ui.u(1.5), ui.u(1))):
        written, entered, removed = _draw_lines(ui, sentences)
    if written != sentences:
        ui.local(EncoderControls).typed_at, typing = ui.now, True
        choice = replace(choice, sentences=written)
    choice = replace(choice, typing=typing and not entered)
    if removed is not None:
        choice = replace(choice.without(removed), typing=False)
    return _draw_add(ui, choice)


def _draw_lines(ui: Ui, sentences: tuple[str, ...]) -> tuple[tuple[str, ...], bool, int | None]:
    """Draw the lines; return the sentences as they are written now, whether one was entered, and
    which was taken away."""
    written, entered, removed = list[str](), False, None
    for place, words in enumerate(sentences):
        found, done = _draw_line(ui, place, words)
        written.append(found)
        entered |= done
        if _draw_remove(ui, place, len(sentences)):
            removed = place
    return tuple(written), entered, removed


def _draw_line(ui: Ui, place: int, words: str) -> tuple[str, bool]:
    """Draw a line; return its sentence, and whether it was entered."""
    name, side = f"encoding.sentence.{place}", ui.u(7)
    imgui.align_text_to_frame_padding()
    text(ui, f"{place + 1}", "muted", "small")
    imgui.same_line(ui.u(4))
    imgui.set_next_item_width(imgui.get_content_region_avail().x - side - ui.u(1))
    controls = ui.local(EncoderControls)
    if controls.sentence == place:
        controls.sentence = None
        imgui.set_keyboard_focus_here()
    with ui.colored(frame_bg="raised"), ui.styled(frame_border_size=ui.u(0.25)):
        _, found = imgui.input_text_with_hint(f"##{name}", tr("Write a sentence"), words)
    ui.mark(name)
    entered = imgui.is_item_deactivated() and imgui.is_key_pressed(imgui.Key.enter, False)
    if imgui.is_key_pressed(imgui.Key.escape, False):  # Dear ImGui restores what stood there
        found = words
    return typed(found[:LONGEST_SENTENCE]), entered


def _draw_remove(ui: Ui, place: int, count: int) -> bool:
    imgui.same_line(0, ui.u(1))
    if count <= 1:
        imgui.dummy(ImVec2(ui.u(7), ui.u(7)))
        return False
    name = f"encoding.remove.{place}"
    return icon_button(ui, name, ICON_CLOSE, tr("Remove this sentence"), style="small")


def _draw_add(ui: Ui, choice: EncodingChoice) -> EncodingChoice:
    sentences = choice.shown_sentences
    able = len(sentences) < MOST_SENTENCES
    imgui.set_cursor_pos_x(imgui.get_cursor_pos_x() + ui.u(4))
    hint = "" if able else tr("{n} sentences at most").format(n=MOST_SENTENCES)
    if not button(ui, "encoding.add", tr("Add a sentence"), ICON_NEW, hint, enabled=able):
        return choice
    ui.local(EncoderControls).sentence = len(sentences)
    return replace(choice, sentences=(*sentences, ""))


def _draw_similarities(state: AppState, ui: Ui, choice: EncodingChoice) -> EncodingChoice:
    """Draw the similarities of the sentences that were compared last, beside these."""
    places, known = state.encoding.compared, SIMILARITIES.answered(state)
    if len(places) < 2:
        wrapped(ui, tr(TWO))
        return choice
    if known is not None and known.problem:
        wrapped(ui, sentence(known.problem), "warning")
        return choice
    if known is None or known.answer is None:
        text(ui, tr("Comparing"), "muted", "small")
        return choice
    answer, texts = known.answer, cast(CompareTexts, known.question).texts
    if len(texts) != len(places):
        return choice  # the answer to what is written now is on its way
    imgui.dummy(ImVec2(0, ui.u(0.5)))
    pair = draw_matrix(ui, state.encoding.pair, dict(zip(places, texts, strict=True)), answer)
    one, other = closest(answer)
    words = tr("Closest: {n} and {m}, {cosine}").format(
        n=places[one] + 1, m=places[other] + 1, cosine=cosine_words(answer.similarities[one][other])
    )
    text(ui, words, "muted", "small")
    return replace(choice, pair=pair) if pair != state.encoding.pair else choice


def draw_matrix(
    ui: Ui, pair: tuple[int, int], sentences: Mapping[int, str], answer: TextsCompared
) -> tuple[int, int]:
    """Draw the matrix of sentences, by their places; return the pair that is chosen, `pair` before,
    by its places."""
    places = tuple(sentences)
    laid = _laid(ui, len(places))
    chosen, top = pair, imgui.get_cursor_screen_pos()
    _draw_numbers(ui, places, laid, top)
    for row, one in enumerate(places):
        y = top.y + laid.line * (row + 1)
        _draw_sentence(ui, f"{one + 1}", sentences[one], ImVec2(top.x, y), laid)
        for at, other in enumerate(places):
            spot = ImVec2(top.x + laid.words + at * laid.cell, y)
            value = answer.similarities[row][at]
            cell = (one, other)
            if _draw_cell(ui, cell, value, spot, laid, cell == pair, sentences):
                chosen = cell
    imgui.set_cursor_screen_pos(top)
    size = ImVec2(laid.words + laid.cell * len(places), laid.line * (len(places) + 1))
    imgui.dummy(size)
    ui.mark("encoding.matrix")
    return chosen


def closest(answer: TextsCompared) -> tuple[int, int]:
    """Return the two different texts that are most alike."""
    count = len(answer.similarities)
    pairs = ((i, j) for i in range(count) for j in range(i + 1, count))
    return max(pairs, key=lambda pair: answer.similarities[pair[0]][pair[1]])


def _laid(ui: Ui, count: int) -> _Layout:
    room = imgui.get_content_region_avail().x
    wanted = (room - ui.u(LEAST_WORDS)) / count
    cell = float(int(min(max(wanted, ui.u(NARROWEST)), ui.u(WIDEST))))
    words = max(room - cell * count, ui.u(6))
    return _Layout(words, cell, ui.theme.text + ui.u(3.5))


def _draw_numbers(ui: Ui, places: Sequence[int], laid: _Layout, top: ImVec2) -> None:
    draw, small = imgui.get_window_draw_list(), ui.theme.size("small")
    y = round(top.y + laid.line - small - ui.u(1))
    with ui.font(style="small"):
        name = fit(tr("Cosine similarity of sentences, 1: the same direction"), laid.words)
        draw.add_text(ImVec2(top.x, y), ui.color("muted"), name)
        for at, place in enumerate(places):
            words = f"{place + 1}"
            middle = top.x + laid.words + (at + 0.5) * laid.cell
            x = middle - imgui.calc_text_size(words).x / 2
            draw.add_text(ImVec2(round(x), y), ui.color("muted"), words)


def _draw_sentence(ui: Ui, number: str, words: str, at: ImVec2, laid: _Layout) -> None:
    draw = imgui.get_window_draw_list()
    y = round(at.y + (laid.line - ui.theme.size("small")) / 2)
    with ui.font(style="small"):
        draw.add_text(ImVec2(at.x, y), ui.color("muted"), number)
        one_line = " ".join(words.split())
        shown = fit(one_line, laid.words - ui.u(6))
        draw.add_text(ImVec2(at.x + ui.u(4), y), ui.color("text"), shown)


def _draw_cell(
    ui: Ui, pair: tuple[int, int], value: float, at: ImVec2, laid: _Layout, chosen: bool,
    sentences: Mapping[int, str],
) -> bool:  # fmt: skip
    """Draw a cell, and return whether it was pressed."""
    name = f"encoding.pair.{pair[0]}.{pair[1]}"
    imgui.set_cursor_screen_pos(at)
    pressed = press_area(name, ImVec2(laid.cell, laid.line))
    ui.mark(name)
    hovered = imgui.is_item_hovered()
    draw, gap = imgui.get_window_draw_list(), max(1.0, ui.u(0.25))
    low = ImVec2(at.x + gap, at.y + gap)
    high = ImVec2(at.x + laid.cell - gap, at.y + laid.line - gap)
    fill = shade(ui, value)
    draw.add_rect_filled(low, high, u32(fill), ui.u(1))
    if chosen or hovered:
        color = ui.color("text" if chosen else "muted")
        draw.add_rect(low, high, color, ui.u(1), max(1.0, ui.u(0.5)))
    with ui.font("bold" if chosen else "regular", "small"):
        words = cosine_words(value)
        size = imgui.calc_text_size(words)
        spot = ImVec2(at.x + (laid.cell - size.x) / 2, at.y + (laid.line - size.y) / 2)
        draw.add_text(ImVec2(round(spot.x), round(spot.y)), u32(legible(fill)), words)
    if hovered:
        _draw_tip(ui, pair, value, sentences)
    return pressed


def shade(ui: Ui, value: float) -> int:
    """Return the colour of a cosine, 0xRRGGBB: stronger the more alike; another hue below 0."""
    palette = ui.theme.palette
    toward = palette.accent if value >= 0 else palette.warning
    return mix(palette.hover, toward, min(abs(value), 1.0))


def cosine_words(value: float) -> str:
    """Format a cosine with two digits and a real minus; what rounds to 0 has none."""
    return signed(value, "z.2f")


def _draw_tip(ui: Ui, pair: tuple[int, int], value: float, sentences: Mapping[int, str]) -> None:
    with ui.styled(window_padding=(ui.u(3), ui.u(2.5)), item_spacing=(ui.u(2), ui.u(1))):
        if not imgui.begin_tooltip():
            return
        text(ui, tr("Cosine {value}").format(value=signed(value, "z.4f")), bold=True)
        with ui.font(style="small"):
            lines = [fit(" ".join(sentences[i].split()), ui.u(90)) for i in dict.fromkeys(pair)]
        for line in lines:
            text(ui, line, "muted", "small")
        text(ui, tr("Click to see its attention maps."), "faint", "small")
        imgui.end_tooltip()
