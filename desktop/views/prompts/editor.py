"""A prompt's name and text, as they are edited."""

from __future__ import annotations

from imgui_bundle import ImVec2, imgui

from llm_lite.desktop.actions.act import Action
from llm_lite.desktop.actions.prompts import SavePrompt
from llm_lite.desktop.language.translate import tr
from llm_lite.desktop.state.composing.prompts import LONGEST_NAME, LONGEST_PROMPT, SavedPrompt
from llm_lite.desktop.state.incoming import typed
from llm_lite.desktop.state.state import AppState
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import button, primary_button, text, wrapped

_EDIT = "prompts.edit"  # the name that it had, its name, its text


def begin_edit(ui: Ui, name: str, words: str) -> None:
    ui.memory[_EDIT] = (name, name, words)


def is_editing(ui: Ui) -> bool:
    return _EDIT in ui.memory


def draw_editor(state: AppState, ui: Ui) -> list[Action]:
    before, name, words = ui.memory[_EDIT]
    text(ui, tr("Name"), "muted", "small")
    imgui.set_next_item_width(-1)
    _, name = imgui.input_text("##prompts.edit.name", name)
    ui.mark("prompts.edit.name")
    text(ui, tr("Text"), "muted", "small")
    size, flags = ImVec2(-1, ui.theme.text * 10), imgui.InputTextFlags_.word_wrap
    _, words = imgui.input_text_multiline("##prompts.edit.text", words, size, flags)
    ui.mark("prompts.edit.text")
    name, words = name[:LONGEST_NAME], typed(words[:LONGEST_PROMPT])
    ui.memory[_EDIT] = (before, name, words)
    places = SavedPrompt(name, words).places
    if places:
        wrapped(ui, tr("Asked for when it is inserted: {names}.").format(names=", ".join(places)))
    taken = name.strip() != before and state.prompts.named(name.strip()) is not None
    if taken:
        wrapped(ui, tr("There is a prompt of this name already."), "warning")
    ready = bool(name.strip() and words.strip()) and not taken
    saved = primary_button(ui, "prompts.edit.save", tr("Save"), enabled=ready)
    imgui.same_line()
    if button(ui, "prompts.edit.cancel", tr("Cancel")) or saved:
        del ui.memory[_EDIT]
    return [SavePrompt(name.strip(), words, before)] if saved else []
