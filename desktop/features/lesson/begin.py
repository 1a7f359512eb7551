"""The first page of the lesson: the whole way from text to the next token in one picture, and a field
for a sentence. The last step shows the same picture with the numbers of the sentence."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from imgui_bundle import ImVec2, imgui
from msgspec import Struct

from llm_lite.core.messages import ModelKind
from llm_lite.desktop.features.attention.model import ReadAgain
from llm_lite.desktop.features.encoder.state import example_sentences, example_text
from llm_lite.desktop.features.lesson.glossary import explained
from llm_lite.desktop.features.lesson.model import (
    FollowPosition,
    RunSentence,
    TypeSentence,
    followed,
)
from llm_lite.desktop.features.lesson.numbers import Name
from llm_lite.desktop.features.lesson.state import LONGEST_SENTENCE, StepName
from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.requests import obstacle
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.language.translate import mark, tr
from llm_lite.desktop.widgets.ui import Rect, Ui
from llm_lite.desktop.widgets.widgets import button, fit, primary_button, wrap_lines, wrapped

ABOUT = mark(
    "See how a language model writes its next word: {n} short steps, about ten minutes. Write the "
    "beginning of a sentence; the model reads it and goes on. You follow one of its tokens, a word "
    "or a part of a word, on this way. Every number is the real one of this model and your "
    "sentence."
)
ABOUT_TEXT = mark(
    "See how a language model reads: {n} short steps, about ten minutes. Write a sentence; "
    "the model reads it, and you follow one of its tokens, a word or a part of a word, on this "
    "way. Every number is the real one of this model and your sentence."
)
ABOUT_TARGET = mark(
    "See how a translator writes its next word: {n} short steps, about ten minutes. Write a "
    "source, a sentence; the encoder reads it, and the decoder writes the target about it. You "
    "follow one token of the target, a word or a part of a word, on this way. Every number is the "
    "real one of this model and your sentence."
)
BEGINNING, A_SENTENCE = mark("The beginning of a sentence"), mark("A sentence")
EXAMPLES = (  # in the language that every model knows best
    "The capital of France is",
    "The cat sat on the mat because it was",
    "Water boils at a temperature of",
)
SOURCES = (  # whole sentences, which can be translated
    "Where is the station?",
    "The cat sat on the mat because it was tired.",
    "Water boils at a temperature of 100 degrees.",
)
ELSEWHERE = mark("The lesson follows tokens through a model on this machine. Disconnect first.")
NO_MODEL = mark("No model is loaded. Open one first: the lesson follows a token through it.")
NEW_CHAT = mark(
    "A sentence begins a chat of its own, which the list does not get; the conversation that is "
    "there stays in the list."
)
DRAFT = "lesson.draft"  # in the memory of the window
WIDTH = 210.0  # spacing units
PICTURE = (30.0, 56.0)  # spacing units, the least and the greatest height


def draw_begin(state: AppState, ui: Ui) -> list[Action]:
    """In the middle of the page."""
    room, at = imgui.get_content_region_avail(), imgui.get_cursor_screen_pos()
    wide = min(ui.u(WIDTH), room.x)
    imgui.set_cursor_screen_pos(ImVec2(at.x + (room.x - wide) / 2, at.y + room.y * 0.03))
    imgui.begin_child("lesson.begin", ImVec2(wide, room.y * 0.97))
    actions = _draw_fields(state, ui, room.y)
    imgui.end_child()
    return actions


def _draw_fields(state: AppState, ui: Ui, height: float) -> list[Action]:
    problem = tr(ELSEWHERE) if state.elsewhere else "" if state.model else tr(NO_MODEL)
    if problem:
        wrapped(ui, problem, "text", "body")
        return []
    about = ABOUT_TARGET if state.writes_targets else ABOUT_TEXT if state.encodes else ABOUT
    explained(ui, tr(about).format(n=len(state.lesson.steps)), "text", "body")
    imgui.dummy(ImVec2(0, ui.u(1)))
    _draw_picture(state, ui, min(max(ui.u(PICTURE[0]), height * 0.4), ui.u(PICTURE[1])))
    imgui.dummy(ImVec2(0, ui.u(1)))
    actions = _draw_field(state, ui)
    imgui.dummy(ImVec2(0, ui.u(0.5)))
    actions += _draw_examples(state, ui)
    return actions + _draw_conversation(state, ui)


def _draw_picture(state: AppState, ui: Ui, tall: float) -> None:
    at, wide = imgui.get_cursor_screen_pos(), imgui.get_content_region_avail().x
    layers = state.model.layers if state.model else 0
    rect = (at.x, at.y, at.x + wide - ui.u(3), at.y + tall)
    way = example_way(layers, state.model.kind if state.model else "decoder")
    draw_way(ui, imgui.get_window_draw_list(), rect, way)
    ui.rects["lesson.overview"] = rect
    imgui.dummy(ImVec2(wide, tall + ui.u(2)))


def _draw_field(state: AppState, ui: Ui) -> list[Action]:
    """Two lines, so that a long sentence is seen as a whole; Enter follows it."""
    draft, width = str(ui.memory.get(DRAFT, "")), ui.u(26)
    if imgui.is_window_appearing():
        imgui.set_keyboard_focus_here()
    line = imgui.get_text_line_height()
    size = ImVec2(
        imgui.get_content_region_avail().x - width - ui.u(2),
        2 * line + 2 * imgui.get_style().frame_padding.y,
    )
    flags = imgui.InputTextFlags_
    options = flags.enter_returns_true | flags.ctrl_enter_for_new_line | flags.word_wrap
    entered, draft = imgui.input_text_multiline("##lesson.draft", draft, size, options)
    ui.mark("lesson.draft")
    if not draft and not imgui.is_item_active():
        low, pad = imgui.get_item_rect_min(), imgui.get_style().frame_padding
        spot = ImVec2(low.x + pad.x, low.y + pad.y)
        words = tr(A_SENTENCE if state.encodes or state.writes_targets else BEGINNING)
        imgui.get_window_draw_list().add_text(spot, ui.color("faint"), words)
    ui.memory[DRAFT] = draft[:LONGEST_SENTENCE]
    imgui.same_line(0, ui.u(2))
    able = bool(draft.strip()) and not state.busy
    pressed = primary_button(ui, "lesson.run", tr("Follow it"), enabled=able, width=width)
    return [RunSentence(draft)] if pressed or (entered and able) else []


def _draw_examples(state: AppState, ui: Ui) -> list[Action]:
    """Side by side where they fit."""
    actions: list[Action] = []
    wrapped(ui, tr("Or one of these:"), "faint")
    right = imgui.get_cursor_screen_pos().x + imgui.get_content_region_avail().x
    for number, example in enumerate(_examples(state)):
        wide = imgui.calc_text_size(example).x + ui.u(8)
        if number and imgui.get_item_rect_max().x + ui.u(2) + wide < right:
            imgui.same_line(0, ui.u(2))
        if button(ui, f"lesson.example.{number}", example, enabled=not state.busy):
            actions.append(RunSentence(example))
    return actions


def _examples(state: AppState) -> tuple[str, ...]:
    """An encoder reads whole sentences, in a language that its vocabulary has."""
    if state.writes_targets:
        return SOURCES
    if not state.encodes:
        return EXAMPLES
    english = state.encoding.choice.english
    return example_text(english), *example_sentences(english)[:2]


def _stay(state: AppState, at: int | None) -> Action:
    return TypeSentence(False) if at is None else FollowPosition(at)


def _draw_conversation(state: AppState, ui: Ui) -> list[Action]:
    """The way back to what is there."""
    actions, stay = list[Action](), tr("Stay with the sentence that is there")
    if state.writes_targets and state.busy:
        imgui.dummy(ImVec2(0, ui.u(1)))
        wrapped(ui, tr("The target is being written: the lesson begins when it ends."))
        return actions
    if state.encodes or state.writes_targets:
        if state.lesson.typing and button(ui, "lesson.keep", stay):
            actions.append(TypeSentence(False))
        return actions
    if state.messages and not state.context_used and not obstacle(state):
        imgui.dummy(ImVec2(0, ui.u(1)))
        if button(ui, "lesson.read", tr("Read the conversation again"), enabled=not state.reading):
            actions.append(ReadAgain())
    elif state.messages and not state.busy:
        imgui.dummy(ImVec2(0, ui.u(1)))
        at = followed(state)
        if at is not None:
            word = state.positions[at].strip()
            stay = tr("Follow “{word}” of the conversation").format(word=word)
        if state.lesson.typing and button(ui, "lesson.keep", stay):
            actions.append(_stay(state, at))
        wrapped(ui, tr(NEW_CHAT), "faint")
    return actions


STATIONS: tuple[tuple[str, StepName, float], ...] = (  # name, step, share of the width
    (mark("Text"), "tokens", 1.15),
    (mark("Tokens"), "tokens", 0.9),
    (mark("Vectors"), "tokens", 1.0),
    (mark("{n} layers"), "norm", 1.9),
    (mark("Probabilities"), "sampling", 1.15),
    (mark("Next token"), "cache", 0.9),
)
OF_TARGETS: tuple[tuple[str, StepName, float], ...] = (  # of an encoder-decoder
    (mark("Source"), "source", 1.15),
    (mark("Tokens"), "source", 0.9),
    (mark("Encoder"), "source", 1.0),
    (mark("Decoder: {n} layers"), "norm", 1.9),
    (mark("Probabilities"), "choosing", 1.15),
    (mark("Next token"), "cache", 0.9),
)
GAP = 5.0  # spacing units between two stations, for an arrow
FOOT = 10.0  # spacing units below them, for the way back
EXAMPLE = mark("The cat sat on the")  # before there is a sentence of a person's own
GUESSES = mark("mat floor bed roof")  # words that could follow
EXAMPLE_SOURCE = "Where is the station?"  # in every language, as those of `begin`
TARGET_GUESSES = mark("Wo Was Der Wie")  # words that a translation of it could begin with
SHARES = (0.5, 0.22, 0.13, 0.06)  # of these
MOST = 5  # tokens that are drawn
CELLS = 8  # of a small vector
Write = Callable[[Name, float, float], float]  # a number by its name, right edge and top: its width


class Way(Struct, frozen=True):
    """What the picture shows. `vector`: values in -1..1. `write` draws real numbers, where there
    are any; `at`: how far a dot has gone, 0..1."""

    text: str
    tokens: tuple[str, ...]
    guesses: tuple[tuple[str, float], ...]
    next_token: str
    places: tuple[int, ...] = ()  # positions of the tokens
    vector: tuple[float, ...] = (0.5, -0.8, 0.3, 0.9, -0.4, 0.1, -0.6, 0.7)
    layers: int = 0
    ids: tuple[int, ...] = ()  # of the guesses
    write: Write | None = None
    at: float = 1.0
    path: ModelKind = "decoder"


def example_way(layers: int, path: ModelKind) -> Way:
    """Before there is a sentence: one of ours, without numbers."""
    words, guesses = tr(EXAMPLE), tr(GUESSES).split()
    if path == "encoder-decoder":
        words, guesses = EXAMPLE_SOURCE, tr(TARGET_GUESSES).split()
    shares = tuple(zip(guesses, SHARES, strict=False))
    return Way(words, tuple(words.split()), shares, guesses[0], layers=layers, path=path)


def _stations(path: ModelKind) -> tuple[tuple[str, StepName, float], ...]:
    """An encoder writes nothing: its way ends with its layers."""
    if path == "encoder-decoder":
        return OF_TARGETS
    return STATIONS[:4] if path == "encoder" else STATIONS


def draw_way(ui: Ui, draw: Any, rect: Rect, way: Way) -> list[tuple[StepName, Rect]]:
    """The stations with the steps that they belong to."""
    x0, y0, x1, y1 = rect
    foot, small = ui.u(FOOT), ui.theme.size("small")
    stations = _stations(way.path)
    whole = sum(share for _, _, share in stations)
    room = x1 - x0 - ui.u(GAP) * (len(stations) - 1)
    found, x, middles = list[tuple[StepName, Rect]](), x0, list[float]()
    top, bottom = y0 + small + ui.u(1.5), y1 - foot
    for number, (words, step, share) in enumerate(stations):
        wide = room * share / whole
        box = (x, top, x + wide, bottom)
        title = tr(words).format(n=way.layers) if way.layers else tr(words).format(n="N")
        _say(ui, draw, title, (x + wide / 2, y0), "text", "middle", wide, bold=True)
        _ground(ui, draw, box, number == 3)
        pad = ui.u(1.5)
        _INSIDE[number](ui, draw, (x + pad, top + pad, x + wide - pad, bottom - pad), way)
        if number:
            _arrow(ui, draw, x - ui.u(GAP) + ui.u(1), x - ui.u(1), (top + bottom) / 2)
        found.append((step, (x, y0, x + wide, bottom)))
        middles.append(x + wide / 2)
        x += wide + ui.u(GAP)
    if way.path == "encoder":
        return found
    first, words = 0, tr("It joins the text, and all begins again for it.")
    if way.path == "encoder-decoder":  # the source is read once
        first, words = 3, tr("It joins the target, and the decoder begins again for it.")
    _draw_back(ui, draw, (middles[first], middles[-1]), (bottom, y1), words)
    _draw_dot(ui, draw, middles, ((top + bottom) / 2, bottom + ui.u(5)), way.at)
    return found


def _say(
    ui: Ui, draw: Any, words: str, at: tuple[float, float], color: str = "text",
    align: str = "left", room: float = 0.0, bold: bool = False,
) -> None:  # fmt: skip
    with ui.font("bold" if bold else "regular", "small"):
        words = fit(words, room) if room else words
        wide = imgui.calc_text_size(words).x
        x = at[0] - {"left": 0.0, "middle": wide / 2, "right": wide}[align]
        draw.add_text(ImVec2(round(x), round(at[1])), ui.color(color), words)


def _ground(ui: Ui, draw: Any, box: Rect, stacked: bool) -> None:
    """A station; a stack of several where it stands for many."""
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


def _draw_back(
    ui: Ui, draw: Any, across: tuple[float, float], down: tuple[float, float], words: str
) -> None:
    """From the last station below others to the first of them."""
    (x0, x1), (top, _) = across, down
    y, color, thick = top + ui.u(5), ui.color("muted"), max(1.0, ui.u(0.375))
    draw.add_line(ImVec2(x1, top + ui.u(1)), ImVec2(x1, y), color, thick)
    draw.add_line(ImVec2(x0, y), ImVec2(x1, y), color, thick)
    draw.add_line(ImVec2(x0, y), ImVec2(x0, top + ui.u(2)), color, thick)
    side = ui.u(1)
    tip = ImVec2(x0, top + ui.u(1))
    left, right = ImVec2(x0 - side, tip.y + 1.5 * side), ImVec2(x0 + side, tip.y + 1.5 * side)
    draw.add_triangle_filled(tip, left, right, color)
    _say(ui, draw, words, ((x0 + x1) / 2, y + ui.u(0.75)), "muted", "middle", x1 - x0)


def _draw_dot(
    ui: Ui, draw: Any, middles: list[float], levels: tuple[float, float], at: float
) -> None:
    """Runs through all stations, and back below them; gone at the end."""
    if not 0.0 < at < 1.0:
        return
    along, back = levels
    if at < 0.75:
        x, y = middles[0] + (middles[-1] - middles[0]) * at / 0.75, along
    else:
        x, y = middles[-1] + (middles[0] - middles[-1]) * (at - 0.75) / 0.25, back
    draw.add_circle_filled(ImVec2(x, y), ui.u(1.75), ui.color("accent"))


def _draw_text(ui: Ui, draw: Any, box: Rect, way: Way) -> None:
    x0, y0, x1, y1 = box
    size = ui.theme.size("small")
    line = round(size * 1.4)
    with ui.font(style="small"):
        rows = max(1, int((y1 - y0) // line))
        lines = wrap_lines(way.text, x1 - x0, size)
        if len(lines) > rows:
            lines = (*lines[: rows - 1], fit(lines[rows - 1] + " …", x1 - x0))
        top = (y0 + y1 - line * len(lines)) / 2
        for row, words in enumerate(lines):
            draw.add_text(ImVec2(x0, round(top + row * line)), ui.color("text"), words)


def _rows(ui: Ui, box: Rect, count: int) -> tuple[int, float, float]:
    """(rows that fit, their height, the top of the first)"""
    _, y0, _, y1 = box
    fits = max(1, min(count, MOST, int((y1 - y0) // ui.u(5))))
    each = min(ui.u(7), (y1 - y0) / fits)
    return fits, each, (y0 + y1 - fits * each) / 2


def _draw_tokens(ui: Ui, draw: Any, box: Rect, way: Way) -> None:
    """The last tokens of the sentence, one below the other, with their ids."""
    x0, _, x1, _ = box
    count, each, top = _rows(ui, box, len(way.tokens))
    small, ids = ui.theme.size("small"), way.write is not None and x1 - x0 > ui.u(20)
    right = x0 + (x1 - x0) * (0.6 if ids else 1.0)
    for row in range(count):
        at, y = len(way.tokens) - count + row, top + row * each
        low, high = ImVec2(x0, y + ui.u(0.25)), ImVec2(right, y + each - ui.u(0.5))
        draw.add_rect_filled(low, high, ui.color("hover"), ui.u(1))
        line = y + (each - small) / 2 - 1
        _say(ui, draw, way.tokens[at], ((x0 + right) / 2, line), "text", "middle", right - x0 - 4)
        if ids and way.write is not None:
            way.write(("id", way.places[at]), x1, line)


def _draw_vectors(ui: Ui, draw: Any, box: Rect, way: Way) -> None:
    x0, _, x1, _ = box
    count, each, top = _rows(ui, box, len(way.tokens))
    wide, values = (x1 - x0) / CELLS, way.vector
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


def _draw_layers(ui: Ui, draw: Any, box: Rect, way: Way) -> None:
    """Attention looks back along the tokens; neurons answer to one token."""
    x0, y0, x1, y1 = box
    small, half = ui.theme.size("small"), (x1 - x0) / 2
    foot = y1 - small - ui.u(0.5)
    for left, words in ((x0, tr("attention")), (x0 + half, tr("neurons"))):
        _say(ui, draw, words, (left + half / 2, foot), "muted", "middle", half - ui.u(1))
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
    """One dot, neurons of which a few answer, and one dot again."""
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


def _draw_guesses(ui: Ui, draw: Any, box: Rect, way: Way) -> None:
    x0, _, x1, _ = box
    count, each, top = _rows(ui, box, len(way.guesses))
    small, most = ui.theme.size("small"), max((share for _, share in way.guesses), default=1.0)
    for row, (words, share) in enumerate(way.guesses[:count]):
        y = top + row * each
        line = y + (each - small) / 2 - 1
        wide = (x1 - x0) * share / most
        low, high = ImVec2(x0, y + ui.u(0.25)), ImVec2(x0 + max(wide, 2), y + each - ui.u(0.5))
        draw.add_rect_filled(low, high, ui.color("accent", 0.35), ui.u(0.75))
        taken = 0.0
        if way.write is not None and row < len(way.ids) and x1 - x0 > ui.u(22):
            taken = way.write(("share", way.ids[row]), x1, line) + ui.u(1)
        room = x1 - x0 - ui.u(1) - taken
        if room > ui.u(5):
            _say(ui, draw, words, (x0 + ui.u(1), line), "text", "left", room)


def _draw_next(ui: Ui, draw: Any, box: Rect, way: Way) -> None:
    x0, y0, x1, y1 = box
    middle, small, high = (y0 + y1) / 2, ui.theme.size("small"), ui.u(4)
    low = ImVec2(x0, middle - high)
    draw.add_rect_filled(low, ImVec2(x1, middle + high), ui.color("accent"), ui.u(1))
    at = ((x0 + x1) / 2, middle - small / 2 - 1)
    _say(ui, draw, way.next_token, at, "on_accent", "middle", x1 - x0 - 4)


_INSIDE = (_draw_text, _draw_tokens, _draw_vectors, _draw_layers, _draw_guesses, _draw_next)
