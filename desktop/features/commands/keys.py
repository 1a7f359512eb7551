"""Keys of commands: their chords, hints that name them, and what runs when they go down."""

from __future__ import annotations

import sys
from functools import lru_cache

from imgui_bundle import imgui
from msgspec import Struct

from llm_lite.desktop.features.commands.table import BY_NAME, GLOBAL, UserCommand
from llm_lite.desktop.features.lesson.model import ShowLesson
from llm_lite.desktop.features.library.model import ShowLibrary
from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.widgets.text_input import Input
from llm_lite.desktop.widgets.ui import Ui

_KEY = imgui.Key
# As integers: joined as enum members, some versions of Python fail to name the sum.
_MODIFIERS = {
    "Ctrl": int(_KEY.mod_ctrl),
    "Shift": int(_KEY.mod_shift),
    "Alt": int(_KEY.mod_alt),
}
_NAMED = {
    "Esc": _KEY.escape, "Enter": _KEY.enter, "Delete": _KEY.delete, "Tab": _KEY.tab,
    "Space": _KEY.space, "PageUp": _KEY.page_up, "PageDown": _KEY.page_down,
    "Home": _KEY.home, "End": _KEY.end,
    "Left": _KEY.left_arrow, "Right": _KEY.right_arrow, "Up": _KEY.up_arrow,
    "Down": _KEY.down_arrow,
    ",": _KEY.comma, ".": _KEY.period, "/": _KEY.slash, "-": _KEY.minus, "=": _KEY.equal,
    "+": _KEY.equal,
    "Keypad+": _KEY.keypad_add, "Keypad-": _KEY.keypad_subtract,
}  # fmt: skip
_MAC = {"Ctrl": "Cmd"}  # Dear ImGui takes the one for the other there
INPUT = "chat.input"
# Groups of commands whose work is in sight in the conversation.
OF_CONVERSATION = ("chat", "conversations", "look", "compare")
_ROUTE = int(imgui.InputFlags_.route_global | imgui.InputFlags_.route_over_focused)
_OVER_INPUT = int(imgui.InputFlags_.route_global | imgui.InputFlags_.route_over_active)


@lru_cache(maxsize=512)
def chord(written: str) -> int:
    """Return the chord as Dear ImGui has it. Raises KeyError where there is no such key."""
    *modifiers, key = parts(written)
    code = _NAMED[key] if key in _NAMED else getattr(_KEY, _plain(key))
    total = int(code)
    for modifier in modifiers:
        total |= _MODIFIERS[modifier]
    return total


def parts(written: str) -> tuple[str, ...]:
    """Split a chord into the keys that are held together, modifiers first; `+` may be the last of
    them."""
    found: list[str] = []
    rest = written
    while True:
        first, joined, behind = rest.partition("+")
        if not joined or first not in _MODIFIERS:
            return (*found, rest)
        found.append(first)
        rest = behind


def shown(written: str) -> str:
    """Return the chord as a person reads it on this system."""
    if sys.platform != "darwin":
        return written
    return "+".join(_MAC.get(part, part) for part in parts(written))


def _plain(key: str) -> str:
    return f"_{key}" if key.isdigit() else key.lower()


def keys_of(name: str) -> str:
    """Return the keys of a command as a person reads them; "" where it has none."""
    keys = BY_NAME[name].keys
    return shown(keys[0]) if keys else ""


def with_keys(words: str, name: str) -> str:
    """Return a hint with the keys that do the same: "New chat (Ctrl+N)"."""
    keys = keys_of(name)
    return f"{words} ({keys})" if keys else words


def is_pressed(name: str) -> bool:
    """Tell whether the keys of a command that works in one place went down just now."""
    return any(imgui.is_key_chord_pressed(chord(key)) for key in BY_NAME[name].keys)


_CHORDS = tuple((chord(key), command) for command in GLOBAL for key in command.keys)


class InputKeys(Struct):
    """The chat's input and the keyboard."""

    field: Input | None = None  # the input, once it was drawn
    active: bool = False  # the input has the keys
    untouched: bool = False  # it has them, and nothing of its own to undo
    waiting: str = ""  # typed until it has them


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


def focus_input(ui: Ui) -> None:
    """Give the chat's input the keyboard when it is drawn next."""
    field = ui.local(InputKeys).field
    if field is not None:
        field.focus = True


def goes_to_input(state: AppState, ui: Ui) -> bool:
    """Tell whether characters that are typed now belong to no field, no dialog and no page."""
    return INPUT in ui.before and not (
        imgui.get_io().want_text_input
        or imgui.is_popup_open("", imgui.PopupFlags_.any_popup)
        or imgui.is_any_item_active()
        or state.lesson.shown
        or state.library.shown
        or not state.holds_conversations
        or (state.history.renaming is not None and ui.shows_list)  # its field comes with this frame
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
        ui.request("input")
