"""The pictures of the position: it rotates pairs of numbers like hands of clocks, is a row that is
added, or a bias of each score."""

from __future__ import annotations

import math

from imgui_bundle import ImVec2, imgui

from llm_lite.core.messages.inspecting.lesson import TokenTrace
from llm_lite.desktop.features.lesson.animation import progress
from llm_lite.desktop.features.lesson.glossary import show_tip
from llm_lite.desktop.features.lesson.model import FollowPosition
from llm_lite.desktop.features.lesson.numbers import (
    angle,
    embedding_rows,
    pair_layout,
    pair_values,
    shown_pairs,
)
from llm_lite.desktop.features.lesson.scene import COLD, WARM, Scene
from llm_lite.desktop.language.translate import tr


def draw_position(scene: Scene) -> None:
    bottom = _draw_ruler(scene)
    match scene.trace.shape.positions:
        case "rotary":
            _draw_clocks(scene, bottom + scene.u(6))
        case "learned" | "sines":
            _draw_sum(scene, bottom + scene.u(8))
        case "bias":
            _draw_biases(scene, bottom + scene.u(6))


def _draw_ruler(scene: Scene) -> float:
    """Draw a line of positions with a mark that runs to the token's; return the lower edge."""
    ui, trace = scene.ui, scene.trace
    x0, y0, x1, _ = scene.rect
    small = ui.theme.size("small")
    places = [place for place, _ in trace.tokens]
    if scene.undrawn > 0:
        words = tr("… {n:,} before").format(n=scene.undrawn)
        x0 += scene.text(words, x0, y0, "faint") + ui.u(3)
    each = (x1 - x0) / len(places)
    y = y0 + small + ui.u(2)
    scene.draw.add_line(ImVec2(x0, y), ImVec2(x1, y), ui.color("border"), max(1.0, ui.u(0.375)))
    for index, place in enumerate(places):
        x, own = x0 + (index + 0.5) * each, place == trace.position
        scene.draw.add_circle_filled(ImVec2(x, y), ui.u(0.75), ui.color("faint"))
        color = "link" if own else "muted"
        scene.text(scene.token(place), x, y0, color, align="middle", room=each - ui.u(1))
        if scene.pressed(f"follow.{place}", (x - each / 2, y0, x + each / 2, y + ui.u(2))):
            scene.actions.append(FollowPosition(place))
    run = progress(scene.t, 0.0, 0.25)
    last = places.index(trace.position)
    x = x0 + (last * run + 0.5) * each
    scene.draw.add_circle_filled(ImVec2(x, y), ui.u(1.5), ui.color("accent"))
    wide = scene.number(("position",), x, y + ui.u(2.5), "link", "middle", alpha=run)
    scene.text(tr("position"), x - wide / 2 - ui.u(1.5), y + ui.u(2.5), "faint", align="right",
              alpha=run)  # fmt: skip
    return y + ui.u(2.5) + small


