"""What the conversation is, above it, where it is no chat as the model was made for: one text that
the model continues, or a chat in a plain format."""

from __future__ import annotations

from imgui_bundle import imgui

from llm_lite.desktop.features.chat.model import SetForm
from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.features.sampling.model import completes, has_template
from llm_lite.desktop.language.translate import mark, tr
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import button, fit, text, tip

CONTINUED = mark("Text completion: the model goes on with what you write.")
NO_TEMPLATE = mark("Text completion: {name} has no chat template, it goes on with what you write.")
PLAIN_CHAT = mark("{name} has no chat template: it is asked in a plain format of roles.")
WHAT_IT_READS = mark(
    "The model reads all of this as one text, without roles around it. What you write behind an "
    "answer begins a paragraph, unless it begins with a space or a line. An answer ends where the "
    "model begins to write as somebody else, as “User:”."
)
EXAMPLES = (
    (mark("Story"), mark("Once upon a time, in a village by the sea,")),
    (mark("List"), mark("The five largest cities of the world are:\n1.")),
    (mark("Code"), mark("# A Python function that reverses a string\n")),
)


def draw_form(state: AppState, ui: Ui) -> list[Action]:
    """A line, with a way to the other form as long as nothing was said."""
    words = _words(state)
    if not words:
        return []
    other = tr("Chat instead") if completes(state) else tr("Continue a text instead")
    with ui.font(style="small"):
        wide = imgui.calc_text_size(other).x + ui.u(6)
    room = imgui.get_content_region_avail().x - ui.u(4) - (0 if state.messages else wide)
    imgui.set_cursor_pos_x(imgui.get_cursor_pos_x() + ui.u(2))
    imgui.align_text_to_frame_padding()
    with ui.font(style="small"):
        shown = fit(words, room)
    text(ui, shown, "muted", "small")
    ui.mark("chat.form_note")
    tip(ui, words if not completes(state) else f"{words}\n{tr(WHAT_IT_READS)}")
    if state.messages:
        return []
    imgui.same_line(0, ui.u(2))
    with ui.font(style="small"):
        clicked = button(ui, "chat.other_form", other)
    return [SetForm("chat" if completes(state) else "completion")] if clicked else []


def _words(state: AppState) -> str:
    name = state.model.name if state.model else ""
    if completes(state):
        return tr(CONTINUED) if has_template(state) else tr(NO_TEMPLATE).format(name=name)
    return "" if has_template(state) else tr(PLAIN_CHAT).format(name=name)
