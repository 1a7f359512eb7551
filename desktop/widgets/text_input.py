"""Fields of several lines, and the content of one, kept from frame to frame beside what the library
keeps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from imgui_bundle import ImVec2, imgui
from msgspec import Struct


class Input(Struct):
    """The content of a text field. A draft changed from outside needs a field with a new
    identity."""

    text: str = ""
    generation: int = 0
    focus: bool = True
    touched: bool = False  # something was typed, which the field itself can undo
    begun: tuple[int, bool] = (0, False)  # the chat's number, and whether there was a model
    to_end: bool = True  # a new field begins with the caret at the start; it belongs at the end
    caret: int = 0  # where it was last, in bytes
    active: bool = False  # it had the keyboard in the frame before

    def renew(self, text: str) -> None:
        self.text, self.generation = text, self.generation + 1
        self.focus = self.to_end = True
        self.touched = False

    def again(self) -> None:
        """Give the field a new identity with its text and its caret."""
        self.generation += 1
        self.focus, self.active = True, False

    def place_caret(self, data: Any) -> int:
        """Place the caret: the callback of the field while it has the focus. It comes back to its
        place where the keyboard comes back without a click: the library forgets it as soon as
        another field had one."""
        returns = not self.active and not imgui.is_mouse_down(0)
        if self.to_end or returns:
            at = data.buf_text_len if self.to_end else min(self.caret, data.buf_text_len)
            data.cursor_pos = data.selection_start = data.selection_end = at
            self.to_end = False
        if not imgui.is_key_pressed(imgui.Key.escape, False):  # which takes the text back, and it
            self.caret = data.cursor_pos
        self.active = True
        return 0


def lines_field(
    label: str,
    words: str,
    size: ImVec2,
    flags: int = 0,
    callback: Callable[[Any], int] | None = None,
) -> tuple[bool, str]:
    """Draw a field of several lines, and return whether its words changed (or Enter was pressed, by
    its flags) and these."""
    if pastes():  # or Dear ImGui drops the tabs; at other times the key would not leave the field
        flags |= imgui.InputTextFlags_.allow_tab_input
    changed, words = imgui.input_text_multiline(label, words, size, flags, callback)
    return bool(changed), str(words)


def pastes() -> bool:
    """Return whether the keys that paste are pressed just now: those that Dear ImGui knows."""
    io, key = imgui.get_io(), imgui.Key
    return (io.key_ctrl and imgui.is_key_pressed(key.v)) or (
        io.key_shift and imgui.is_key_pressed(key.insert)
    )
