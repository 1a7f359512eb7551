"""Words of the field, each explained where a text of the lesson uses it first: a dotted line below
the word, and its explanation while the pointer is on it."""

from __future__ import annotations

from functools import lru_cache

from imgui_bundle import ImVec2, imgui

from llm_lite.desktop.language.translate import mark, number, tr
from llm_lite.desktop.widgets.ui import Rect, Ui
from llm_lite.desktop.widgets.widgets import wrap_lines

LONGEST_ENDING = 1  # letters: of the plural
TERMS: dict[str, str] = {
    mark("token"): mark("A word or a part of a word. The model reads and writes tokens."),
    mark("vector"): mark("A list of numbers. Here it stands for a token."),
    mark("embedding"): mark("A table with one row of numbers for every token of the vocabulary."),
    mark("RMS"): mark(
        "Root mean square: the square root of the mean of the squares. It says how large the "
        "numbers of a vector typically are."
    ),
    mark("layer"): mark(
        "One floor of the model: attention, then a feed-forward network. All layers are built "
        "alike; each has weights of its own."
    ),
    mark("head"): mark(
        "A part of attention. The heads of a layer look at the text side by side, each in its own "
        "way."
    ),
    mark("attention"): mark(
        "How a token looks back: it takes from earlier tokens what fits its query."
    ),
    mark("query"): mark("A short vector that a head makes of a token: what the token looks for."),
    mark("key"): mark("A short vector that a head makes of a token: by it others find the token."),
    mark("value"): mark("A short vector that a head makes of a token: what the token gives."),
    mark("matrix"): mark("A table of numbers. It makes one vector of another."),
    mark("matrices"): mark("Tables of numbers. Each makes one vector of another."),
    mark("weights"): mark("All numbers of the model that training found."),
    mark("training"): mark(
        "The model guessed the next token of very many texts; after each guess all its numbers "
        "were moved a little."
    ),
    mark("dot product"): mark("Two lists of numbers, multiplied number by number and added up."),
    mark("softmax"): mark(
        "A formula that turns any numbers into shares of 100%: the larger a number, the larger "
        "its share."
    ),
    mark("masked"): mark("Hidden: no token looks at those that come after it."),
    mark("residual"): mark(
        "The running sum: the vector of the token, to which every layer adds its parts."
    ),
    mark("feed-forward"): mark(
        "The second part of a layer: neurons that look at one token alone. Everything runs "
        "straight through."
    ),
    mark("neuron"): mark("A row of a matrix that answers to a pattern, with one number."),
    mark("logit"): mark("The score of a token before softmax: the larger, the likelier."),
    mark("vocabulary"): mark("All tokens that the model knows."),
    mark("temperature"): mark(
        "Logits are divided by it before softmax. Below 1 the likeliest tokens gain, above 1 the "
        "others. It has no unit."
    ),
    mark("Top-p"): mark(
        "Only the likeliest tokens stay, as many as it takes until together they reach this share."
    ),
    mark("KV cache"): mark(
        "Keys (K) and values (V) of all tokens so far, kept so that they need not be computed "
        "again."
    ),
    mark("context"): mark("How many tokens the model can read at once."),
}


@lru_cache(maxsize=256)
def _found(words: str, language: int) -> tuple[tuple[int, int, str], ...]:
    """(begin, end, term) of each term where `words` have it first; longer terms win."""
    lower, found = words.lower(), list[tuple[int, int, str]]()
    terms = sorted(((tr(term).lower(), term) for term in TERMS), key=lambda t: -len(t[0]))
    for shown, term in terms:
        begin = _first(lower, shown, found)
        if begin >= 0:
            found.append((begin, _end(lower, begin + len(shown)), term))
    return tuple(sorted(found))


def _first(lower: str, shown: str, taken: list[tuple[int, int, str]]) -> int:
    """Where a word begins with the term, outside of longer terms; -1: nowhere."""
    begin = lower.find(shown)
    while begin >= 0:
        end = begin + len(shown)
        starts = begin == 0 or not lower[begin - 1].isalnum()
        ends = _end(lower, end) - end <= LONGEST_ENDING
        if (
            starts
            and ends
            and not any(low < begin + len(shown) and begin < high for low, high, _ in taken)
        ):
            return begin
        begin = lower.find(shown, begin + 1)
    return -1


def _end(lower: str, end: int) -> int:
    """With the plural's letters; a Korean particle is not taken along."""
    while end < len(lower) and lower[end].isascii() and lower[end].isalpha():
        end += 1
    return end


def terms_in(words: str) -> tuple[tuple[int, int, str], ...]:
    """(begin, end, term) of the terms that a text, in the window's language, is marked with."""
    return _found(words, number())


def explained(ui: Ui, words: str, color: str, style: str) -> None:
    """A paragraph as `widgets.wrapped` draws it, whose terms are explained under the pointer."""
    size = ui.theme.size(style)
    width, line = imgui.get_content_region_avail().x, float(round(size * 1.4))
    at, draw = imgui.get_cursor_screen_pos(), imgui.get_window_draw_list()
    terms, begin = terms_in(words), 0
    over = imgui.is_window_hovered()
    with ui.font(style=style):
        lines = wrap_lines(words, max(width, size), size)
        for row, part in enumerate(lines):
            begin = words.index(part, begin)
            y = at.y + row * line + (line - size) / 2
            draw.add_text(ImVec2(at.x, round(y)), ui.color(color), part)
            for low, high, term in terms:
                first, last = max(low, begin), min(high, begin + len(part))
                if first < last:
                    x0 = at.x + imgui.calc_text_size(part[: first - begin]).x
                    x1 = x0 + imgui.calc_text_size(words[first:last]).x
                    _mark_term(ui, term, (x0, y, x1, y + size + 2), over)
            begin += len(part)
    imgui.dummy(ImVec2(width, len(lines) * line))


def _mark_term(ui: Ui, term: str, rect: Rect, over: bool) -> None:
    x0, _y0, x1, y1 = rect
    ui.rects[f"lesson.term.{term}"] = rect
    pointed = over and ui.at_pointer(rect)
    draw, x = imgui.get_window_draw_list(), x0
    color, dot = ui.color("link", 1.0 if pointed else 0.5), max(1.0, ui.u(0.375))
    while x < x1:
        draw.add_rect_filled(ImVec2(x, y1), ImVec2(min(x + dot, x1), y1 + dot), color)
        x += 2.5 * dot
    if pointed:
        say_tip(ui, tr(TERMS[term]))


def say_tip(ui: Ui, *lines: str) -> None:
    """A tooltip at once, wrapped; lines after the first are quieter."""
    with ui.styled(window_padding=(ui.u(3), ui.u(2))), ui.font(style="small"):
        if imgui.begin_tooltip():
            imgui.push_text_wrap_pos(ui.u(72))
            for index, words in enumerate(filter(None, lines)):
                with ui.colored(text="muted" if index else "text"):
                    imgui.text_unformatted(words)
            imgui.pop_text_wrap_pos()
            imgui.end_tooltip()
