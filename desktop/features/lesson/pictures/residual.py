"""The picture of the residual: a river that grows from layer to layer."""

from __future__ import annotations

import math

from imgui_bundle import ImVec2, imgui

from llm_lite.core.messages.inspecting.lesson import LayerGrowth
from llm_lite.desktop.features.lesson.animation import progress
from llm_lite.desktop.features.lesson.glossary import show_tip
from llm_lite.desktop.features.lesson.model import OpenLayer
from llm_lite.desktop.features.lesson.scene import RIGHT, Scene
from llm_lite.desktop.language.translate import tr
from llm_lite.desktop.widgets.ui import Rect

ATTENTION, FEED_FORWARD, CROSS = 0, 1, 3  # of the palette's series


def draw_residual(scene: Scene) -> None:
    ui = scene.ui
    x0, y0, x1, y1 = scene.rect
    small = ui.theme.size("small")
    scene.text(tr("How large the residual is after each layer (RMS, logarithmic)"), x0, y0)
    foot = y1 - small - ui.u(8)
    split = y0 + (foot - y0) * 0.58
    pointed = _pointed(scene)
    _draw_river(scene, (x0, y0 + small + ui.u(3), x1, split - ui.u(2)), pointed)
    room = _draw_key(scene, split + ui.u(2)) - x0
    words = tr("How large what each layer adds is (RMS, logarithmic)")
    scene.text(words, x0, split + ui.u(2), room=room)
    bars = (x0, split + small + ui.u(5), x1, foot)
    _draw_added(scene, bars, pointed)
    _draw_numbers(scene, foot + ui.u(2), pointed)
    _draw_press(scene, pointed)


def _column(scene: Scene) -> float:
    return (scene.rect[2] - scene.rect[0]) / len(scene.trace.growth)


def _pointed(scene: Scene) -> int:
    """Return the layer under the pointer, or else the opened one."""
    x0, y0, x1, y1 = scene.rect
    if scene.hovered and scene.ui.at_pointer((x0, y0, x1, y1 - scene.u(9))):
        return int((scene.ui.pointer[0] - x0) / _column(scene))
    return scene.trace.layer


def _height(value: float, most: float) -> float:
    """Return the logarithmic height of a value, 0..1: a few layers make the residual many times
    larger."""
    return math.log1p(value / most * 40.0) / math.log1p(40.0) if most > 0 else 0.0


def _draw_river(scene: Scene, rect: Rect, pointed: int) -> None:
    """Draw a band around a middle line, as wide as the residual is large; it flows in from the
    left."""
    ui, trace, draw = scene.ui, scene.trace, scene.draw
    x0, y0, _, y1 = rect
    sizes = [trace.embedded.rms, *(growth.residual for growth in trace.growth)]
    most, each, middle = max(sizes) or 1.0, _column(scene), (y0 + y1) / 2
    flowed = progress(scene.t, 0.0, 0.85) * len(trace.growth)
    upper, lower = [], []
    for layer, size in enumerate(sizes):
        share = flowed - layer
        if share <= -1:
            break
        high, x = _height(size, most) * (y1 - y0) / 2, x0 + layer * each
        if share < 0:  # the end of the river, on its way to this layer
            before = _height(sizes[layer - 1], most) * (y1 - y0) / 2
            high, x = before + (high - before) * (1 + share), x + share * each
        upper.append(ImVec2(x, middle - high))
        lower.append(ImVec2(x, middle + high))
    if len(upper) > 1:
        draw.add_concave_poly_filled([*upper, *reversed(lower)], ui.color("accent", 0.4))
        for bank in (upper, lower):
            draw.add_polyline(bank, ui.color("accent"), ui.u(0.5), 0)
    x = x0 + (pointed + 1) * each
    draw.add_line(ImVec2(x, y0), ImVec2(x, y1), ui.color("text", 0.5), 1.0)
    for value in _ticks(most):
        _draw_tick(scene, value, middle - _height(value, most) * (y1 - y0) / 2)


def _kinds(scene: Scene) -> tuple[tuple[int, str], ...]:
    """Return the parts of a layer, each with its colour's index and its name."""
    first, last = (ATTENTION, tr("attention")), (FEED_FORWARD, tr("feed-forward"))
    if scene.trace.shape.path != "encoder_decoder":
        return first, last
    return first, (CROSS, tr("cross-attention")), last


def _sizes(scene: Scene, growth: LayerGrowth) -> tuple[float, ...]:
    """Return the sizes of what the parts of a layer add, in the order of `_kinds`."""
    if scene.trace.shape.path != "encoder_decoder":
        return growth.attention, growth.feed_forward
    return growth.attention, growth.cross, growth.feed_forward


