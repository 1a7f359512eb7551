"""Characters that are typed while no field has the keyboard go to the chat's input."""

from __future__ import annotations

from imgui_bundle import imgui
from msgspec import Struct

from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.widgets.ui import Ui

INPUT = "chat.input"


class InputKeys(Struct):
    """The chat's input and the keyboard."""

    active: bool = False  # the input has the keys
    untouched: bool = False  # it has them, and nothing of its own to undo
    waiting: str = ""  # typed until it has them


def goes_to_input(state: AppState, ui: Ui) -> bool:
    """Tell whether characters that are typed now belong to no field, no dialog and no page."""
    return INPUT in ui.before and not (
        imgui.get_io().want_text_input
        or imgui.is_popup_open("", imgui.PopupFlags_.any_popup)
        or imgui.is_any_item_active()
        or state.lesson.shown
        or state.library.shown
        or not state.holds_conversations
    )


def take_typed(state: AppState, ui: Ui, *, composing: bool) -> None:
    """Hold characters until the input has the keyboard, where they go first. `composing`: an input
    method holds others back, which go on there."""
    queue = imgui.get_io().input_queue_characters
    keys = ui.local(InputKeys)
    waiting = keys.waiting
    if keys.active:
        for character in reversed(waiting):
            queue.push_front(ord(character))
        keys.waiting = ""
        return
    if not waiting and not goes_to_input(state, ui):
        return
    if imgui.is_popup_open("", imgui.PopupFlags_.any_popup):
        keys.waiting = ""
        return
    typed = "".join(chr(queue[at]) for at in range(len(queue)))
    if imgui.get_io().nav_visible and not waiting:  # Space presses what the keyboard is at
        typed = typed.lstrip(" ")
    waiting += "".join(character for character in typed if character.isprintable())
    if waiting:
        queue.clear()
        keys.waiting = waiting
    if waiting or composing:
        ui.ask("input")
