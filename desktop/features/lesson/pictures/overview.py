"""The way from text to the next token in one picture: with an example on the first page, and with
the numbers of the sentence in the last step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from imgui_bundle import ImVec2, imgui
from msgspec import Struct

from llm_lite.core.messages import ModelKind
from llm_lite.desktop.features.lesson.model import GoToStep
from llm_lite.desktop.features.lesson.numbers import Name, sample_token
from llm_lite.desktop.features.lesson.pictures.candidates import next_token_text
from llm_lite.desktop.features.lesson.scene import STRONG, Scene
from llm_lite.desktop.features.lesson.state import StepName
from llm_lite.desktop.language.translate import mark, tr
from llm_lite.desktop.widgets.token_text import visible
from llm_lite.desktop.widgets.ui import Rect, Ui
from llm_lite.desktop.widgets.widgets import fit, wrap_lines

STATIONS: tuple[tuple[str, StepName, float], ...] = (  # name, step, share of the width
    (mark("Text"), "tokens", 1.15),
    (mark("Tokens"), "tokens", 0.9),
    (mark("Vectors"), "tokens", 1.0),
    (mark("{n} layers"), "norm", 1.9),
    (mark("Probabilities"), "sampling", 1.15),
    (mark("Next token"), "cache", 0.9),
)
TARGET_STATIONS: tuple[tuple[str, StepName, float], ...] = (  # of an encoder-decoder
    (mark("Source"), "source", 1.15),
    (mark("Tokens"), "source", 0.9),
    (mark("Encoder"), "source", 1.0),
    (mark("Decoder: {n} layers"), "norm", 1.9),
    (mark("Probabilities"), "choosing", 1.15),
    (mark("Next token"), "cache", 0.9),
)
ARROW_GAP = 5.0  # spacing units between two stations, for an arrow
RETURN_HEIGHT = 10.0  # spacing units below them, for the arrow back
EXAMPLE = mark("The cat sat on the")  # before a person has typed a sentence
GUESSES = mark("mat floor bed roof")  # words that could follow
EXAMPLE_SOURCE = "Where is the station?"  # in every language, as those of `first_page`
TARGET_GUESSES = mark("Wo Was Der Wie")  # words that a translation of it could begin with
SHARES = (0.5, 0.22, 0.13, 0.06)  # probabilities of the guesses of an example
MOST_TOKENS = 5  # tokens that are drawn
CELLS = 8  # of a small vector
TALLEST = 62.0  # spacing units, of the picture in the last step
MOST_GUESSES = 5  # in the last step
Write = Callable[[Name, float, float], float]  # a number by its name, right edge and top: its width


class Overview(Struct, frozen=True):
    """The contents of the picture. `vector` has values in -1..1. `write` draws real numbers, where
    there are any; a dot has gone `at` of its way, 0..1."""

    text: str
    tokens: tuple[str, ...]
    guesses: tuple[tuple[str, float], ...]
    next_token: str
    positions: tuple[int, ...] = ()  # positions of the tokens
    vector: tuple[float, ...] = (0.5, -0.8, 0.3, 0.9, -0.4, 0.1, -0.6, 0.7)
    layers: int = 0
    ids: tuple[int, ...] = ()  # of the guesses
    write: Write | None = None
    at: float = 1.0
    path: ModelKind = "decoder"


def example_overview(layers: int, path: ModelKind) -> Overview:
    """Return an example without numbers, for the page before there is a sentence."""
    words, guesses = tr(EXAMPLE), tr(GUESSES).split()
    if path == "encoder-decoder":
        words, guesses = EXAMPLE_SOURCE, tr(TARGET_GUESSES).split()
    shares = tuple(zip(guesses, SHARES, strict=False))
    return Overview(words, tuple(words.split()), shares, guesses[0], layers=layers, path=path)


def _stations(path: ModelKind) -> tuple[tuple[str, StepName, float], ...]:
    """Return the stations of a kind of model; the way of an encoder ends with its layers."""
    if path == "encoder-decoder":
        return TARGET_STATIONS
    return STATIONS[:4] if path == "encoder" else STATIONS


def draw_overview(ui: Ui, draw: Any, rect: Rect, overview: Overview) -> list[tuple[StepName, Rect]]:
    """Draw the stations and return their rectangles with the steps that they belong to."""
    x0, y0, x1, y1 = rect
    foot, small = ui.u(RETURN_HEIGHT), ui.theme.size("small")
    stations = _stations(overview.path)
    whole = sum(share for _, _, share in stations)
    room = x1 - x0 - ui.u(ARROW_GAP) * (len(stations) - 1)
    found, x, middles = list[tuple[StepName, Rect]](), x0, list[float]()
    top, bottom = y0 + small + ui.u(1.5), y1 - foot
    for number, (words, step, share) in enumerate(stations):
        wide = room * share / whole
        box = (x, top, x + wide, bottom)
        title = tr(words).format(n=overview.layers) if overview.layers else tr(words).format(n="N")
        _draw_words(ui, draw, title, (x + wide / 2, y0), "text", "middle", wide, bold=True)
        _draw_box(ui, draw, box, number == 3)
        pad = ui.u(1.5)
        _CONTENTS[number](ui, draw, (x + pad, top + pad, x + wide - pad, bottom - pad), overview)
        if number:
            _arrow(ui, draw, x - ui.u(ARROW_GAP) + ui.u(1), x - ui.u(1), (top + bottom) / 2)
        found.append((step, (x, y0, x + wide, bottom)))
        middles.append(x + wide / 2)
        x += wide + ui.u(ARROW_GAP)
    if overview.path == "encoder":
        return found
    first, words = 0, tr("It joins the text, and all begins again for it.")
    if overview.path == "encoder-decoder":  # the source is read once
        first, words = 3, tr("It joins the target, and the decoder begins again for it.")
    _draw_return(ui, draw, (middles[first], middles[-1]), (bottom, y1), words)
    _draw_dot(ui, draw, middles, ((top + bottom) / 2, bottom + ui.u(5)), overview.at)
    return found


def _draw_words(
    ui: Ui, draw: Any, words: str, at: tuple[float, float], color: str = "text",
    align: str = "left", room: float = 0.0, bold: bool = False,
) -> None:  # fmt: skip
    with ui.font("bold" if bold else "regular", "small"):
        words = fit(words, room) if room else words
        wide = imgui.calc_text_size(words).x
        x = at[0] - {"left": 0.0, "middle": wide / 2, "right": wide}[align]
        draw.add_text(ImVec2(round(x), round(at[1])), ui.color(color), words)


def _draw_box(ui: Ui, draw: Any, box: Rect, stacked: bool) -> None:
    """Draw the frame of a station, a stack of frames where it stands for many."""
    x0, y0, x1, y1 = box
    for behind in (2, 1, 0) if stacked else (0,):
        off = ui.u(0.75) * behind
        low, high = ImVec2(x0 + off, y0 + off), ImVec2(x1 + off, y1 + off)
        draw.add_rect_filled(low, high, ui.color("panel"), ui.u(1.5))
        draw.add_rect(low, high, ui.color("border"), ui.u(1.5), 1.0)


def _arrow(ui: Ui, draw: Any, x0: float, x1: float, y: float) -> None:
    color, side = ui.color("muted"), ui.u(1)
    draw.add_line(ImVec2(x0, y), ImVec2(x1 - side, y), color, max(1.0, ui.u(0.375)))
    tip = ImVec2(x1, y), ImVec2(x1 - 1.5 * side, y - side), ImVec2(x1 - 1.5 * side, y + side)
    draw.add_triangle_filled(*tip, color)


def _draw_return(
    ui: Ui, draw: Any, across: tuple[float, float], down: tuple[float, float], words: str
) -> None:
    """Draw the arrow from the last station back to the first of those that run again."""
    (x0, x1), (top, _) = across, down
    y, color, thick = top + ui.u(5), ui.color("muted"), max(1.0, ui.u(0.375))
    draw.add_line(ImVec2(x1, top + ui.u(1)), ImVec2(x1, y), color, thick)
    draw.add_line(ImVec2(x0, y), ImVec2(x1, y), color, thick)
    draw.add_line(ImVec2(x0, y), ImVec2(x0, top + ui.u(2)), color, thick)
    side = ui.u(1)
    tip = ImVec2(x0, top + ui.u(1))
    left, right = ImVec2(x0 - side, tip.y + 1.5 * side), ImVec2(x0 + side, tip.y + 1.5 * side)
    draw.add_triangle_filled(tip, left, right, color)
    _draw_words(ui, draw, words, ((x0 + x1) / 2, y + ui.u(0.75)), "muted", "middle", x1 - x0)


def _draw_dot(
    ui: Ui, draw: Any, middles: list[float], levels: tuple[float, float], at: float
) -> None:
    """Draw a dot that runs through all stations, and back below them; it is gone at the end."""
    if not 0.0 < at < 1.0:
        return
    along, back = levels
    if at < 0.75:
        x, y = middles[0] + (middles[-1] - middles[0]) * at / 0.75, along
    else:
        x, y = middles[-1] + (middles[0] - middles[-1]) * (at - 0.75) / 0.25, back
    draw.add_circle_filled(ImVec2(x, y), ui.u(1.75), ui.color("accent"))


def _draw_text(ui: Ui, draw: Any, box: Rect, overview: Overview) -> None:
    x0, y0, x1, y1 = box
    size = ui.theme.size("small")
    line = round(size * 1.4)
    with ui.font(style="small"):
        rows = max(1, int((y1 - y0) // line))
        lines = wrap_lines(overview.text, x1 - x0, size)
        if len(lines) > rows:
            lines = (*lines[: rows - 1], fit(lines[rows - 1] + " …", x1 - x0))
        top = (y0 + y1 - line * len(lines)) / 2
        for row, words in enumerate(lines):
            draw.add_text(ImVec2(x0, round(top + row * line)), ui.color("text"), words)


def _row_layout(ui: Ui, box: Rect, count: int) -> tuple[int, float, float]:
    """Return how many rows fit, their height, and the top of the first."""
    _, y0, _, y1 = box
    fits = max(1, min(count, MOST_TOKENS, int((y1 - y0) // ui.u(5))))
    each = min(ui.u(7), (y1 - y0) / fits)
    return fits, each, (y0 + y1 - fits * each) / 2


def _draw_tokens(ui: Ui, draw: Any, box: Rect, overview: Overview) -> None:
    """Draw the last tokens of the sentence, one below the other, with their ids."""
    x0, _, x1, _ = box
    count, each, top = _row_layout(ui, box, len(overview.tokens))
    small, ids = ui.theme.size("small"), overview.write is not None and x1 - x0 > ui.u(20)
    right = x0 + (x1 - x0) * (0.6 if ids else 1.0)
    for row in range(count):
        at, y = len(overview.tokens) - count + row, top + row * each
        low, high = ImVec2(x0, y + ui.u(0.25)), ImVec2(right, y + each - ui.u(0.5))
        draw.add_rect_filled(low, high, ui.color("hover"), ui.u(1))
        line = y + (each - small) / 2 - 1
        _draw_words(
            ui,
            draw,
            overview.tokens[at],
            ((x0 + right) / 2, line),
            "text",
            "middle",
            right - x0 - 4,
        )
        if ids and overview.write is not None:
            overview.write(("id", overview.positions[at]), x1, line)


def _draw_vectors(ui: Ui, draw: Any, box: Rect, overview: Overview) -> None:
    x0, _, x1, _ = box
    count, each, top = _row_layout(ui, box, len(overview.tokens))
    wide, values = (x1 - x0) / CELLS, overview.vector
    for row in range(count):
        y = top + row * each
        for index in range(CELLS):
            value = values[(index + 3 * (count - 1 - row)) % len(values)]
            x = x0 + index * wide
            low, high = ImVec2(x, y + ui.u(1)), ImVec2(x + wide - 1, y + each - ui.u(1.25))
            draw.add_rect_filled(low, high, ui.color("hover"))
            color = ui.color_of_series(2 if value > 0 else 0)
            veil = round(255 * min(1.0, abs(value))) << 24
            draw.add_rect_filled(low, high, color & 0xFFFFFF | veil)


def _draw_layers(ui: Ui, draw: Any, box: Rect, overview: Overview) -> None:
    """Draw a token that attends to earlier ones, and beside it neurons that answer to one token."""
    x0, y0, x1, y1 = box
    small, half = ui.theme.size("small"), (x1 - x0) / 2
    foot = y1 - small - ui.u(0.5)
    for left, words in ((x0, tr("attention")), (x0 + half, tr("neurons"))):
        _draw_words(ui, draw, words, (left + half / 2, foot), "muted", "middle", half - ui.u(1))
    middle = (y0 + foot) / 2
    draw.add_line(ImVec2(x0 + half, y0), ImVec2(x0 + half, foot), ui.color("border"), 1.0)
    dots = [x0 + half * (0.14 + 0.18 * index) for index in range(5)]
    low = min(foot - ui.u(2), middle + ui.u(6))
    tall = min(low - y0 - ui.u(1), ui.u(14))
    for index, x in enumerate(dots[:-1]):
        strong = (0.9, 0.35, 0.6, 0.4)[index]
        up = low - tall * (0.35 + 0.16 * (4 - index))
        curve = ImVec2(dots[-1], low), ImVec2(dots[-1], up), ImVec2(x, up), ImVec2(x, low)
        draw.add_bezier_cubic(*curve, ui.color("accent", strong), ui.u(0.5))
    for index, x in enumerate(dots):
        color = ui.color("link" if index == 4 else "muted")
        draw.add_circle_filled(ImVec2(x, low), ui.u(1), color)
    _draw_net(ui, draw, (x0 + half, y0, x1, foot))


def _draw_net(ui: Ui, draw: Any, box: Rect) -> None:
    """Draw one dot, five neurons, two of them active, and one dot again."""
    x0, y0, x1, y1 = box
    middle, wide = (y0 + y1) / 2, x1 - x0
    each = min(ui.u(4.5), (y1 - y0) / 5)
    begin, end = ImVec2(x0 + wide * 0.14, middle), ImVec2(x0 + wide * 0.86, middle)
    for index in range(5):
        spot, answers = ImVec2(x0 + wide * 0.5, middle + (index - 2) * each), index in (1, 3)
        color = ui.color_of_series(2) if answers else ui.color("faint", 0.5)
        for side in (begin, end):
            draw.add_line(side, spot, color, ui.u(0.5) if answers else 1.0)
        draw.add_circle_filled(spot, ui.u(1), color)
    for side in (begin, end):
        draw.add_circle_filled(side, ui.u(1), ui.color("link"))


def _draw_guesses(ui: Ui, draw: Any, box: Rect, overview: Overview) -> None:
    x0, _, x1, _ = box
    count, each, top = _row_layout(ui, box, len(overview.guesses))
    small, most = ui.theme.size("small"), max((share for _, share in overview.guesses), default=1.0)
    for row, (words, share) in enumerate(overview.guesses[:count]):
        y = top + row * each
        line = y + (each - small) / 2 - 1
        wide = (x1 - x0) * share / most
        low, high = ImVec2(x0, y + ui.u(0.25)), ImVec2(x0 + max(wide, 2), y + each - ui.u(0.5))
        draw.add_rect_filled(low, high, ui.color("accent", 0.35), ui.u(0.75))
        taken = 0.0
        if overview.write is not None and row < len(overview.ids) and x1 - x0 > ui.u(22):
            taken = overview.write(("share", overview.ids[row]), x1, line) + ui.u(1)
        room = x1 - x0 - ui.u(1) - taken
        if room > ui.u(5):
            _draw_words(ui, draw, words, (x0 + ui.u(1), line), "text", "left", room)


def _draw_next(ui: Ui, draw: Any, box: Rect, overview: Overview) -> None:
    x0, y0, x1, y1 = box
    middle, small, high = (y0 + y1) / 2, ui.theme.size("small"), ui.u(4)
    low = ImVec2(x0, middle - high)
    draw.add_rect_filled(low, ImVec2(x1, middle + high), ui.color("accent"), ui.u(1))
    at = ((x0 + x1) / 2, middle - small / 2 - 1)
    _draw_words(ui, draw, overview.next_token, at, "on_accent", "middle", x1 - x0 - 4)


_CONTENTS = (_draw_text, _draw_tokens, _draw_vectors, _draw_layers, _draw_guesses, _draw_next)


def draw_summary(scene: Scene) -> None:
    """Draw the overview of the sentence; a press on a station goes to its step."""
    ui, (x0, y0, x1, y1) = scene.ui, scene.rect
    small = ui.theme.size("small")
    tall = min(y1 - y0 - 2 * small - ui.u(4), ui.u(TALLEST))
    top = y0 + (y1 - y0 - tall - 2 * small - ui.u(2)) / 2
    for step, box in draw_overview(
        ui, scene.draw, (x0, top, x1 - ui.u(2), top + tall), _overview_of(scene)
    ):
        if scene.pressed(f"station.{step}.{round(box[0])}", box):
            scene.actions.append(GoToStep(scene.lesson.step_number(step) - 1))
    words = tr("Click a station to see its steps again, or go on with another sentence.")
    scene.text(words, (x0 + x1) / 2, top + tall + small + ui.u(2), "faint", align="middle",
              room=x1 - x0)  # fmt: skip


def _overview_of(scene: Scene) -> Overview:
    trace, lesson = scene.trace, scene.lesson
    found = sample_token(trace.distribution, lesson.temperature, lesson.top_p, lesson.draws)
    top = trace.distribution.top[:MOST_GUESSES]
    positions = tuple(place for place, _ in trace.tokens)
    full = STRONG * trace.row.rms or 1.0

    def write(name: Name, x: float, y: float) -> float:
        return scene.number(name, x, y, "muted")

    return Overview(
        text="".join(lesson.token_texts).strip(),
        tokens=tuple(scene.token(place) for place in positions),
        positions=positions,
        vector=tuple(value / full for value in trace.row.values[: 3 * CELLS]),
        layers=trace.shape.layers,
        guesses=tuple(
            (visible(token.text), share) for token, share in zip(top, found.shares, strict=False)
        ),
        ids=tuple(token.id for token in top),
        next_token=next_token_text(scene, found),
        write=write,
        at=scene.t,
    )
