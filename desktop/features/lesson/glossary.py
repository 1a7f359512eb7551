"""Explanations under the pointer: of the field's terms, each with a dotted line where a text of the
lesson uses it first, and of each number that the lesson shows."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache

from imgui_bundle import ImVec2, imgui

from llm_lite.core.messages.inspecting.lesson import TokenTrace
from llm_lite.desktop.features.lesson.numbers import Name, Number, divided_residual, norm_weight
from llm_lite.desktop.features.lesson.state import LessonPage
from llm_lite.desktop.language.translate import mark, number, tr
from llm_lite.desktop.widgets.token_text import visible
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
def _find_terms(words: str, language: int) -> tuple[tuple[int, int, str], ...]:
    """Return (begin, end, term) of each term where it first occurs in `words`; longer terms win.
    `language` is a key of the cache only."""
    lower, found = words.lower(), list[tuple[int, int, str]]()
    terms = sorted(((tr(term).lower(), term) for term in TERMS), key=lambda t: -len(t[0]))
    for shown, term in terms:
        begin = _find_term(lower, shown, found)
        if begin >= 0:
            found.append((begin, _end_of_word(lower, begin + len(shown)), term))
    return tuple(sorted(found))


def _find_term(lower: str, shown: str, taken: list[tuple[int, int, str]]) -> int:
    """Return where a word begins with the term, outside of longer terms; -1 if nowhere."""
    begin = lower.find(shown)
    while begin >= 0:
        end = begin + len(shown)
        starts = begin == 0 or not lower[begin - 1].isalnum()
        ends = _end_of_word(lower, end) - end <= LONGEST_ENDING
        if (
            starts
            and ends
            and not any(low < begin + len(shown) and begin < high for low, high, _ in taken)
        ):
            return begin
        begin = lower.find(shown, begin + 1)
    return -1


def _end_of_word(lower: str, end: int) -> int:
    """Return the end of the word, with the letters of a plural but without a Korean particle."""
    while end < len(lower) and lower[end].isascii() and lower[end].isalpha():
        end += 1
    return end


def terms_in(words: str) -> tuple[tuple[int, int, str], ...]:
    """Return (begin, end, term) of the terms in a text of the window's language."""
    return _find_terms(words, number())


def draw_explained(ui: Ui, words: str, color: str, style: str) -> None:
    """Draw a paragraph as `widgets.wrapped` does, with its terms explained under the pointer."""
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
        show_tip(ui, tr(TERMS[term]))


def show_tip(ui: Ui, *lines: str) -> None:
    """Show a tooltip at once, wrapped; lines after the first are quieter."""
    with ui.styled(window_padding=(ui.u(3), ui.u(2))), ui.font(style="small"):
        if imgui.begin_tooltip():
            imgui.push_text_wrap_pos(ui.u(72))
            for index, words in enumerate(filter(None, lines)):
                with ui.colored(text="muted" if index else "text"):
                    imgui.text_unformatted(words)
            imgui.pop_text_wrap_pos()
            imgui.end_tooltip()


