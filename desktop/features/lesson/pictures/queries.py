"""The pictures of a layer's input: the norm brings the vector to one size, and a head makes query,
key and value of it."""

from __future__ import annotations

from imgui_bundle import ImVec2

from llm_lite.core.messages.inspecting.lesson import VectorPart
from llm_lite.desktop.features.lesson.animation import progress
from llm_lite.desktop.features.lesson.glossary import show_tip
from llm_lite.desktop.features.lesson.model import OpenLayer
from llm_lite.desktop.features.lesson.numbers import (
    Number,
    divided_residual,
    norm_input_output,
    shows_division,
)
from llm_lite.desktop.features.lesson.scene import COLD, WARM, Scene
from llm_lite.desktop.language.translate import tr
from llm_lite.desktop.widgets.ui import Rect

COLUMNS = 64  # values that are drawn as columns


def draw_norm(scene: Scene) -> None:
    """Draw the values as columns: before the norm, between its halves where it divides by the RMS
    and multiplies then, and after it."""
    trace, (_, y0, _, y1) = scene.trace, scene.rect
    (given, before), (made, after) = norm_input_output(trace)
    first = tr("The sum, as it comes") if trace.shape.norm_behind else tr("Before layer {n}")
    rows = [(given, first, before)]
    last = tr("Brought to size, as the next part reads it")
    if shows_division(trace):
        rows.append(
            ("divided", tr("÷ its RMS: the same pattern, in another size"), divided_residual(trace))
        )
        last = tr("× learned weights: what layer {n} reads")
    rows.append((made, last, after))
    each = (y1 - y0) / len(rows)
    for index, (name, label, vector) in enumerate(rows):
        shown = progress(scene.t, 0.25 * index, 0.25 + 0.25 * index) if index else 1.0
        since = rows[index - 1][2] if index else vector
        _draw_normed(scene, name, label, (since, vector), y0 + index * each, each, shown)


def _draw_normed(
    scene: Scene, name: str, label: str, vectors: tuple[VectorPart, VectorPart], top: float,
    each: float, shown: float,
) -> None:  # fmt: skip
    """Draw one of the rows as it grows out of the one above it; each has a scale of its own."""
    ui, (x0, _, x1, _) = scene.ui, scene.rect
    since, vector = vectors
    small = ui.theme.size("small")
    alpha = max(shown, 0.02)
    taken = scene.text(label.format(n=scene.trace.layer), x0, top, "text", alpha=alpha)
    room = x1 - x0 - taken - ui.u(3)
    scene.value_count(vector, COLUMNS, x1, top, alpha, room)
    foot = top + each - small - ui.u(3)
    chart = (x0, top + small + ui.u(1.5), x1, foot - ui.u(1))
    old, new = since.rms or 1.0, vector.rms or 1.0
    values = tuple(
        (a / old + (b / new - a / old) * shown) * new
        for a, b in zip(since.values, vector.values, strict=False)
    )
    _draw_columns(scene, name, values[:COLUMNS], chart, new, shown)
    scene.number_row(name, x0, foot, x1, shown)


def _draw_columns(
    scene: Scene, name: str, values: tuple[float, ...], rect: Rect, size: float, alpha: float
) -> None:
    """Draw values as columns up and down from a line, full at four times `size` at most."""
    ui, (x0, y0, x1, y1) = scene.ui, rect
    most = min(max((abs(value) for value in values), default=1.0), 4 * size) or 1.0
    middle, half, wide = (y0 + y1) / 2, (y1 - y0) / 2, (x1 - x0) / len(values)
    cold, warm = ui.color_of_series(COLD), ui.color_of_series(WARM)
    veil = round(255 * alpha) << 24
    for index, value in enumerate(values if alpha > 0 else ()):
        high = max(-1.0, min(1.0, value / most)) * half
        x = x0 + index * wide
        low, end = sorted((middle, middle - high))
        color = (warm if value > 0 else cold) & 0xFFFFFF | veil
        scene.draw.add_rect_filled(ImVec2(x, low), ImVec2(x + wide - 1, end), color)
    scene.draw.add_line(ImVec2(x0, middle), ImVec2(x1, middle), ui.color("border"), 1.0)
    if scene.hovered and ui.at_pointer(rect) and alpha == 1.0:
        index = min(int((ui.pointer[0] - x0) / wide), len(values) - 1)
        scene.outline(rect, index, len(values))
        scene.number_tip(Number((name, index), values[index]))


