"""A block of code: its frame, its buttons, the numbers and colours of its lines."""

from __future__ import annotations

from typing import Any

from imgui_bundle import ImVec2, imgui
from msgspec import Struct, field

from llm_lite.desktop.language.translate import tr
from llm_lite.desktop.widgets.icons import ICON_CHECK, ICON_COPY, ICON_DOWNLOAD, ICON_NUMBERS
from llm_lite.desktop.widgets.markdown.layout import LaidText
from llm_lite.desktop.widgets.markdown.wrapping import Run
from llm_lite.desktop.widgets.markup.code_colors import Colored
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import fit, icon_button


class CodeFrames(Struct):
    numbered: bool = False  # lines of code have numbers
    to_save: tuple[str, str] | None = None  # code and language that a person wants to save
    copied: dict[str, float] = field(default_factory=dict)  # until when a button says so, by name


def draw_frame(
    ui: Ui, draw: Any, laid: LaidText, x: float, y: float, width: float, name: str
) -> None:
    """Behind the code; `x` is its left edge, `width` what is to the right of it."""
    low, high = ImVec2(x, y), ImVec2(x + width, y + laid.height)
    draw.add_rect_filled(low, high, ui.color("code"), ui.theme.radius)
    draw.add_rect(low, high, ui.color("border"), ui.theme.radius, ui.u(0.25))
    small, side, block = ui.theme.size("small"), ui.u(6), laid.block
    spot = ImVec2(x + ui.u(3), y + round((ui.u(8) - small) / 2))
    with ui.font(style="small"):
        label = fit(block.label or "code", max(width - 3 * side - ui.u(8), small))
        draw.add_text(spot, ui.color("muted"), label)
    top = y + ui.u(1)
    imgui.set_cursor_screen_pos(ImVec2(x + width - side - ui.u(1), top))
    copy_button(ui, f"{name}.copy", block.text, tr("Copy the code"), side)
    imgui.set_cursor_screen_pos(ImVec2(x + width - 2 * side - ui.u(1.5), top))
    hint = tr("Save the code to a file")
    if icon_button(ui, f"{name}.save", ICON_DOWNLOAD, hint, side=side, style="small"):
        ui.local(CodeFrames).to_save = block.text, block.label
    imgui.set_cursor_screen_pos(ImVec2(x + width - 3 * side - ui.u(2), top))
    frames = ui.local(CodeFrames)
    shown = frames.numbered
    hint = tr("Hide the numbers of the lines") if shown else tr("Number the lines")
    if icon_button(
        ui, f"{name}.numbers", ICON_NUMBERS, hint, side=side, active=shown, style="small"
    ):
        frames.numbered = not shown


def draw_numbers(
    ui: Ui, draw: Any, laid: LaidText, x: float, y: float, low: float, high: float
) -> None:
    """Draw the numbers of lines that lie between `low` and `high`, right-aligned before the
    code."""
    if not laid.numbers:
        return
    digits = max(2, len(str(len(laid.numbers))))
    ui.push_font("mono", laid.size)
    wide = imgui.calc_text_size("0").x
    imgui.pop_font()
    edge, color = x + ui.u(3) + digits * wide, ui.color("faint")
    for number, top in enumerate(laid.numbers, 1):
        if y + top + laid.size < low or y + top > high:
            continue
        words = str(number)
        spot = ImVec2(round(edge - len(words) * wide), round(y + top))
        draw.add_text(ui.fonts["mono"], laid.size, spot, color, words)


def draw_code_run(
    ui: Ui, draw: Any, laid: LaidText, run: Run, at: int, colored: Colored, x: float, y: float
) -> None:
    """Draw a line, or a part of one, that begins with character `at` of the code."""
    begin, spot = at, x
    ui.push_font("mono", laid.size)
    for end, kind in colored.parts(at, at + len(run.text)):
        words = run.text[begin - at : end - at]
        if not words.isspace():
            draw.add_text(ImVec2(spot, round(y)), ui.color_of_code(kind), words)
        if end < at + len(run.text):
            spot += imgui.calc_text_size(words).x
        begin = end
    imgui.pop_font()


def copy_button(ui: Ui, name: str, words: str, hint: str, side: float) -> None:
    """Draw a button that copies `words`; it shows a tick for a moment."""
    copied = ui.local(CodeFrames).copied
    until = copied.get(name, 0.0)
    done = ui.now < until
    if done:
        ui.redraw_in(until - ui.now)
    icon, color = (ICON_CHECK, "good") if done else (ICON_COPY, "muted")
    if icon_button(ui, name, icon, hint, side=side, color=color, style="small"):
        imgui.set_clipboard_text(words)
        copied[name] = ui.now + 1.5