VECTORS: dict[str, str] = {
    "row": mark("the vector of “{token}”"),
    "place": mark("the vector of position {position}"),
    "embedded": mark("what the first layer is given"),
    "residual": mark("the residual before layer {layer}"),
    "divided": mark("the residual, divided by its RMS"),
    "normed": mark("what layer {layer} reads"),
    "query_raw": mark("the query of head {head}, before it is turned"),
    "query": mark("the query of head {head}"),
    "key": mark("the key of “{token}” in head {head}"),
    "value": mark("the value of “{token}” in head {head}"),
    "key_of": mark("the key of “{word}”"),
    "value_of": mark("the value of “{word}”"),
    "products": mark("query times key of “{word}”, number by number"),
    "head_output": mark("the output of head {head}"),
    "attended": mark("what attention adds"),
    "after_attention": mark("the residual after attention"),
    "ff_normed": mark("what the feed-forward network reads"),
    "ff_output": mark("what the feed-forward network adds"),
    "final": mark("the last vector of “{token}”"),
    "segment": mark("the vector of the segment"),
    "embedding_sum": mark("the sum before the norm"),
    "summed": mark("the residual with what attention adds"),
    "cross_query": mark("the query of head {head}, of the target"),
    "cross_output": mark("the output of head {head}, of the source's values"),
    "cross_attended": mark("what the cross-attention adds"),
    "vector": mark("the vector of the text"),
    "hidden_of": mark("what the encoder leaves for “{source}”"),
    "state": mark("what the last layer made of “{word}”"),
    "beside": mark("the vector of the other text"),
}
MEANINGS: dict[str, str] = {
    "id": mark("The id of “{word}”: its place in the list of all {vocabulary} tokens."),
    "position": mark("Positions are counted from 0: the first token stands at 0."),
    "angle": mark("How far the position has turned this pair of numbers, besides full turns."),
    "turns": mark("Full turns that this pair has made, besides the angle."),
    "dot": mark("The score of “{word}”: query times key, number by number, all added up."),
    "sum": mark("The score of “{word}”: query times key, number by number, all added up."),
    "scale": mark("By this number every score is multiplied."),
    "score": mark("The score of “{word}” times the scale: of this softmax makes the share."),
    "probability": mark(
        "Attention of “{token}” to “{word}” in head {head} of layer {layer}. Other views use the "
        "query that was kept when the text was read: there the last digits can differ."
    ),
    "unscaled": mark("The share that “{word}” would get without the scale."),
    "others": mark("All tokens before those that are drawn, together."),
    "others_unscaled": mark("All tokens before those that are drawn, together, without the scale."),
    "sink": mark("A share of attention that goes to no token."),
    "sink_unscaled": mark("A share of attention that goes to no token, without the scale."),
    "head": mark("How large the output of head {which} is (RMS)."),
    "neuron": mark("The answer of neuron {which}."),
    "up": mark("Neuron {which}: what would pass if its door were open."),
    "before": mark("Neuron {which}: the number before the curve."),
    "gate": mark("Neuron {which}: how far its door opens, before the curve."),
    "curved": mark("Neuron {which}: how far its door is open, by the curve."),
    "strong": mark("Neurons whose answer is at least a tenth of the strongest."),
    "neurons": mark("Neurons of this layer."),
    "attention": mark("How large what attention adds in layer {which} is (RMS)."),
    "feed_forward": mark("How large what the feed-forward adds in layer {which} is (RMS)."),
    "growth": mark("How large the residual is after layer {which} (RMS)."),
    "temperature": mark(
        "Logits are divided by it before softmax. Below 1 the likeliest tokens gain, above 1 the "
        "others. It has no unit."
    ),
    "top_p": mark(
        "Only the likeliest tokens stay, as many as it takes until together they reach this share."
    ),
    "logit": mark("The score that the last matrix gives to this token."),
    "share": mark("The probability of this token at the temperature that is set."),
    "kept_share": mark("The probability of this token once the tokens that top-p drops are gone."),
    "kept": mark("Tokens that stay: together they reach top-p."),
    "drawn": mark("An example. “Draw again” draws another number."),
    "rank": mark("Its place among all tokens: 1 is the likeliest."),
    "chosen_share": mark("The probability with which this token was drawn."),
    "length": mark(
        "Up to our token. The status bar counts what the model wrote after it, too."
    ),
    "grown": mark("With the drawn token."),
    "position_bytes": mark("What one token takes in the KV cache, in all layers together."),
    "cache_values": mark("Numbers that a token leaves in the KV cache: n in the formula."),
    "cache_bytes": mark("What all tokens take, with the drawn one."),
    "context": mark("How many tokens the model can read at once."),
    "distance": mark("How far “{word}” stands from our token; minus: before it."),
    "bias": mark("What head {head} adds to the score of “{word}”, by its distance."),
    "cross": mark("How large what cross-attention adds in layer {which} is (RMS)."),
    "likely": mark("The probability of this token, as the model was trained."),
    "log_likely": mark("The logarithm of the probability: those of a sentence add up."),
    "source_id": mark("The id of “{source}”: its place in the list of all tokens."),
    "hidden": mark("How large the vector is that the encoder leaves for “{source}” (RMS)."),
    "cross_score": mark("The score of “{source}”: query times key, times the scale."),
    "cross_probability": mark("How much the token of the target looks at “{source}”."),
    "cross_others": mark("All tokens of the source that are not drawn, together."),
    "pooled_tokens": mark("Tokens of the whole text."),
    "pooled_length": mark("The length of the vector before it was divided by it."),
    "similarity": mark("1: both vectors have the same direction; 0: they have nothing in common."),
}  # fmt: skip


