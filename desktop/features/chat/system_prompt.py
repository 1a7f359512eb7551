"""What the model is told before every conversation."""

from __future__ import annotations

from imgui_bundle import ImVec2, imgui

from llm_lite.desktop.features.chat.model import SetSystemPrompt
from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.language.translate import mark, tr
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import button, wrapped

NOTE = mark(
    "Said to the model before the conversation: who it is and how to answer. Small models follow "
    "it loosely. A change counts from the next message on, and the conversation is read again."
)
DEFAULT = "You are a helpful assistant."


def draw(state: AppState, ui: Ui) -> list[Action]:
    wrapped(ui, tr(NOTE))
    width = imgui.get_content_region_avail().x
    flags = imgui.InputTextFlags_.word_wrap
    with ui.styled(frame_padding=(ui.u(2.5), ui.u(2))):
        changed, words = imgui.input_text_multiline(
            "##system", state.system_prompt, ImVec2(width, ui.theme.text * 7), flags
        )
    ui.mark("system_prompt.text")
    escaped = imgui.is_key_pressed(imgui.Key.escape, False)  # closes; must not restore the text
    actions: list[Action] = [SetSystemPrompt(words)] if changed and not escaped else []
    if button(ui, "system_prompt.default", tr("Default"), enabled=state.system_prompt != DEFAULT):
        actions.append(SetSystemPrompt(DEFAULT))
    imgui.same_line()
    if button(ui, "system_prompt.clear", tr("None"), enabled=bool(state.system_prompt)):
        actions.append(SetSystemPrompt(""))
    return actions
