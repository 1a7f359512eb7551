"""Axes of figures: each has a name, a unit and a scale, in plots and in figures drawn by hand."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from imgui_bundle import ImVec2, ImVec4, imgui, implot
from msgspec import Struct

from llm_lite.desktop.language.translate import tr
from llm_lite.desktop.widgets.theme import vec
from llm_lite.desktop.widgets.ui import Ui

HEIGHT = 30.0  # of a plot, in spacing units
ROOM = 1.1  # above the largest value
SERIES_ALPHA = 0.12  # of the area below a line
VERTEX_BYTES = 20  # the first 8 are x and y, float32
FAR = 1e6
FLAGS = (
    implot.Flags_.no_legend
    | implot.Flags_.no_mouse_text
    | implot.Flags_.no_menus
    | implot.Flags_.no_inputs
)
BARE = implot.AxisFlags_.no_highlight | implot.AxisFlags_.no_side_switch


class Axis(Struct, frozen=True):
    """An axis: its name in the language in use, its unit, its scale. Where `limits` is None, it is
    as long as the data are."""

    name: str
    unit: str = ""
    logarithmic: bool = False
    limits: tuple[float, float] | None = None
    ticks: tuple[float, ...] = ()  # (): where the plot puts them
    lines: bool = False  # across the plot, at its ticks

    @property
    def title(self) -> str:
        """ "Time (ms, logarithmic)"."""
        scale = tr("logarithmic") if self.logarithmic else ""
        known = ", ".join(filter(None, (self.unit, scale)))
        return f"{self.name} ({known})" if known else self.name


def from_zero(name: str, unit: str, largest: float) -> Axis:
    """Make a linear axis that holds all values, up to `largest`."""
    return Axis(name, unit, limits=(0.0, ROOM * largest if largest > 0 else 1.0), lines=True)


@contextmanager
def plot(ui: Ui, name: str, x: Axis, y: Axis, height: float = HEIGHT) -> Iterator[bool]:
    """Draw a plot as wide as there is room, in small text; yield False where it is out of sight.
    `height` is in spacing units."""
    with ui.font(style="small"):
        if not implot.begin_plot(f"##{name}", ImVec2(-1, ui.u(height)), FLAGS):
            yield False
            return
        implot.setup_axes(x.title, y.title, _flags(x), _flags(y))
        for axis, place in ((x, implot.ImAxis_.x1), (y, implot.ImAxis_.y1)):
            if axis.logarithmic:
                implot.setup_axis_scale(place, implot.Scale_.log10)
            if axis.limits is not None:
                implot.setup_axis_limits(place, *axis.limits, imgui.Cond_.always)
            if axis.ticks:
                shown = [f"{value:,g}" for value in axis.ticks]
                implot.setup_axis_ticks(place, list(axis.ticks), shown, False)
        yield True
        implot.end_plot()
    ui.mark(name)


def _flags(axis: Axis) -> int:
    flags = BARE if axis.limits is not None else BARE | implot.AxisFlags_.auto_fit
    return int(flags if axis.lines else flags | implot.AxisFlags_.no_grid_lines)


def line_spec(
    ui: Ui, color: int, *, fill: float = 0.0, weight: float = 0.4, alpha: float = 1.0
) -> Any:
    """Make a line in a colour 0xRRGGBB, `weight` spacing units wide, or an area below one."""
    spec = implot.Spec()
    spec.line_color = spec.fill_color = vec(color, alpha)
    spec.line_weight = max(1.0, ui.u(weight))
    spec.fill_alpha = fill
    return spec


def point_spec(ui: Ui, color: int) -> Any:
    spec = line_spec(ui, color)
    spec.marker, spec.marker_size = implot.Marker_.circle, ui.u(0.9)
    spec.marker_fill_color = spec.marker_line_color = spec.line_color
    spec.fill_alpha = 1.0
    return spec


def series(ui: Ui, number: int) -> int:
    """Return the colour of a series, 0xRRGGBB."""
    colors = ui.theme.palette.series
    return colors[number % len(colors)]


def upright_text(draw: imgui.ImDrawList, words: str, color: int, x: float, y: float) -> None:
    """Draw text that reads upwards from (x, y): level at first, then turned by its vertices."""
    first, low, high = draw.vtx_buffer.size(), draw.get_clip_rect_min(), draw.get_clip_rect_max()
    draw.push_clip_rect(ImVec2(-FAR, -FAR), ImVec2(FAR, FAR))  # or letters are left out
    draw.add_text(ImVec2(0, 0), color, words)
    # Turned, it is cut as what is around it.
    draw.cmd_buffer[draw.cmd_buffer.size() - 1].clip_rect = ImVec4(low.x, low.y, high.x, high.y)
    draw.pop_clip_rect()
    count = draw.vtx_buffer.size() - first
    if count <= 0:
        return
    address = draw.vtx_buffer.data_address() + first * VERTEX_BYTES
    memory = (ctypes.c_char * (count * VERTEX_BYTES)).from_address(address)
    vertices = np.frombuffer(memoryview(memory), np.float32).reshape(count, VERTEX_BYTES // 4)
    across, along = vertices[:, 0].copy(), vertices[:, 1].copy()
    vertices[:, 0], vertices[:, 1] = round(x) + along, round(y) - across


def upright_name(ui: Ui, words: str, x: float, top: float, bottom: float, draw: Any) -> None:
    """Draw the name of an upright axis in the middle between `top` and `bottom`, where it finds
    room."""
    with ui.font(style="small"):
        wide = imgui.calc_text_size(words).x
        if wide <= bottom - top:
            upright_text(draw, words, ui.color("muted"), x, (top + bottom + wide) / 2)
