"""Legends: what the colours and signs of a figure stand for, below or above it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from imgui_bundle import ImVec2, imgui
from msgspec import Struct

from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import fit, tip

Sign = Literal["area", "line", "upright", "dot"]
SIGN, GAP = 3.0, 1.0  # width of a sign, and room behind it, in spacing units


class LegendEntry(Struct, frozen=True):
    """A legend's line: a packed colour, the sign that has it in the figure, and its meaning."""

    color: int
    words: str
    sign: Sign = "area"
    hint: str = ""


def draw_legend(ui: Ui, name: str, entries: Sequence[LegendEntry]) -> None:
    """Draw the entries in small text, as many on a line as there is room for."""
    room, top = imgui.get_content_region_avail().x, imgui.get_cursor_screen_pos()
    draw, small, start = (
        imgui.get_window_draw_list(),
        ui.theme.size("small"),
        imgui.get_cursor_pos(),
    )
    placed = _placed(ui, entries, room)
    with ui.font(style="small"):
        for entry, (words, x, line, width) in zip(entries, placed, strict=True):
            y = line * _pitch(ui)
            at = ImVec2(top.x + x, top.y + y)
            draw_sign(ui, entry, at, draw)
            spot = ImVec2(at.x + ui.u(SIGN) + ui.u(GAP), at.y)
            draw.add_text(spot, ui.color("muted"), words)
            imgui.set_cursor_pos(ImVec2(start.x + x, start.y + y))
            imgui.dummy(ImVec2(width, small))
            tip(ui, entry.hint)
    imgui.set_cursor_pos(start)
    imgui.dummy(ImVec2(room, legend_height(ui, entries, room)))
    ui.mark(name)


def legend_height(ui: Ui, entries: Sequence[LegendEntry], room: float) -> float:
    """Return the height of the legend in a room so many pixels wide."""
    placed = _placed(ui, entries, room)
    return placed[-1][2] * _pitch(ui) + ui.theme.size("small") if placed else 0.0


def _pitch(ui: Ui) -> float:
    return ui.theme.size("small") + ui.u(1)


def _placed(
    ui: Ui, entries: Sequence[LegendEntry], room: float
) -> list[tuple[str, float, int, float]]:
    """Return each entry's words, where it begins, on which line, and its width."""
    found, x, line = list[tuple[str, float, int, float]](), 0.0, 0
    with ui.font(style="small"):
        for entry in entries:
            words = fit(entry.words, room - ui.u(SIGN) - ui.u(GAP))
            width = ui.u(SIGN) + ui.u(GAP) + imgui.calc_text_size(words).x
            if x and x + width > room:
                x, line = 0.0, line + 1
            found.append((words, x, line, width))
            x += width + ui.u(4)
    return found


def draw_sign(ui: Ui, entry: LegendEntry, at: ImVec2, draw: imgui.ImDrawList) -> None:
    """Draw an entry's sign before a line of small text whose upper corner is `at`."""
    wide, small = ui.u(SIGN), ui.theme.size("small")
    middle = ImVec2(at.x + wide / 2, at.y + small / 2)
    half, thick = ui.u(1.25), max(2.0, ui.u(0.5))
    if entry.sign == "line":
        low, high = ImVec2(at.x, middle.y), ImVec2(at.x + wide, middle.y)
        draw.add_line(low, high, entry.color, thick)
    elif entry.sign == "upright":
        low, high = ImVec2(middle.x, at.y), ImVec2(middle.x, at.y + small)
        draw.add_line(low, high, entry.color, thick)
    elif entry.sign == "dot":
        draw.add_circle_filled(middle, ui.u(1), entry.color)
    else:
        low = ImVec2(middle.x - half, round(middle.y - half))
        high = ImVec2(middle.x + half, low.y + 2 * half)
        draw.add_rect_filled(low, high, entry.color, ui.u(0.5))
