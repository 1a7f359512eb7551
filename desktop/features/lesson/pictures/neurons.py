"""The picture of the feed-forward network: its strongest neurons, the activation, and what it
adds."""

from __future__ import annotations

from imgui_bundle import ImVec2

from llm_lite.core.messages.inspecting.lesson import Neuron
from llm_lite.desktop.features.lesson.animation import progress
from llm_lite.desktop.features.lesson.glossary import show_tip
from llm_lite.desktop.features.lesson.numbers import ACTIVATION_NAMES, activation
from llm_lite.desktop.features.lesson.scene import COLD, LEFT, MIDDLE, RIGHT, WARM, Scene
from llm_lite.desktop.language.translate import tr
from llm_lite.desktop.widgets.ui import Rect

CURVE_POINTS = 48  # points of the activation's curve
CURVE_REACH = 4.0  # of x, to both sides of 0


def draw_neurons(scene: Scene) -> None:
    ui, trace = scene.ui, scene.trace
    x0, y0, x1, y1 = scene.rect
    found, small = trace.opened.feed_forward, ui.theme.size("small")
    words = tr("What the network reads: the residual, brought to a common size")
    if trace.shape.norm_behind or trace.shape.norm == "none":
        words = tr("What the network reads")
    taken = scene.text(words, x0, y0, "text")
    scene.value_count(found.normed, 64, x1, y0, room=x1 - x0 - taken - ui.u(3))
    top = y0 + small + ui.u(1)
    scene.strip(found.normed, (x0, top, x1, top + ui.u(3.5)), name=("ff_normed",))
    out = y1 - small - ui.u(6)
    middle = x0 + (x1 - x0) * 0.66
    list_top = top + ui.u(3.5) + ui.u(3)
    pointed = _draw_list(scene, (x0, list_top, middle - ui.u(4), out - small - ui.u(3)))
    _draw_curve(scene, (middle, list_top, x1, out - small - ui.u(5)), pointed)
    done = progress(scene.t, 0.75, 1.0)
    label = tr("What the feed-forward adds")
    scene.vector("ff_output", label, found.output, (x0, out, x1, out + ui.u(4)), done)


def _draw_list(scene: Scene, rect: Rect) -> Neuron | None:
    """Draw the strongest neurons and their factors; return the one under the pointer."""
    ui, trace = scene.ui, scene.trace
    x0, y0, x1, y1 = rect
    found, small = trace.opened.feed_forward, ui.theme.size("small")
    gated, curve = trace.shape.gate != "none", ACTIVATION_NAMES[trace.shape.curve]
    each_column = min(ui.u(17), (x1 - x0) / 5)
    columns = tuple(x1 - index * each_column for index in range(4 if gated else 2))
    heads: tuple[str, ...] = (tr("answer"), tr("before"))
    if gated:
        heads = (tr("answer"), tr("× up"), tr("{curve}(gate)").format(curve=curve), tr("gate"))
    names = ("neuron", "up", "curved", "gate") if gated else ("neuron", "up")
    scene.text(tr("neuron"), x0, y0)
    for x, words in zip(columns, heads, strict=True):
        scene.text(words, x, y0, align="right")
    top, foot = y0 + small + ui.u(1), small + ui.u(1)
    each = min(ui.u(7), (y1 - foot - top) / max(len(found.neurons), 1))
    most = max((abs(n.value) for n in found.neurons), default=1.0) or 1.0
    pointed = _pointed(scene, (x0, top, x1, top + each * len(found.neurons)), each)
    for index, neuron in enumerate(found.neurons):
        grown = progress(scene.t, 0.05 + 0.05 * index, 0.3 + 0.05 * index)
        y = top + index * each
        if neuron is pointed:
            scene.draw.add_rect_filled(ImVec2(x0, y), ImVec2(x1, y + each), ui.color("hover"))
        _draw_neuron(scene, neuron, (x0, y, columns[-1], each), most, grown)
        line = y + (each - small) / 2 - 1
        for name, x in zip(names, columns, strict=True):
            color = "text" if name == "neuron" else "muted"
            scene.number((name, neuron.index), x, line, color, alpha=grown)
    y = y1 - small
    wide = scene.number(("strong",), x0, y, "link", "left", alpha=progress(scene.t, 0.5, 0.7))
    if wide:
        words = tr("of {n:,} neurons give at least a tenth of the strongest answer")
        left = x0 + wide + ui.u(1.5)
        scene.text(words.format(n=found.size), left, y, room=x1 - left)
    return pointed


