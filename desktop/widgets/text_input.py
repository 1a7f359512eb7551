"""The content of a field of several lines, kept from frame to frame beside what the library
keeps."""

from __future__ import annotations

from typing import Any

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

    def renew(self, text: str) -> None:
        self.text, self.generation = text, self.generation + 1
        self.focus = self.to_end = True
        self.touched = False

    def place_caret(self, data: Any) -> int:
        """Place the caret: the callback of the field while it has the focus."""
        if self.to_end:
            data.cursor_pos = data.selection_start = data.selection_end = data.buf_text_len
            self.to_end = False
        return 0