def draw_queries(scene: Scene) -> None:
    ui, trace = scene.ui, scene.trace
    x0, y0, x1, y1 = scene.rect
    small, opened = ui.theme.size("small"), trace.opened
    words = tr("The vector of “{token}”, as layer {n} reads it")
    words = words.format(token=scene.token(trace.position), n=trace.layer)
    taken = scene.text(words, x0, y0, "text")
    scene.value_count(opened.normed, 64, x1, y0, room=x1 - x0 - taken - ui.u(3))
    top = y0 + small + ui.u(1)
    scene.strip(opened.normed, (x0, top, x1, top + ui.u(4)), name=("normed",))
    tiles = y1 - ui.u(7)
    _draw_heads(scene, tiles)
    each = (tiles - small - ui.u(4) - (top + ui.u(8))) / 3
    head, shape = opened.head, trace.shape
    rows = (
        ("query", "Wq", tr("query: what the token looks for"), head.query, shape.heads),
        ("key", "Wk", tr("key: what it can be found by"), head.key, shape.kv_heads),
        ("value", "Wv", tr("value: what it gives"), head.value, shape.kv_heads),
    )
    for index, (name, matrix, label, vector, heads) in enumerate(rows):
        y = top + ui.u(8) + index * each
        shown = progress(scene.t, 0.05 + 0.25 * index, 0.4 + 0.25 * index)
        left = x0 + ui.u(22)
        tall = min(ui.u(16), each - small - ui.u(3))
        own = trace.head * heads // shape.heads
        _draw_matrix(scene, matrix, (x0, y, x0 + ui.u(13), y + tall), heads, own)
        middle = y + tall / 2
        scene.arrow((x0 + ui.u(14), middle), (left - ui.u(1), middle), shown, "accent")
        strip = y + max(small + ui.u(1.5), (tall - small - ui.u(6)) / 2)
        wide = left + (x1 - left) * min(1.0, vector.size / 64)
        high = max(ui.u(3), min(ui.u(5), each - 2 * small - ui.u(5)))
        scene.vector(name, label, vector, (left, strip, wide, strip + high), shown)


def _draw_matrix(scene: Scene, name: str, rect: Rect, heads: int, own: int) -> None:
    """Draw a matrix as a block with a band for each head; the chosen one is filled."""
    ui, (x0, y0, x1, y1) = scene.ui, rect
    scene.draw.add_rect_filled(ImVec2(x0, y0), ImVec2(x1, y1), ui.color("hover"), ui.u(1))
    band = (y1 - y0) / heads
    low, high = ImVec2(x0, y0 + own * band), ImVec2(x1, y0 + (own + 1) * band)
    scene.draw.add_rect_filled(low, high, ui.color("accent", 0.85), ui.u(0.5))
    if scene.hovered and ui.at_pointer(rect):
        words = tr("A matrix of the layer. The blue band is the part of head {n}.")
        show_tip(ui, words.format(n=scene.trace.head))
    scene.draw.add_rect(ImVec2(x0, y0), ImVec2(x1, y1), ui.color("border"), ui.u(1), 1.0)
    small = ui.theme.size("small")
    middle = (x0 + x1) / 2
    line, half = (y0 + y1 - small) / 2, ui.u(2.5)
    patch = ImVec2(middle - half, line - ui.u(0.5)), ImVec2(middle + half, line + small + ui.u(0.5))
    scene.draw.add_rect_filled(*patch, ui.color("panel"), ui.u(1))
    scene.text(name, middle, line, "text", align="middle", face="mono")
    words = tr("filled: head {n}").format(n=scene.trace.head)
    scene.text(words, x0, y1 + ui.u(0.75), "faint", room=ui.u(21))


def _draw_heads(scene: Scene, y: float) -> None:
    """Draw all heads of the layer as tiles, to be chosen."""
    ui, trace = scene.ui, scene.trace
    x0, _, x1, _ = scene.rect
    small, heads = ui.theme.size("small"), trace.shape.heads
    words = tr("Heads of this layer: press one to open it")
    x = x0 + scene.text(words, x0, y - small - ui.u(1))
    if trace.shape.kv_heads < heads:
        group = heads // trace.shape.kv_heads
        first = trace.head // group * group
        words = tr("Heads {first} to {last} share their keys and values")
        words = words.format(first=first, last=first + group - 1)
        scene.text(words, x1, y - small - ui.u(1), "faint", align="right", room=x1 - x - ui.u(3))
    each = min(ui.u(12), (x1 - x0) / heads)
    for head in range(heads):
        rect = (x0 + head * each, y, x0 + (head + 1) * each - ui.u(0.75), y + ui.u(6))
        scene.tile(str(head), rect, chosen=head == trace.head)
        if scene.pressed(f"open.{head}", rect):
            scene.actions.append(OpenLayer(trace.layer, head))