def _ticks(most: float) -> list[float]:
    """Return the powers of ten that an axis up to `most` names, two at most."""
    top = math.floor(math.log10(most)) if most > 0 else 0
    return [value for value in (10.0 ** (top - 1), 10.0**top) if _height(value, most) > 0.15]


def _draw_tick(scene: Scene, value: float, y: float) -> None:
    """Draw a faint line, and its value at the left edge."""
    x0, _, x1, _ = scene.rect
    scene.draw.add_line(ImVec2(x0, y), ImVec2(x1, y), scene.ui.color("faint", 0.35), 1.0)
    scene.text(f"{value:g}", x0, y + 1, "faint")


def _draw_key(scene: Scene, y: float) -> float:
    """Draw which colour is which, at the right edge; return the left edge of it."""
    ui, x = scene.ui, scene.rect[2]
    small = ui.theme.size("small")
    for series, words in (*reversed(_kinds(scene)),):
        x -= scene.text(words, x, y, align="right") + ui.u(2)
        center = ImVec2(x - ui.u(0.5), y + small / 2)
        scene.draw.add_circle_filled(center, ui.u(1), ui.color_of_series(series))
        x -= ui.u(5)
    return x


def _draw_added(scene: Scene, rect: Rect, pointed: int) -> None:
    ui, trace = scene.ui, scene.trace
    x0, y0, _, y1 = rect
    each = _column(scene)
    most = max((max(_sizes(scene, g)) for g in trace.growth), default=1.0) or 1.0
    kinds = _kinds(scene)
    for value in _ticks(most):
        _draw_tick(scene, value, y1 - _height(value, most) * (y1 - y0))
    wide = 0.74 / len(kinds)
    flowed = progress(scene.t, 0.05, 0.95) * len(trace.growth)
    for layer, growth in enumerate(trace.growth):
        grown = min(1.0, max(0.0, flowed - layer))
        left = x0 + layer * each
        if layer == pointed:
            low = ImVec2(left, y0 - ui.u(1))
            scene.draw.add_rect_filled(low, ImVec2(left + each, y1), ui.color("hover"), ui.u(0.5))
        for index, value in enumerate(_sizes(scene, growth)):
            high = _height(value, most) * (y1 - y0) * grown
            begin = left + each * (0.14 + wide * index)
            low, end = ImVec2(begin, y1 - high), ImVec2(begin + each * (wide - 0.03), y1)
            color = ui.color_of_series(kinds[index][0])
            scene.draw.add_rect_filled(low, end, color, min(ui.u(0.5), each * 0.1))


def _draw_numbers(scene: Scene, y: float, pointed: int) -> None:
    """Write the numbers of the layer under the pointer, or else of the opened one."""
    ui, small = scene.ui, scene.ui.theme.size("small")
    x0, _, x1, _ = scene.rect
    each = _column(scene)
    last = len(scene.trace.growth) - 1
    words = tr("Layer {i}").format(i=pointed)
    with ui.font(style="small"):
        half = imgui.calc_text_size(words).x / 2
    middle = x0 + (pointed + 0.5) * each
    left = min(max(middle, x0 + half), x1 - half) - half
    scene.text(words, left, y - ui.u(1.5), "link")
    gap = ui.u(6)
    if left - gap > x0:
        scene.text("0", x0, y - ui.u(1.5), "faint")
    if left + 2 * half + gap < x1:
        scene.text(str(last), x1, y - ui.u(1.5), "faint", align=RIGHT)
    y += small + ui.u(0.5)
    x = x0 + scene.text(tr("Layer {n}:").format(n=pointed), x0, y, "text") + ui.u(3)
    parts: tuple[tuple[str, str], ...] = (
        ("attention", tr("attention adds")),
        ("feed_forward", tr("feed-forward adds")),
        ("residual", tr("then the residual is")),
    )
    if scene.trace.shape.path == "encoder_decoder":
        parts = (parts[0], ("cross", tr("cross-attention adds")), *parts[1:])
    for name, words in parts:
        x += scene.text(words, x, y) + ui.u(1.5)
        x += scene.number((name, pointed), x, y, "text", "left") + ui.u(5)


def _draw_press(scene: Scene, pointed: int) -> None:
    """Open a layer that is pressed, and explain that under the pointer."""
    x0, y0, _, y1 = scene.rect
    each = _column(scene)
    rect = (x0 + pointed * each, y0 + scene.u(8), x0 + (pointed + 1) * each, y1 - scene.u(9))
    if scene.hovered and scene.ui.at_pointer(rect):
        show_tip(scene.ui, tr("Click: open layer {n} in the other steps").format(n=pointed))
    if scene.pressed(f"layer.{pointed}", rect):
        scene.actions.append(OpenLayer(pointed, scene.lesson.head))
