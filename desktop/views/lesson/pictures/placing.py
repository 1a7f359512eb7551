"""Step 2: positions turn pairs of numbers like hands of clocks, or are a row that is added."""

from __future__ import annotations

import math

from imgui_bundle import ImVec2

from llm_lite.desktop.language.translate import tr
from llm_lite.desktop.state.lesson.numbers import angle, pair_of, pairs_of
from llm_lite.desktop.views.lesson.motion import part
from llm_lite.desktop.views.lesson.scene import Scene


def draw_position(scene: Scene) -> None:
    bottom = _draw_ruler(scene)
    match scene.trace.shape.positions:
        case "rotary":
            _draw_clocks(scene, bottom + scene.u(6))
        case "learned":
            _draw_sum(scene, bottom + scene.u(8))
        case "none":
            x0, _, x1, y1 = scene.rect
            words = tr("No position enters this layer.")
            scene.say(words, (x0 + x1) / 2, (bottom + y1) / 2, "text", "body", "middle")


def _draw_ruler(scene: Scene) -> float:
    """The sentence along a line of positions; a mark runs to the token's own."""
    ui, trace = scene.ui, scene.trace
    x0, y0, x1, _ = scene.rect
    small = ui.theme.size("small")
    places = [place for place, _ in trace.tokens]
    each = (x1 - x0) / len(places)
    y = y0 + small + ui.u(2)
    scene.draw.add_line(ImVec2(x0, y), ImVec2(x1, y), ui.color("border"), max(1.0, ui.u(0.375)))
    for index, place in enumerate(places):
        x, own = x0 + (index + 0.5) * each, place == trace.position
        scene.draw.add_circle_filled(ImVec2(x, y), ui.u(0.75), ui.color("faint"))
        color = "link" if own else "muted"
        scene.say(scene.token(place), x, y0, color, align="middle", room=each - ui.u(1))
    run = part(scene.t, 0.0, 0.25)
    last = places.index(trace.position)
    x = x0 + (last * run + 0.5) * each
    scene.draw.add_circle_filled(ImVec2(x, y), ui.u(1.5), ui.color("accent"))
    wide = scene.number(("position",), x, y + ui.u(2.5), "link", "middle", alpha=run)
    scene.say(tr("position"), x - wide / 2 - ui.u(1.5), y + ui.u(2.5), "faint", align="right",
              alpha=run)  # fmt: skip
    return y + ui.u(2.5) + small


def _draw_clocks(scene: Scene, top: float) -> None:
    ui, trace = scene.ui, scene.trace
    x0, _, x1, y1 = scene.rect
    small, head, shape = ui.theme.size("small"), trace.opened.head, trace.shape
    words = tr("The query of head {head} in layer {layer}: {n} pairs of numbers, some as hands")
    words = words.format(head=trace.head, layer=trace.layer, n=shape.rotary_dim // 2)
    scene.say(words, x0, top)
    pairs = pairs_of(trace)
    strips, moved = y1 - small - ui.u(7), part(scene.t, 0.25, 0.85)
    a_row = math.ceil(len(pairs) / 2)
    first, last = top + small + ui.u(3), strips - small - ui.u(5)
    each, tall = (x1 - x0) / a_row, (last - first) / math.ceil(len(pairs) / a_row)
    radius = min(each / 2 - ui.u(3), (tall - 2 * small - ui.u(6)) / 2)
    for index, pair in enumerate(pairs):
        x = x0 + (index % a_row + 0.5) * each
        _draw_clock(scene, pair, x, first + (index // a_row + 0.5) * tall, radius, moved)
    half = (x1 - x0) / 2 - ui.u(2)
    for left, label, vector, alpha in (
        (x0, tr("query before"), head.query_raw, 1.0),
        (x0 + half + ui.u(4), tr("query, turned"), head.query, part(scene.t, 0.7, 1.0)),
    ):
        scene.say(label, left, strips - small - ui.u(1), "text", alpha=alpha)
        scene.strip(vector, (left, strips, left + half, strips + ui.u(5)), alpha=alpha)


def _draw_clock(scene: Scene, pair: int, x: float, y: float, radius: float, moved: float) -> None:
    """The hand before, faint, and after; between them the angle."""
    ui, trace, draw = scene.ui, scene.trace, scene.draw
    head, center = trace.opened.head, ImVec2(x, y)
    turned = angle(head, pair, trace)
    a, b = pair_of(head.query_raw, pair, trace)
    start = math.atan2(b, a)
    end = start + math.radians(turned) * moved
    draw.add_circle_filled(center, radius, ui.color("panel"))
    draw.add_circle(center, radius, ui.color("border"), 0, max(1.0, ui.u(0.375)))
    if moved > 0 and turned > 0.5:
        draw.path_arc_to(center, radius * 0.45, -start, -end)
        draw.path_stroke(ui.color("accent", 0.6), ui.u(1.25))
    for at, color, thick in ((start, "faint", 0.5), (end, "accent", 1.0)):
        tip = ImVec2(x + math.cos(at) * radius * 0.86, y - math.sin(at) * radius * 0.86)
        draw.add_line(center, tip, ui.color(color), ui.u(thick))
        draw.add_circle_filled(tip, ui.u(thick), ui.color(color))
    small = ui.theme.size("small")
    words = tr("pair {n}").format(n=pair)
    scene.say(words, x, y - radius - small - ui.u(1), "muted", align="middle")
    scene.number(("angle", pair), x, y + radius + ui.u(1), "text", "middle", alpha=moved)


def _draw_sum(scene: Scene, top: float) -> None:
    """Token + position = what the first layer is given."""
    ui, trace = scene.ui, scene.trace
    x0, _, x1, y1 = scene.rect
    assert trace.place is not None
    small = ui.theme.size("small")
    each = (y1 - top) / 3
    rows = (
        ("row", tr("The vector of “{token}”"), trace.row, ""),
        ("place", tr("The vector of position {n}"), trace.place, "+"),
        ("embedded", tr("What the first layer is given"), trace.embedded, "="),
    )
    for index, (name, label, vector, sign) in enumerate(rows):
        shown = part(scene.t, 0.15 + 0.25 * index, 0.4 + 0.25 * index)
        y = top + index * each + small + ui.u(2)
        label = label.format(token=scene.token(trace.position), n=trace.position)
        left = x0 + ui.u(7)
        scene.say(sign, x0 + ui.u(1), y - ui.u(1), "link", "title", alpha=shown)
        scene.vector(name, label, vector, (left, y, x1, y + min(ui.u(7), each / 3)), shown)
