"""Several sentences: how alike they are, and the maps of any two of them."""

from __future__ import annotations

from dataclasses import replace

from imgui_bundle import ImVec2, imgui

from llm_lite.core.messages.encoding import EncoderInfo
from llm_lite.desktop.actions.act import Action
from llm_lite.desktop.actions.texts.encoding import ChooseEncoding
from llm_lite.desktop.language.translate import mark, tr
from llm_lite.desktop.state.encoding.encoding_state import (
    LONGEST_SENTENCE,
    MOST_SENTENCES,
    EncodingChoice,
)
from llm_lite.desktop.state.incoming import typed
from llm_lite.desktop.state.state import AppState
from llm_lite.desktop.state.units import sentence
from llm_lite.desktop.views.encoding.field import has_rested
from llm_lite.desktop.views.encoding.matrix import closest, cosine_words, draw_matrix
from llm_lite.desktop.views.encoding.text_page import draw_count, draw_encoded
from llm_lite.desktop.widgets.icons import ICON_CLOSE, ICON_NEW
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import button, icon_button, text, wrapped

TWO = mark("Write two sentences or more, and their similarity appears.")
NO_PAIRS = mark(
    "The tokenizer of this model has no pairs: the maps are of the first of the two sentences."
)
FOCUS = "encoding.sentence.focus"  # in the memory of the interface: the line to be written in


def draw(state: AppState, ui: Ui, encoder: EncoderInfo) -> list[Action]:
    before = state.encoding.choice
    choice = _draw_sentences(ui, before)
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
    """A line each, with a button that takes it away; one more below."""
    sentences, typing = choice.shown_sentences, choice.typing and not has_rested(ui)
    with ui.styled(item_spacing=(ui.u(1.5), ui.u(1))):
        written, entered, removed = _draw_lines(ui, sentences)
    if written != sentences:
        ui.memory["encoding.typed"], typing = ui.now, True
        choice = replace(choice, sentences=written)
    choice = replace(choice, typing=typing and not entered)
    if removed is not None:
        choice = replace(choice.without(removed), typing=False)
    return _draw_add(ui, choice)


def _draw_lines(ui: Ui, sentences: tuple[str, ...]) -> tuple[tuple[str, ...], bool, int | None]:
    """The sentences as they are written now, whether one was entered, and which was taken away."""
    written, entered, removed = list[str](), False, None
    for place, words in enumerate(sentences):
        found, done = _draw_line(ui, place, words)
        written.append(found)
        entered |= done
        if _draw_remove(ui, place, len(sentences)):
            removed = place
    return tuple(written), entered, removed


def _draw_line(ui: Ui, place: int, words: str) -> tuple[str, bool]:
    """The sentence, and whether it was entered."""
    name, side = f"encoding.sentence.{place}", ui.u(7)
    imgui.align_text_to_frame_padding()
    text(ui, f"{place + 1}", "muted", "small")
    imgui.same_line(ui.u(4))
    imgui.set_next_item_width(imgui.get_content_region_avail().x - side - ui.u(1))
    if ui.memory.get(FOCUS) == place:
        ui.memory.pop(FOCUS)
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
    ui.memory[FOCUS] = len(sentences)
    return replace(choice, sentences=(*sentences, ""))


def _draw_similarities(state: AppState, ui: Ui, choice: EncodingChoice) -> EncodingChoice:
    """Of the sentences that were compared last, while they are those that are written."""
    held, places = state.encoding, state.encoding.choice.compared
    told = held.compared
    if len(places) < 2:
        wrapped(ui, tr(TWO))
        return choice
    if told is None:
        text(ui, tr("Comparing"), "muted", "small")
        return choice
    if told.problem:
        wrapped(ui, sentence(told.problem), "warning")
        return choice
    if len(told.similarities) != len(places):
        return choice  # the answer to what is written now is on its way
    imgui.dummy(ImVec2(0, ui.u(0.5)))
    pair = draw_matrix(ui, state.encoding.choice, places, told)
    one, other = closest(told)
    words = tr("Closest: {n} and {m}, {cosine}").format(
        n=places[one] + 1, m=places[other] + 1, cosine=cosine_words(told.similarities[one][other])
    )
    text(ui, words, "muted", "small")
    return replace(choice, pair=pair) if pair != state.encoding.choice.pair else choice
