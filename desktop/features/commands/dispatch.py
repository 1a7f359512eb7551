"""Keys that work wherever the focus is, found in the table."""

from __future__ import annotations

from imgui_bundle import imgui

from llm_lite.desktop.features.commands.command import UserCommand
from llm_lite.desktop.features.commands.keys import chord
from llm_lite.desktop.features.commands.table import GLOBAL
from llm_lite.desktop.features.commands.typing import InputKeys
from llm_lite.desktop.features.lesson.model import ShowLesson
from llm_lite.desktop.features.library.model import ShowLibrary
from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.widgets.ui import Ui

_CHORDS = tuple((chord(key), command) for command in GLOBAL for key in command.keys)
_ROUTE = int(imgui.InputFlags_.route_global | imgui.InputFlags_.route_over_focused)
_OVER_INPUT = int(imgui.InputFlags_.route_global | imgui.InputFlags_.route_over_active)
OF_CONVERSATION = (
    "chat",
    "conversations",
    "look",
    "compare",
)  # groups whose work is in sight there


def answer_keys(state: AppState, ui: Ui) -> list[Action]:
    """Run the command of the keys that went down just now."""
    typing = imgui.get_io().want_text_input
    untouched = ui.local(InputKeys).untouched
    for code, command in _CHORDS:
        route = _ROUTE
        if typing and not command.while_typing:
            if not (untouched and command.in_untouched_input):
                continue
            route = _OVER_INPUT
        if imgui.shortcut(code, route):
            return run(command, state, ui)
    return []


def run(command: UserCommand, state: AppState, ui: Ui) -> list[Action]:
    """Run a command; nothing happens where it cannot be done now."""
    if command.run is None or not command.when(state, ui):
        return []
    done = command.run(state, ui)
    if state.library.shown and command.group in OF_CONVERSATION:
        return [ShowLibrary(False), *done]
    if state.lesson.shown and command.group in OF_CONVERSATION:
        return [ShowLesson(False), *done]
    return done
