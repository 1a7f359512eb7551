"""The first page of the lesson: the way from text to the next token in one picture, and a field for
a sentence."""

from __future__ import annotations

from imgui_bundle import ImVec2, imgui
from msgspec import Struct

from llm_lite.desktop.features.cache.unread import draw_unread, unread_part
from llm_lite.desktop.features.encoder.state import example_sentences, example_text
from llm_lite.desktop.features.lesson.glossary import draw_explained
from llm_lite.desktop.features.lesson.model import (
    FollowPosition,
    RunSentence,
    TypeSentence,
    followed_position,
    lesson_page,
)
from llm_lite.desktop.features.lesson.pictures.overview import (
    EXAMPLE_SOURCE,
    draw_overview,
    example_overview,
)
from llm_lite.desktop.features.lesson.state import LONGEST_SENTENCE
from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.requests import obstacle
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.language.translate import mark, tr
from llm_lite.desktop.widgets.text_input import lines_field
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import button, primary_button, wrapped

ABOUT = mark(
    "See how a language model writes its next word: {n} short steps, about ten minutes. Write the "
    "beginning of a sentence; the model reads it and goes on. You follow one of its tokens, a word "
    "or a part of a word, on this way. Every number is the real one of this model and your "
    "sentence."
)
ABOUT_ENCODER = mark(
    "See how a language model reads: {n} short steps, about ten minutes. Write a sentence; "
    "the model reads it, and you follow one of its tokens, a word or a part of a word, on this "
    "way. Every number is the real one of this model and your sentence."
)
ABOUT_TRANSLATOR = mark(
    "See how a translator writes its next word: {n} short steps, about ten minutes. Write a "
    "source, a sentence; the encoder reads it, and the decoder writes the target about it. You "
    "follow one token of the target, a word or a part of a word, on this way. Every number is the "
    "real one of this model and your sentence."
)
BEGINNING, A_SENTENCE = mark("The beginning of a sentence"), mark("A sentence")
EXAMPLES = (  # in the language that every model knows best
    "The capital of France is",
    "The cat sat on the mat because it was",
    "Water boils at a temperature of",
)
SOURCES = (  # whole sentences, which can be translated
    EXAMPLE_SOURCE,
    "The cat sat on the mat because it was tired.",
    "Water boils at a temperature of 100 degrees.",
)
NOT_REPORTED = mark(
    "This server does not report what happens inside its model. Another llm-lite does, and so does "
    "a model on this machine: disconnect, or open one."
)
NO_MODEL = mark("No model is loaded. Open one first: the lesson follows a token through it.")
NEW_CHAT = mark(
    "A sentence begins a chat of its own, which the list does not get; the conversation that is "
    "there stays in the list."
)
WIDTH = 210.0  # spacing units
PICTURE = (30.0, 56.0)  # spacing units, the least and the greatest height


class SentenceDraft(Struct):
    """A sentence that is being typed."""

    text: str = ""


def draw_first_page(state: AppState, ui: Ui) -> list[Action]:
    """Draw the first page in the middle of the lesson's page."""
    room, at = imgui.get_content_region_avail(), imgui.get_cursor_screen_pos()
    wide = min(ui.u(WIDTH), room.x)
    imgui.set_cursor_screen_pos(ImVec2(at.x + (room.x - wide) / 2, at.y + room.y * 0.03))
    imgui.begin_child("lesson.begin", ImVec2(wide, room.y * 0.97))
    actions = _draw_fields(state, ui, room.y)
    imgui.end_child()
    return actions


def _draw_fields(state: AppState, ui: Ui, height: float) -> list[Action]:
    problem = tr(NOT_REPORTED) if not state.can_inspect else "" if state.model else tr(NO_MODEL)
    if problem:
        wrapped(ui, problem, "text", "body")
        return []
    about = ABOUT_TRANSLATOR if state.writes_targets else ABOUT_ENCODER if state.encodes else ABOUT
    draw_explained(ui, tr(about).format(n=len(lesson_page(state).steps)), "text", "body")
    imgui.dummy(ImVec2(0, ui.u(1)))
    _draw_picture(state, ui, min(max(ui.u(PICTURE[0]), height * 0.4), ui.u(PICTURE[1])))
    imgui.dummy(ImVec2(0, ui.u(1)))
    actions = _draw_field(state, ui)
    imgui.dummy(ImVec2(0, ui.u(0.5)))
    actions += _draw_examples(state, ui)
    return actions + _draw_conversation(state, ui)


