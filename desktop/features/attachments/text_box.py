"""The first lines of a text, monospaced, in a box that scrolls; only lines in sight are drawn."""

from __future__ import annotations

from imgui_bundle import ImVec2, imgui
from msgspec import Struct, field

from llm_lite.desktop.language.translate import tr
from llm_lite.desktop.widgets.ui import Ui

MOST_LINES, MOST_CHARACTERS = 2000, 200_000  # of a preview
LONGEST_LINE = 400  # characters
KEPT = 8  # texts that are held in lines


class Preview(Struct, frozen=True):
    text: str  # that it was made of
    lines: tuple[str, ...]
    note: str  # what is left out, as a sentence; "" where nothing is


class Previews(Struct):
    made: dict[int, Preview] = field(default_factory=dict)  # by the identity of their texts


def preview(ui: Ui, text: str) -> Preview:
    """Return the preview of a text, which is made once."""
    held = ui.local(Previews).made
    known = held.get(id(text))
    if known is None or known.text is not text:
        while len(held) >= KEPT:
            held.pop(next(iter(held)))
        known = held[id(text)] = _preview(text)
    return known


def _preview(text: str) -> Preview:
    part = text[:MOST_CHARACTERS]
    lines = part.split("\n", MOST_LINES)[:MOST_LINES]
    shown = tuple(
        line if len(line) <= LONGEST_LINE else f"{line[:LONGEST_LINE]} …" for line in lines
    )
    cut = len(part) < len(text) or part.count("\n") >= MOST_LINES
    if not cut:
        return Preview(text, shown, "")
    words = tr("The first {shown:,} of {all:,} lines are shown.")
    return Preview(text, shown, words.format(shown=len(shown), all=text.count("\n") + 1))


def box_height(ui: Ui, text: str, most_lines: float) -> float:
    lines = min(len(preview(ui, text).lines), most_lines)
    return lines * _line(ui) + ui.u(4)


def draw_text_box(ui: Ui, name: str, text: str, size: ImVec2) -> None:
    """Draw the box with its corner at the cursor."""
    shown = preview(ui, text)
    flags = imgui.WindowFlags_.horizontal_scrollbar | imgui.WindowFlags_.no_saved_settings
    padded = imgui.ChildFlags_.always_use_window_padding
    with (
        ui.colored(child_bg="code"),
        ui.styled(
            window_padding=(ui.u(2.5), ui.u(2)), child_rounding=ui.u(1.5), item_spacing=(0.0, 0.0)
        ),
    ):
        imgui.begin_child(f"##{name}", size, padded, flags)
    line, top = _line(ui), imgui.get_cursor_screen_pos()
    first = max(0, int(imgui.get_scroll_y() // line) - 1)
    last = min(len(shown.lines), first + int(size.y // line) + 3)
    draw, font, height = imgui.get_window_draw_list(), ui.fonts["mono"], ui.theme.size("small")
    color = ui.color("text")
    with ui.font("mono", "small"):
        wide = max((imgui.calc_text_size(x).x for x in shown.lines[first:last]), default=0.0)
    for number in range(first, last):
        spot = ImVec2(top.x, round(top.y + number * line))
        draw.add_text(font, height, spot, color, shown.lines[number])
    imgui.dummy(ImVec2(wide, len(shown.lines) * line))
    imgui.end_child()
    ui.mark(name)


def _line(ui: Ui) -> float:
    return float(round(ui.theme.size("small") * 1.45))
