"""The layout of heads: a row a layer, a column a head, in lines of one length where a layer has
more heads than fit beside each other."""

from __future__ import annotations

from imgui_bundle import ImVec2, imgui
from msgspec import Struct

from llm_lite.desktop.language.translate import tr
from llm_lite.desktop.widgets.plots.axes import upright_name
from llm_lite.desktop.widgets.ui import Ui

WANTED, LEAST = 7.0, 4.5  # of a cell, in spacing units


class HeadColumns(Struct, frozen=True):
    """`count` heads beside each other, on `lines` lines a layer."""

    count: int
    lines: int

    def offsets(self, heads: int) -> list[int]:
        """Return the first head of each line."""
        return list(range(0, heads, self.count))


def columns_of(heads: int, room: float, wanted: float, least: float) -> HeadColumns:
    """Lay all heads on one line where cells of `least` pixels find room in `room`, else on lines
    of one length, of cells of `wanted` pixels."""
    if heads * least <= room:
        return HeadColumns(max(heads, 1), 1)
    lines = -(-heads // max(1, int(room / wanted)))
    count = -(-heads // lines)
    return HeadColumns(count, -(-heads // count))


def head_columns(ui: Ui, heads: int, room: float) -> HeadColumns:
    return columns_of(max(heads, 1), room, ui.u(WANTED), ui.u(LEAST))


def gutter(ui: Ui) -> float:
    """Return the room at the left of a grid for the layers' upright name and their numbers."""
    with ui.font(style="small"):
        numbers = imgui.calc_text_size("000").x
        return max(ui.theme.size("small") + ui.u(1) + numbers, head_name_width(ui)) + ui.u(1)


def head_name_width(ui: Ui) -> float:
    with ui.font(style="small"):
        return float(imgui.calc_text_size(tr("Head")).x)


def draw_names(
    ui: Ui, draw: imgui.ImDrawList, at: tuple[float, float], bottom: float, name: str
) -> None:
    """Draw the axes' names: that of the columns in the corner `at`, before their numbers, that of
    the rows upright below it. They stay where they are while the grid scrolls."""
    (x, y), small = at, ui.theme.size("small")
    with ui.font(style="small"):
        draw.add_text(ImVec2(x, y), ui.color("muted"), tr("Head"))
    upright_name(ui, tr("Layer"), x, y + small + ui.u(1), bottom, draw)
    ui.rects[name] = (x, y, x + gutter(ui), bottom)