def _draw_picture(state: AppState, ui: Ui, tall: float) -> None:
    at, wide = imgui.get_cursor_screen_pos(), imgui.get_content_region_avail().x
    layers = state.model.layers if state.model else 0
    rect = (at.x, at.y, at.x + wide - ui.u(3), at.y + tall)
    overview = example_overview(layers, state.model.kind if state.model else "decoder")
    draw_overview(ui, imgui.get_window_draw_list(), rect, overview)
    ui.rects["lesson.overview"] = rect
    imgui.dummy(ImVec2(wide, tall + ui.u(2)))


def _draw_field(state: AppState, ui: Ui) -> list[Action]:
    """Draw the field of the sentence. It has two lines, so that a long sentence is seen as a whole;
    Enter follows it."""
    kept, width = ui.local(SentenceDraft), ui.u(26)
    if imgui.is_window_appearing():
        imgui.set_keyboard_focus_here()
    line = imgui.get_text_line_height()
    size = ImVec2(
        imgui.get_content_region_avail().x - width - ui.u(2),
        2 * line + 2 * imgui.get_style().frame_padding.y,
    )
    flags = imgui.InputTextFlags_
    options = flags.enter_returns_true | flags.ctrl_enter_for_new_line | flags.word_wrap
    entered, draft = lines_field("##lesson.draft", kept.text, size, options)
    ui.mark("lesson.draft")
    if not draft and not imgui.is_item_active():
        low, pad = imgui.get_item_rect_min(), imgui.get_style().frame_padding
        spot = ImVec2(low.x + pad.x, low.y + pad.y)
        words = tr(A_SENTENCE if state.encodes or state.writes_targets else BEGINNING)
        imgui.get_window_draw_list().add_text(spot, ui.color("faint"), words)
    kept.text = draft[:LONGEST_SENTENCE]
    imgui.same_line(0, ui.u(2))
    able = bool(draft.strip()) and not state.busy
    pressed = primary_button(ui, "lesson.run", tr("Follow it"), enabled=able, width=width)
    return [RunSentence(draft)] if pressed or (entered and able) else []


def _draw_examples(state: AppState, ui: Ui) -> list[Action]:
    """Draw a button for each example, side by side where they fit."""
    actions: list[Action] = []
    wrapped(ui, tr("Or one of these:"), "faint")
    right = imgui.get_cursor_screen_pos().x + imgui.get_content_region_avail().x
    for number, example in enumerate(_examples(state)):
        wide = imgui.calc_text_size(example).x + ui.u(8)
        if number and imgui.get_item_rect_max().x + ui.u(2) + wide < right:
            imgui.same_line(0, ui.u(2))
        if button(ui, f"lesson.example.{number}", example, enabled=not state.busy):
            actions.append(RunSentence(example))
    return actions


def _examples(state: AppState) -> tuple[str, ...]:
    """Return example sentences; an encoder gets whole ones in its vocabulary's language."""
    if state.writes_targets:
        return SOURCES
    if not state.encodes:
        return EXAMPLES
    english = state.encoding.english
    return example_text(english), *example_sentences(english)[:2]


def _return_action(at: int | None) -> Action:
    return TypeSentence(False) if at is None else FollowPosition(at)


def _draw_conversation(state: AppState, ui: Ui) -> list[Action]:
    """Draw how the text that is there can be followed instead of a new sentence."""
    actions, stay = list[Action](), tr("Stay with the sentence that is there")
    if state.writes_targets and state.busy:
        imgui.dummy(ImVec2(0, ui.u(1)))
        wrapped(ui, tr("The target is being written: the lesson begins when it ends."))
        return actions
    if state.encodes or state.writes_targets:
        if state.lesson.typing and button(ui, "lesson.keep", stay):
            actions.append(TypeSentence(False))
        return actions
    if unread_part(state) is not None and not obstacle(state):
        imgui.dummy(ImVec2(0, ui.u(1)))
        actions += draw_unread(state, ui, "lesson")
    elif state.messages and not state.busy:
        imgui.dummy(ImVec2(0, ui.u(1)))
        at = followed_position(state)
        if at is not None:
            word = state.positions[at].strip()
            stay = tr("Follow “{word}” of the conversation").format(word=word)
        if state.lesson.typing and button(ui, "lesson.keep", stay):
            actions.append(_return_action(at))
        wrapped(ui, tr(NEW_CHAT), "faint")
    return actions
