"""The field of a text for the encoder: encoded at Enter, or after a pause."""

from __future__ import annotations

import math
from typing import Any

from imgui_bundle import ImVec2, imgui
from msgspec import Struct

from llm_lite.desktop.features.encoder.state import LONGEST
from llm_lite.desktop.language.incoming import typed
from llm_lite.desktop.widgets.ui import Ui

ENCODED_INPUT = "encoding.input"  # in the memory of the interface: the field that is shown
REST = 0.35  # seconds without a key press, after which the text is encoded
MOST_LINES = 8


class TextField(Struct):
    """What the field holds; a text changed from outside needs a field with a new identity."""

    text: str = ""
    generation: int = 0
    focus: bool = False
    caret: int = 0  # in bytes of UTF-8
    goes_to: int | None = None  # where the caret is to go

    def renew(self, text: str) -> None:
        self.text, self.generation = text, self.generation + 1
        self.goes_to = len(text.encode("utf-8", "replace"))

    def insert(self, words: str) -> None:
        """At the caret, with spaces around it where a word stands there."""
        data = self.text.encode("utf-8", "replace")
        before, behind = (part.decode("utf-8", "ignore") for part in self._cut(data))
        lead = " " if before and not before[-1].isspace() else ""
        trail = " " if behind[:1].isalnum() else ""
        text = f"{before}{lead}{words}{trail}{behind}"
        self.renew(text)
        self.goes_to = self.caret = len(f"{before}{lead}{words}".encode("utf-8", "replace"))
        self.focus = True

    def _cut(self, data: bytes) -> tuple[bytes, bytes]:
        at = min(self.caret, len(data))
        return data[:at], data[at:]

    def watch(self, data: Any) -> int:
        """Callback of the field while it has the focus."""
        if self.goes_to is not None:
            at = min(self.goes_to, data.buf_text_len)
            data.cursor_pos = data.selection_start = data.selection_end = at
            self.goes_to = None
        self.caret = data.cursor_pos
        return 0


class Typed(Struct, frozen=True):
    """What a person did in the field: its text, and whether it is to be encoded now."""

    text: str
    typing: bool


def field_of(ui: Ui, text: str) -> TextField:
    """The field that is shown, with a text that may have been changed from outside."""
    held: TextField = ui.memory.setdefault(ENCODED_INPUT, TextField(text))
    if held.text != text:
        held.renew(text)
    return held


def draw_field(ui: Ui, held: TextField, name: str, hint: str, typing: bool, width: float) -> Typed:
    """In `width` pixels, as high as its text; `typing` is what it was in the frame before."""
    size = ImVec2(width, _height(ui, held.text, width))
    at = imgui.get_cursor_screen_pos()
    if held.focus:
        imgui.set_keyboard_focus_here()
        held.focus = False
        held.goes_to = held.caret if held.goes_to is None else held.goes_to
    entered, words = _input(ui, held, name, size)
    ui.mark(name)
    _draw_edge(ui, at, size)
    if not words:
        spot = ImVec2(at.x + ui.u(3), at.y + ui.u(2))
        imgui.get_window_draw_list().add_text(spot, ui.color("muted"), hint)
    if imgui.is_key_pressed(imgui.Key.escape, False) and words != held.text:
        words = held.text  # Dear ImGui would restore the text from before; we keep it
        held.renew(words)
    if words != held.text:
        held.text, typing = typed(words[:LONGEST]), True
        ui.memory["encoding.typed"] = ui.now
    if entered:
        held.focus, typing = True, False
    return Typed(held.text, typing and not has_rested(ui))


def has_rested(ui: Ui) -> bool:
    """Whether nothing was typed for a while; else a frame will look again."""
    left = REST - (ui.now - ui.memory.get("encoding.typed", -math.inf))
    if left > 0:
        ui.redraw_in(left)
    return bool(left <= 0)


def _input(ui: Ui, held: TextField, name: str, size: ImVec2) -> tuple[bool, str]:
    flags = imgui.InputTextFlags_
    with (
        ui.colored(frame_bg="raised", frame_bg_hovered="raised", frame_bg_active="raised"),
        ui.styled(frame_padding=(ui.u(3), ui.u(2)), frame_rounding=ui.u(2)),
    ):
        entered, words = imgui.input_text_multiline(
            f"##{name}{held.generation}",
            held.text,
            size,
            flags.ctrl_enter_for_new_line
            | flags.enter_returns_true
            | flags.word_wrap
            | flags.callback_always,
            held.watch,
        )
    return bool(entered), str(words)


def _height(ui: Ui, text: str, width: float) -> float:
    with ui.font():
        wanted = imgui.calc_text_size(text + "|", wrap_width=width - ui.u(7)).y
    lines = min(MOST_LINES, max(2, round(wanted / ui.theme.text)))
    return lines * ui.theme.text + ui.u(4)


def _draw_edge(ui: Ui, at: ImVec2, size: ImVec2) -> None:
    edge = "accent" if imgui.is_item_active() else "border"
    end = ImVec2(at.x + size.x, at.y + size.y)
    imgui.get_window_draw_list().add_rect(at, end, ui.color(edge), ui.u(2), ui.u(0.35))