def _pointed(scene: Scene, rect: Rect, each: float) -> Neuron | None:
    """Return the neuron under the pointer."""
    if not scene.hovered or not scene.ui.at_pointer(rect):
        return None
    neurons = scene.trace.opened.feed_forward.neurons
    return neurons[min(int((scene.ui.pointer[1] - rect[1]) / each), len(neurons) - 1)]


def _draw_neuron(scene: Scene, neuron: Neuron, place: Rect, most: float, grown: float) -> None:
    ui, (x0, y, right, each) = scene.ui, place
    small = ui.theme.size("small")
    scene.text(f"{neuron.index:,}", x0, y + (each - small) / 2 - 1, "muted", face="mono")
    left, end = x0 + ui.u(13), right - ui.u(13)
    middle, half = (left + end) / 2, (end - left) / 2
    high = max(ui.u(1), min(ui.u(3), each - ui.u(1.5)))
    top = y + (each - high) / 2
    low, up = sorted((middle, middle + half * neuron.value / most * grown))
    color = ui.color_of_series(WARM if neuron.value > 0 else COLD)
    scene.draw.add_rect_filled(ImVec2(low, top), ImVec2(up, top + high), color, ui.u(0.5))
    scene.draw.add_line(ImVec2(middle, y), ImVec2(middle, y + each), ui.color("border"), 1.0)


def _draw_curve(scene: Scene, rect: Rect, pointed: Neuron | None) -> None:
    """Draw the activation's curve with the strongest neurons on it."""
    ui, trace = scene.ui, scene.trace
    x0, y0, x1, y1 = rect
    curve, small, gated = trace.shape.curve, ui.theme.size("small"), trace.shape.gate != "none"
    name = ACTIVATION_NAMES[curve]
    scene.text(name, x0, y0, "text")
    scene.text(tr("a dot is a neuron"), x1, y0, "faint", align="right")
    words = tr("{curve}(gate) × up = answer") if gated else tr("{curve}(before) = answer")
    scene.paragraph(words.format(curve=name), x0, y1 - 2.9 * small, x1 - x0)
    bottom, top = y1 - 2.9 * small - small - ui.u(4), y0 + small + ui.u(2)
    if bottom - top < ui.u(14):
        return

    def at(x: float) -> ImVec2:
        x = max(-CURVE_REACH, min(CURVE_REACH, x))
        y = activation(curve, x)
        return ImVec2(
            x0 + (x + CURVE_REACH) / (2 * CURVE_REACH) * (x1 - x0),
            bottom - (y + 0.5) / (CURVE_REACH + 0.5) * (bottom - top),
        )

    zero = at(0.0)
    scene.draw.add_line(ImVec2(x0, zero.y), ImVec2(x1, zero.y), ui.color("border"), 1.0)
    scene.draw.add_line(ImVec2(zero.x, top), ImVec2(zero.x, bottom), ui.color("border"), 1.0)
    axis = bottom + ui.u(1)
    for x, label in (
        (-CURVE_REACH, f"−{CURVE_REACH:.0f}"),
        (0.0, "0"),
        (CURVE_REACH, f"+{CURVE_REACH:.0f}"),
    ):
        align = RIGHT if x > 0 else LEFT if x < 0 else MIDDLE
        scene.text(label, at(x).x, axis, "faint", align=align)
    scene.text(tr("gate →") if gated else tr("before →"), zero.x + ui.u(3), axis, "faint")
    points = [
        at(-CURVE_REACH + 2 * CURVE_REACH * i / CURVE_POINTS) for i in range(CURVE_POINTS + 1)
    ]
    scene.draw.add_polyline(points, ui.color("muted"), ui.u(0.5), 0)
    grown = progress(scene.t, 0.1, 0.6)
    for neuron in trace.opened.feed_forward.neurons:
        x = neuron.up if neuron.gate is None else neuron.gate
        spot = at(-CURVE_REACH + (x + CURVE_REACH) * grown)
        near = (spot.x - ui.u(2), spot.y - ui.u(2), spot.x + ui.u(2), spot.y + ui.u(2))
        if scene.hovered and ui.at_pointer(near):
            show_tip(ui, tr("Neuron {n:,}").format(n=neuron.index))
            pointed = neuron
        own = neuron is pointed
        color = ui.color("text") if own else ui.color_of_series(WARM)
        scene.draw.add_circle_filled(spot, ui.u(1.75 if own else 1), color)
