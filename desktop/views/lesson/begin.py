"""Before there is a token to follow: a sentence of a person's own, or one of these."""

from __future__ import annotations

from imgui_bundle import ImVec2, imgui

from llm_lite.desktop.actions.act import Action
from llm_lite.desktop.actions.inspecting import ReadAgain
from llm_lite.desktop.actions.lesson.following import RunSentence, TypeSentence
from llm_lite.desktop.actions.requests import obstacle
from llm_lite.desktop.language.translate import mark, tr
from llm_lite.desktop.state.lesson.lesson_state import LONGEST_SENTENCE
from llm_lite.desktop.state.state import AppState
from llm_lite.desktop.views.encoding.no_writing import draw_reason
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import button, primary_button, wrapped

ABOUT = mark(
    "Write the beginning of a sentence. The model that is loaded reads it and goes on, and you "
    "follow one of its tokens through every step: with the numbers of this model, and of your "
    "sentence."
)
EXAMPLES = (  # in the language that every model knows best
    "The capital of France is",
    "The cat sat on the mat because it was",
    "Water boils at a temperature of",
)
ELSEWHERE = mark("The lesson follows tokens through a model on this machine. Disconnect first.")
NO_MODEL = mark("No model is loaded. Open one first: the lesson follows a token through it.")
DRAFT = "lesson.draft"  # in the memory of the window
WIDTH = 140.0  # spacing units


def draw_begin(state: AppState, ui: Ui) -> list[Action]:
    """A field and examples, in the middle of the page."""
    room, at = imgui.get_content_region_avail(), imgui.get_cursor_screen_pos()
    wide = min(ui.u(WIDTH), room.x)
    imgui.set_cursor_screen_pos(ImVec2(at.x + (room.x - wide) / 2, at.y + room.y * 0.18))
    imgui.begin_child("lesson.begin", ImVec2(wide, room.y * 0.7))
    actions = _draw_fields(state, ui)
    imgui.end_child()
    return actions


def _draw_fields(state: AppState, ui: Ui) -> list[Action]:
    if draw_reason(state, ui, "lesson"):
        return []
    problem = tr(ELSEWHERE) if state.elsewhere else "" if state.model else tr(NO_MODEL)
    wrapped(ui, problem or tr(ABOUT), "text", "body")
    if problem:
        return []
    imgui.dummy(ImVec2(0, ui.u(2)))
    draft, actions = str(ui.memory.get(DRAFT, "")), list[Action]()
    width = ui.u(26)
    imgui.set_next_item_width(imgui.get_content_region_avail().x - width - ui.u(2))
    if imgui.is_window_appearing():
        imgui.set_keyboard_focus_here()
    enter = imgui.InputTextFlags_.enter_returns_true
    entered, draft = imgui.input_text_with_hint(
        "##lesson.draft", tr("The beginning of a sentence"), draft, enter
    )
    ui.mark("lesson.draft")
    ui.memory[DRAFT] = draft[:LONGEST_SENTENCE]
    imgui.same_line(0, ui.u(2))
    able = bool(draft.strip()) and not state.busy
    if primary_button(ui, "lesson.run", tr("Follow it"), enabled=able, width=width) or (
        entered and able
    ):
        actions.append(RunSentence(draft))
    imgui.dummy(ImVec2(0, ui.u(1)))
    wrapped(ui, tr("Or one of these:"), "faint")
    for number, example in enumerate(EXAMPLES):
        if button(ui, f"lesson.example.{number}", example, enabled=not state.busy):
            actions.append(RunSentence(example))
    if state.messages and not state.context_used and not obstacle(state):
        imgui.dummy(ImVec2(0, ui.u(1)))
        if button(ui, "lesson.read", tr("Read the conversation again"), enabled=not state.reading):
            actions.append(ReadAgain())
    elif state.messages and not state.busy:
        imgui.dummy(ImVec2(0, ui.u(1)))
        hint = tr("Your conversation is kept: a new one begins with the sentence.")
        stay = tr("Stay with the sentence that is there")
        if state.lesson.typing and button(ui, "lesson.keep", stay, hint=hint):
            actions.append(TypeSentence(False))
        wrapped(ui, hint, "faint")
    return actions
