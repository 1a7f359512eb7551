"""Shapes of the map: questions are squares, answers circles; the way that is shown is in colour."""

from __future__ import annotations

from imgui_bundle import ImVec2, imgui

from llm_lite.core.records import dataclass
from llm_lite.desktop.state.tree.tree_map import MapCell
from llm_lite.desktop.widgets.ui import Ui


@dataclass(frozen=True, slots=True)
class Pen:
    """Where the map lies on the screen, in pixels."""

    ui: Ui
    x: float
    y: float
    step: float  # between two rows, and two columns

    def spot(self, row: int, column: int) -> tuple[float, float]:
        """The middle of a cell."""
        half = self.step / 2
        return round(self.x + column * self.step + half), round(self.y + row * self.step + half)


def draw_forks(pen: Pen, row: int, forks: tuple[tuple[int, int], ...]) -> None:
    """Across, half a row above the messages that stand beside each other."""
    draw, color = imgui.get_window_draw_list(), pen.ui.color("faint", 0.5)
    thick = max(1.0, pen.ui.u(0.4))
    for first, last in forks:
        x0, y = pen.spot(row, first)
        x1, _ = pen.spot(row, last)
        y -= round(pen.step / 2)
        draw.add_line(ImVec2(x0, y), ImVec2(x1, y), color, thick)


def draw_link(pen: Pen, row: int, cell: MapCell, *, lit: bool) -> None:
    """From a message to the one that it follows."""
    if row == 0 and cell.column == 0:
        return
    ui, draw = pen.ui, imgui.get_window_draw_list()
    x, y = pen.spot(row, cell.column)
    above, half = max(cell.above, 0), round(pen.step / 2)
    color, thick = (
        ui.color("accent") if lit else ui.color("faint", 0.5),
        max(1.0, ui.u(0.6 if lit else 0.4)),
    )
    draw.add_line(ImVec2(x, y - half), ImVec2(x, y), color, thick)
    if row == 0:
        return
    x0, y0 = pen.spot(row - 1, above)
    if lit or cell.column == above:
        draw.add_line(ImVec2(x0, y0), ImVec2(x0, y - half), color, thick)
    if lit and cell.column != above:
        draw.add_line(ImVec2(x0, y - half), ImVec2(x, y - half), color, thick)


def draw_cell(pen: Pen, row: int, cell: MapCell, *, lit: bool, hovered: bool, held: bool) -> None:
    ui, draw = pen.ui, imgui.get_window_draw_list()
    x, y = pen.spot(row, cell.column)
    size = ui.u(1.6)
    fill = ui.color("accent" if lit else "faint")
    if cell.count > 1:  # a run of messages: three dots
        dot, gap = max(1.0, ui.u(0.5)), ui.u(1.4)
        draw.add_rect_filled(
            ImVec2(x - dot * 2, y - gap - dot * 2), ImVec2(x + dot * 2, y + gap + dot * 2),
            ui.color("base"),
        )  # fmt: skip
        for at in (-1, 0, 1):
            draw.add_circle_filled(ImVec2(x, y + at * gap), dot, fill)
    elif cell.role == "assistant":
        draw.add_circle_filled(ImVec2(x, y), size, fill)
    else:
        low, high = ImVec2(x - size, y - size), ImVec2(x + size, y + size)
        draw.add_rect_filled(low, high, ui.color("base"), ui.u(0.6))
        draw.add_rect(low, high, fill, ui.u(0.6), max(1.0, ui.u(0.5)))
        if cell.role not in ("user", "text"):  # a system's or a tool's
            draw.add_line(ImVec2(x - size, y), ImVec2(x + size, y), fill, max(1.0, ui.u(0.5)))
    if held or hovered:
        ring = ui.color("text" if held else "muted")
        draw.add_circle(ImVec2(x, y), size + ui.u(1), ring, 0, max(1.0, ui.u(0.4)))
