"""What is typed while no field has the keyboard: it goes to the chat's input."""

from __future__ import annotations

from imgui_bundle import imgui

from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.widgets.ui import Ui

ACTIVE = "input.active"  # in the memory of the window: whether the input has the keys
INPUT = "chat.input"
_TYPED = "input.typed"  # what was typed until it has them


def goes_to_input(state: AppState, ui: Ui) -> bool:
    """Whether characters that are typed now belong to no field, no dialog and no page."""
    return INPUT in ui.before and not (
        imgui.get_io().want_text_input
        or imgui.is_popup_open("", imgui.PopupFlags_.any_popup)
        or imgui.is_any_item_active()
        or state.lesson.shown
        or state.library.shown
        or not state.holds_conversations
    )


def take_typed(state: AppState, ui: Ui, *, composing: bool) -> None:
    """Characters wait until the input has the keyboard, and then go first. `composing`: an input
    method holds others back, which go on there."""
    queue = imgui.get_io().input_queue_characters
    waiting: str = ui.memory.get(_TYPED, "")
    if ui.memory.get(ACTIVE):
        for character in reversed(waiting):
            queue.push_front(ord(character))
        ui.memory.pop(_TYPED, None)
        return
    if not waiting and not goes_to_input(state, ui):
        return
    if imgui.is_popup_open("", imgui.PopupFlags_.any_popup):
        ui.memory.pop(_TYPED, None)
        return
    typed = "".join(chr(queue[at]) for at in range(len(queue)))
    if imgui.get_io().nav_visible and not waiting:  # Space presses what the keyboard is at
        typed = typed.lstrip(" ")
    waiting += "".join(character for character in typed if character.isprintable())
    if waiting:
        queue.clear()
        ui.memory[_TYPED] = waiting
    if waiting or composing:
        ui.ask("input")
