"""Steps 3 and 4: into a layer. The vector gets one size; a head makes query, key and value."""

from __future__ import annotations

from imgui_bundle import ImVec2

from llm_lite.core.messages.inspecting.lesson import VectorPart
from llm_lite.desktop.actions.lesson.following import OpenLayer
from llm_lite.desktop.language.translate import tr
from llm_lite.desktop.views.lesson.motion import part
from llm_lite.desktop.views.lesson.scene import COLD, WARM, Scene

COLUMNS = 64  # values that are drawn as columns


def draw_norm(scene: Scene) -> None:
    """Columns of the values: large ones shrink, small ones grow, the pattern stays."""
    ui, trace = scene.ui, scene.trace
    x0, y0, x1, y1 = scene.rect
    before, after = trace.opened.residual, trace.opened.normed
    each = (y1 - y0) / 2
    moved, closer = part(scene.t, 0.15, 0.5), part(scene.t, 0.6, 0.9)
    small = ui.theme.size("small")
    most = max((abs(v) for v in (*before.values[:COLUMNS], *after.values[:COLUMNS])), default=1.0)
    most = min(most, 4 * max(before.rms, after.rms)) or 1.0
    blend = VectorPart(
        tuple(a + (b - a) * moved for a, b in zip(before.values, after.values, strict=False)),
        after.size, after.rms,
    )  # fmt: skip
    rows = (
        ("residual", tr("Before layer {n}"), before, 1.0),
        ("normed", tr("Brought to size, as the layer reads it"), blend, moved),
    )
    for index, (name, label, vector, alpha) in enumerate(rows):
        top = y0 + index * each
        note = tr("first {n} of {size:,} values")
        note = note.format(n=min(COLUMNS, len(vector.values)), size=vector.size)
        begin = scene.say(label.format(n=trace.layer), x0, top, "text")
        scene.say(note, x1, top, "faint", align="right")
        if name == "normed" and closer > 0:
            most += (most * after.rms / (before.rms or 1.0) - most) * closer
            x = x0 + begin + ui.u(4)
            x += scene.say(tr("here drawn larger:"), x, top, "faint", alpha=closer) + ui.u(1.5)
            scene.number(("zoom",), x, top, "link", "left", alpha=closer)
        chart = (x0, top + small + ui.u(2), x1, top + each - 2 * small - ui.u(5))
        _draw_columns(scene, vector, chart, most)
        scene.written(name, x0, top + each - 2 * small - ui.u(3), x1, alpha)


def _draw_columns(
    scene: Scene, vector: VectorPart, rect: tuple[float, float, float, float], most: float
) -> None:
    """Values as columns up and down from a line; both charts have one scale."""
    ui, (x0, y0, x1, y1) = scene.ui, rect
    values = vector.values[:COLUMNS]
    middle, half, wide = (y0 + y1) / 2, (y1 - y0) / 2, (x1 - x0) / len(values)
    cold, warm = ui.color_of_series(COLD), ui.color_of_series(WARM)
    for index, value in enumerate(values):
        high = max(-1.0, min(1.0, value / most)) * half
        x = x0 + index * wide
        low, end = sorted((middle, middle - high))
        color = warm if value > 0 else cold
        scene.draw.add_rect_filled(ImVec2(x, low), ImVec2(x + wide - 1, end), color)
    scene.draw.add_line(ImVec2(x0, middle), ImVec2(x1, middle), ui.color("border"), 1.0)


def draw_queries(scene: Scene) -> None:
    ui, trace = scene.ui, scene.trace
    x0, y0, x1, y1 = scene.rect
    small, opened = ui.theme.size("small"), trace.opened
    scene.say(tr("The vector, as layer {n} reads it").format(n=trace.layer), x0, y0, "text")
    top = y0 + small + ui.u(1)
    scene.strip(opened.normed, (x0, top, x1, top + ui.u(4)))
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
        shown = part(scene.t, 0.05 + 0.25 * index, 0.4 + 0.25 * index)
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


def _draw_matrix(
    scene: Scene, name: str, rect: tuple[float, float, float, float], heads: int, own: int
) -> None:
    """A matrix as a block with a band for each head; the chosen one is filled."""
    ui, (x0, y0, x1, y1) = scene.ui, rect
    scene.draw.add_rect_filled(ImVec2(x0, y0), ImVec2(x1, y1), ui.color("hover"), ui.u(1))
    band = (y1 - y0) / heads
    low, high = ImVec2(x0, y0 + own * band), ImVec2(x1, y0 + (own + 1) * band)
    scene.draw.add_rect_filled(low, high, ui.color("accent", 0.85), ui.u(0.5))
    scene.draw.add_rect(ImVec2(x0, y0), ImVec2(x1, y1), ui.color("border"), ui.u(1), 1.0)
    small = ui.theme.size("small")
    middle = (x0 + x1) / 2
    scene.say(name, middle, (y0 + y1 - small) / 2, "text", align="middle", face="mono")
    words = tr("Head {n}").format(n=scene.trace.head)
    scene.say(words, middle, y1 + ui.u(0.75), "faint", align="middle", room=x1 - x0)


def _draw_heads(scene: Scene, y: float) -> None:
    """All heads of the layer as tiles, to be chosen."""
    ui, trace = scene.ui, scene.trace
    x0, _, x1, _ = scene.rect
    small, heads = ui.theme.size("small"), trace.shape.heads
    words = tr("Heads of this layer: press one to open it")
    x = x0 + scene.say(words, x0, y - small - ui.u(1))
    if trace.shape.kv_heads < heads:
        words = tr("{heads} queries, but {kv} keys and values: some heads share them")
        words = words.format(heads=heads, kv=trace.shape.kv_heads)
        scene.say(words, x1, y - small - ui.u(1), "faint", align="right", room=x1 - x - ui.u(3))
    each = min(ui.u(12), (x1 - x0) / heads)
    for head in range(heads):
        rect = (x0 + head * each, y, x0 + (head + 1) * each - ui.u(0.75), y + ui.u(6))
        scene.tile(str(head), rect, chosen=head == trace.head)
        if scene.pressed(f"open.{head}", rect):
            scene.actions.append(OpenLayer(trace.layer, head))