def meaning_of(name: Name, lesson: LessonPage) -> str:
    """Return the sentence that explains a number."""
    trace = lesson.trace
    assert trace is not None
    kind, which = str(name[0]), name[1] if len(name) > 1 else 0
    index = name[2] if len(name) > 2 else which  # of a row of several vectors
    values = _format_values(lesson, which)
    is_growth = kind == "residual" and lesson.step_name == "residual"
    if kind in VECTORS and len(name) > 1 and not is_growth:
        return _meaning_in_vector(kind, index, values)
    if kind == "up" and trace.shape.gate == "none":
        kind = "before"
    return tr(MEANINGS["growth" if is_growth else kind]).format(**values)


def _meaning_in_vector(kind: str, which: str | int, values: Mapping[str, object]) -> str:
    what = tr(VECTORS[kind]).format(**values)
    if which == "rms":
        words = tr("RMS of {what}: how large its numbers typically are.")
        return words.format(what=what)
    return tr("Number {n:,} of {what}.").format(n=int(which) + 1, what=what)


def _format_values(lesson: LessonPage, which: str | int) -> dict[str, object]:
    trace = lesson.trace
    assert trace is not None
    return {
        "token": token_at(lesson, trace.position), "position": trace.position,
        "layer": trace.layer, "head": trace.head, "vocabulary": f"{trace.shape.vocabulary:,}",
        "word": token_at(lesson, which) if isinstance(which, int) else "",
        "source": _source_at(trace, which),
        "which": f"{which:,}" if isinstance(which, int) else which,
    }  # fmt: skip


def _source_at(trace: TokenTrace, which: str | int) -> str:
    found = [visible(token.text) for token in trace.source if token.position == which]
    return found[0] if found else ""


def token_at(lesson: LessonPage, position: int) -> str:
    """Return the text of a token of the sentence on one line; "" where the trace lacks it."""
    trace = lesson.trace
    places = [place for place, _ in trace.tokens] if trace is not None else []
    at = places.index(position) if position in places else -1
    return visible(lesson.token_texts[at]) if 0 <= at < len(lesson.token_texts) else ""


def operands_of(name: Name, lesson: LessonPage) -> tuple[Number | str, ...]:
    """Return the numbers of the picture, and the signs between them, that make a number of a
    vector; nothing where it is not made of such."""
    trace, at = lesson.trace, name[-1]
    if trace is None or not isinstance(at, int):
        return ()
    opened, kind = trace.opened, name[0]
    vectors = {
        "residual": opened.residual, "normed": opened.normed, "attended": opened.attended,
        "after_attention": opened.after_attention, "divided": divided_residual(trace),
    }  # fmt: skip
    if kind not in ("divided", "normed", "after_attention") or at >= len(opened.residual.values):
        return ()
    found = {key: Number((key, at), vector.values[at]) for key, vector in vectors.items()}
    if (
        kind == "after_attention"
        and lesson.step_name == "output"
        and trace.shape.residual_factor == 1.0
    ):
        return found["attended"], "+", found["residual"], "=", found["after_attention"]
    if kind == "after_attention" or trace.shape.norm != "rms" or trace.shape.norm_behind:
        return ()
    size = Number(("residual", "rms"), opened.residual.rms, "{:.3f}")
    if kind == "divided":
        return found["residual"], "÷", size, "=", found["divided"]
    by = norm_weight(trace, at)
    if math.isnan(by):
        return ()
    times = Number(("factor", at), by, "{:.3f}")
    return found["residual"], "÷", size, "×", times, "=", found["normed"]


def as_equation(parts: tuple[Number | str, ...]) -> str:
    return " ".join(part if isinstance(part, str) else part.text for part in parts)