def _draw_clocks(scene: Scene, top: float) -> None:
    ui, trace = scene.ui, scene.trace
    x0, _, x1, y1 = scene.rect
    small, head, shape = ui.theme.size("small"), trace.opened.head, trace.shape
    words = tr("The query of head {head} in layer {layer}: some of its {n} pairs of numbers")
    words = words.format(head=trace.head, layer=trace.layer, n=shape.rotary_dim // 2)
    taken = scene.text(words, x0, top)
    if x1 - x0 - taken > ui.u(50):
        _draw_key(scene, x1, top)
    pairs = shown_pairs(trace)
    strips, moved = y1 - small - ui.u(7), progress(scene.t, 0.25, 0.85)
    a_row = math.ceil(len(pairs) / 2)
    first, last = top + small + ui.u(3), strips - small - ui.u(5)
    each, tall = (x1 - x0) / a_row, (last - first) / math.ceil(len(pairs) / a_row)
    radius = min(each / 2 - ui.u(3), (tall - 2 * small - ui.u(6)) / 2)
    for index, pair in enumerate(pairs):
        x = x0 + (index % a_row + 0.5) * each
        _draw_clock(scene, pair, x, first + (index // a_row + 0.5) * tall, radius, moved)
    half = (x1 - x0) / 2 - ui.u(2)
    for left, label, vector, alpha, name in (
        (x0, tr("query before"), head.query_raw, 1.0, "query_raw"),
        (
            x0 + half + ui.u(4),
            tr("query, turned"),
            head.query,
            progress(scene.t, 0.7, 1.0),
            "query",
        ),
    ):
        scene.text(label, left, strips - small - ui.u(1), "text", alpha=alpha)
        rect = (left, strips, left + half, strips + ui.u(5))
        scene.strip(vector, rect, alpha=alpha, name=(name,))


def _draw_clock(scene: Scene, pair: int, x: float, y: float, radius: float, moved: float) -> None:
    """Draw the hand before the rotation, faint, and after it; between them the angle."""
    ui, trace, draw = scene.ui, scene.trace, scene.draw
    head, center = trace.opened.head, ImVec2(x, y)
    turned = angle(head, pair, trace)
    a, b = pair_values(head.query_raw, pair, trace)
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
    scene.text(words, x, y - radius - small - ui.u(1), "muted", align="middle")
    _draw_angle(scene, pair, x, y + radius + ui.u(1), moved)
    if scene.hovered and ui.at_pointer((x - radius, y - radius, x + radius, y + radius)):
        first, second = pair_layout(trace)
        numbers = first[0] + pair * first[1] + 1, second[0] + pair * second[1] + 1
        words = tr(
            "Pair {n}: the numbers {a} and {b} of the query say how far right and how far up the "
            "hand points. All hands are drawn equally long."
        )
        show_tip(ui, words.format(n=pair, a=numbers[0], b=numbers[1]))


def _draw_angle(scene: Scene, pair: int, x: float, y: float, alpha: float) -> None:
    """Write full turns, where there are any, and the angle besides."""
    ui = scene.ui
    if ("turns", pair) not in scene.numbers:
        scene.number(("angle", pair), x, y, "text", "middle", alpha=alpha)
        return
    one = scene.numbers["turns", pair].value == 1
    words = tr("turn +") if one else tr("turns +")
    with ui.font(style="small"):
        wide = imgui.calc_text_size(words).x
    scene.text(words, x, y, "muted", align="middle", alpha=alpha)
    scene.number(("turns", pair), x - wide / 2 - ui.u(0.75), y, "muted", alpha=alpha)
    scene.number(("angle", pair), x + wide / 2 + ui.u(0.75), y, "text", "left", alpha=alpha)


def _draw_key(scene: Scene, x: float, y: float) -> None:
    """Draw which hand is which, from the right edge at x."""
    ui, small = scene.ui, scene.ui.theme.size("small")
    for color, words in (("accent", tr("turned")), ("faint", tr("before"))):
        x -= scene.text(words, x, y, align="right") + ui.u(1.5)
        middle = y + small / 2 + 1
        begin, end = ImVec2(x - ui.u(4), middle), ImVec2(x, middle)
        scene.draw.add_line(begin, end, ui.color(color), ui.u(0.75))
        x -= ui.u(7)


def _draw_sum(scene: Scene, top: float) -> None:
    """Draw token + segment + position, and the norm of the sum where there is one."""
    ui, trace = scene.ui, scene.trace
    x0, _, x1, y1 = scene.rect
    small, rows = ui.theme.size("small"), embedding_rows(trace)
    each, step = (y1 - top) / len(rows), 0.75 / len(rows)
    largest = max(vector.rms for name, vector in rows if name != "embedded")
    for index, (name, vector) in enumerate(rows):
        shown = progress(scene.t, 0.1 + step * index, 0.1 + step * (index + 1.2))
        y = top + index * each + small + ui.u(2)
        left, sign = x0 + ui.u(7), _sign(name, trace)
        scene.text(sign, x0 + ui.u(1), y - ui.u(1), "link", "title", alpha=shown)
        high = min(ui.u(7), max(ui.u(2.5), each - 2 * small - ui.u(5)))
        rms = largest if name != "embedded" or trace.embedding_sum is None else 0.0
        label = _row_label(name, scene)
        scene.vector(name, label, vector, (left, y, x1, y + high), shown, rms=rms)


def _sign(name: str, trace: TokenTrace) -> str:
    if name == "embedded":
        return "→" if trace.embedding_sum is not None else "="
    return {"row": "", "embedding_sum": "="}.get(name, "+")


def _row_label(name: str, scene: Scene) -> str:
    trace = scene.trace
    match name:
        case "row":
            return tr("The vector of “{token}”").format(token=scene.token(trace.position))
        case "segment":
            return tr("The vector of its segment")
        case "place":
            return tr("The vector of position {n}").format(n=trace.position)
        case "embedding_sum":
            return tr("The sum")
    return tr("What the first layer is given")


def _draw_biases(scene: Scene, top: float) -> None:
    """Draw, as bars from a middle line, the numbers that the distance adds to the scores."""
    ui, trace = scene.ui, scene.trace
    x0, _, x1, y1 = scene.rect
    scores, small = trace.opened.head.scores, ui.theme.size("small")
    words = tr("What head {head} adds to the score of a token, by its distance")
    scene.text(words.format(head=trace.head), x0, top)
    scene.text(tr("distance"), x0 + ui.u(36), top + small + ui.u(2), align="right")
    scene.text(tr("added to the score"), x1, top + small + ui.u(2), align="right")
    first = top + 2 * small + ui.u(5)
    each = min(ui.u(9), (y1 - first) / max(len(scores), 1))
    most = max((abs(score.bias) for score in scores), default=1.0) or 1.0
    middle, half = (x0 + ui.u(40) + x1 - ui.u(16)) / 2, (x1 - x0 - ui.u(56)) / 2
    for index, score in enumerate(scores):
        y, grown = first + index * each, progress(scene.t, 0.2 + 0.02 * index, 0.6 + 0.02 * index)
        line = y + (each - small) / 2 - 1
        color = "link" if score.position == trace.position else "text"
        scene.text(scene.token(score.position), x0 + ui.u(22), line, color, align="right",
                  room=ui.u(22))  # fmt: skip
        scene.number(("distance", score.position), x0 + ui.u(36), line, "muted")
        high = max(ui.u(1), min(ui.u(3.5), each - ui.u(1.5)))
        low, end = sorted((middle, middle + half * score.bias / most * grown))
        bar = ui.color_of_series(WARM if score.bias > 0 else COLD)
        mid = y + each / 2
        scene.draw.add_rect_filled(ImVec2(low, mid - high / 2), ImVec2(end, mid + high / 2), bar)
        scene.draw.add_line(ImVec2(middle, y), ImVec2(middle, y + each), ui.color("border"), 1.0)
        scene.number(("bias", score.position), x1, line, alpha=grown)
