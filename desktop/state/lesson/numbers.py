"""Every number that the lesson shows, by name: read off the trace here and nowhere else.

A name is a tuple, as ("query", 3): what it is, and which. The view writes numbers by their names
only, so what a test compares with the reference executor is all that a person can read.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from llm_lite.core.messages.inspecting.lesson import HeadTrace, TokenTrace, VectorPart
from llm_lite.desktop.state.lesson.lesson_state import LessonState, StepName
from llm_lite.desktop.state.lesson.sampled import Sampled, sampled
from llm_lite.desktop.state.units import size

Name = tuple[str | int, ...]
WRITTEN = 8  # first values of a vector that are written out
PAIRS = (0, 1, 2, 3, 5, 8, 16, 31)  # rotary pairs that are shown as hands
LISTED = 10  # tokens that may follow


@dataclass(frozen=True, slots=True)
class Number:
    name: Name
    value: float
    form: str = "{:+.3f}"

    @property
    def shown(self) -> str:
        """As it stands on the screen: with a real minus sign, and without one before zero."""
        if self.form == "size":
            return size(int(self.value))
        text = self.form.format(self.value)
        if not text.strip("+-0.%°"):
            text = text.replace("-", "+")
        return text.replace("-", "−")


Found = Iterator[Number]


def numbers_of(lesson: LessonState) -> dict[Name, Number]:
    """Of the step that is shown; none while there is no trace."""
    if lesson.trace is None:
        return {}
    return {number.name: number for number in _STEPS[lesson.name](lesson.trace, lesson)}


def _vector(name: str, vector: VectorPart, count: int = WRITTEN) -> Found:
    for index, value in enumerate(vector.values[:count]):
        yield Number((name, index), value)
    yield Number((name, "rms"), vector.rms, "{:.3f}")


def _share(name: Name, value: float) -> Number:
    return Number(name, 100 * value, "{:.1f}%")


def _tokens(trace: TokenTrace, lesson: LessonState) -> Found:
    for position, token in trace.tokens:
        yield Number(("id", position), token, "{:.0f}")
    yield from _vector("row", trace.row)


def _position(trace: TokenTrace, lesson: LessonState) -> Found:
    yield Number(("position",), trace.position, "{:.0f}")
    if trace.place is not None:
        yield from _vector("row", trace.row)
        yield from _vector("place", trace.place)
        yield from _vector("embedded", trace.embedded)
    elif trace.shape.positions == "rotary":
        for pair in pairs_of(trace):
            yield Number(("angle", pair), angle(trace.opened.head, pair, trace), "{:.0f}°")


def pairs_of(trace: TokenTrace) -> tuple[int, ...]:
    """Rotary pairs that are shown."""
    first, second = halves(trace)
    known = len(trace.opened.head.query.values)
    return tuple(p for p in PAIRS if p * first[1] + first[0] < known and _second(p, second) < known)


def halves(trace: TokenTrace) -> tuple[tuple[int, int], tuple[int, int]]:
    """(offset, stride) of the first and of the second value of each pair."""
    shape = trace.shape
    if shape.half_split:
        return (0, 1), (shape.rotary_dim // 2, 1)
    return (0, 2), (1, 2)


def _second(pair: int, place: tuple[int, int]) -> int:
    return place[0] + pair * place[1]


def pair_of(vector: VectorPart, pair: int, trace: TokenTrace) -> tuple[float, float]:
    """Both values of a rotary pair."""
    first, second = halves(trace)
    return vector.values[_second(pair, first)], vector.values[_second(pair, second)]


def angle(head: HeadTrace, pair: int, trace: TokenTrace) -> float:
    """By how many degrees the token's position turned the pair, 0..360."""
    (a, b), (c, d) = (pair_of(v, pair, trace) for v in (head.query_raw, head.query))
    return math.degrees(math.atan2(a * d - b * c, a * c + b * d)) % 360.0


def _norm(trace: TokenTrace, lesson: LessonState) -> Found:
    yield from _vector("residual", trace.opened.residual)
    yield from _vector("normed", trace.opened.normed)
    zoom = trace.opened.residual.rms / (trace.opened.normed.rms or 1.0)
    yield Number(("zoom",), zoom, "{:.1f}×")


def _queries(trace: TokenTrace, lesson: LessonState) -> Found:
    head = trace.opened.head
    yield from _vector("query", head.query)
    yield from _vector("key", head.key)
    yield from _vector("value", head.value)


def _scores(trace: TokenTrace, lesson: LessonState) -> Found:
    for score in trace.opened.head.scores:
        yield Number(("dot", score.position), score.dot, "{:+.2f}")
        yield Number(("sum", score.position), score.dot, "{:+.2f}")


def _softmax(trace: TokenTrace, lesson: LessonState) -> Found:
    head = trace.opened.head
    yield Number(("scale",), trace.shape.scale, "{:.4f}")
    for score in head.scores:
        yield Number(("dot", score.position), score.dot, "{:+.2f}")
        yield Number(("score", score.position), score.score, "{:+.2f}")
        yield _share(("probability", score.position), score.probability)
        yield _share(("unscaled", score.position), score.unscaled)
    yield _share(("others",), head.others_probability)
    yield _share(("others_unscaled",), head.others_unscaled)
    yield _share(("sink",), head.sink)
    yield _share(("sink_unscaled",), head.sink_unscaled)


def _values(trace: TokenTrace, lesson: LessonState) -> Found:
    head = trace.opened.head
    for score in head.scores:
        yield _share(("probability", score.position), score.probability)
    yield _share(("others",), head.others_probability)
    yield from _vector("head_output", head.output)


def _output(trace: TokenTrace, lesson: LessonState) -> Found:
    for head, value in enumerate(trace.opened.head.outputs):
        yield Number(("head", head), value, "{:.3f}")
    yield from _vector("attended", trace.opened.attended)
    yield from _vector("residual", trace.opened.residual)
    yield from _vector("after_attention", trace.opened.after_attention)


def _neurons(trace: TokenTrace, lesson: LessonState) -> Found:
    found = trace.opened.feed_forward
    for neuron in found.neurons:
        yield Number(("neuron", neuron.index), neuron.value, "{:+.2f}")
        yield Number(("up", neuron.index), neuron.up, "{:+.2f}")
        if trace.shape.gate != "none" and not math.isnan(neuron.gate):
            yield Number(("gate", neuron.index), neuron.gate, "{:+.2f}")
    yield Number(("strong",), found.strong, "{:,.0f}")
    yield Number(("neurons",), found.size, "{:,.0f}")
    yield from _vector("ff_output", found.output)


def _residual(trace: TokenTrace, lesson: LessonState) -> Found:
    yield from _vector("embedded", trace.embedded)
    for layer, growth in enumerate(trace.growth):
        yield Number(("residual", layer), growth.residual, "{:.2f}")
        yield Number(("attention", layer), growth.attention, "{:.2f}")
        yield Number(("feed_forward", layer), growth.feed_forward, "{:.2f}")


def _sampling(trace: TokenTrace, lesson: LessonState) -> Found:
    found = sampled(trace.distribution, lesson.temperature, lesson.top_p, lesson.draws)
    yield Number(("temperature",), lesson.temperature, "{:.1f}")
    yield Number(("top_p",), lesson.top_p, "{:.2f}")
    for index, token in enumerate(trace.distribution.top[:LISTED]):
        yield Number(("logit", token.id), token.logit, "{:.2f}")
        yield _share(("share", token.id), found.shares[index])
        if index < found.kept:
            yield _share(("kept_share", token.id), found.kept_share(index))
    yield _kept(found)
    yield Number(("drawn",), found.draw, "{:.3f}")


def _kept(found: Sampled) -> Number:
    """Tokens that top-p leaves; where they are more than are known, at least so many."""
    return Number(("kept",), found.kept, "{:,.0f}" if found.complete else "> {:,.0f}")


def _cache(trace: TokenTrace, lesson: LessonState) -> Found:
    found = sampled(trace.distribution, lesson.temperature, lesson.top_p, lesson.draws)
    shape = trace.shape
    yield _share(("chosen_share",), found.kept_share(found.chosen))
    yield Number(("length",), trace.position + 1, "{:,.0f}")
    yield Number(("grown",), trace.position + 2, "{:,.0f}")
    yield Number(("position_bytes",), shape.cache_bytes, "size")
    yield Number(("cache_bytes",), shape.cache_bytes * (trace.position + 2), "size")
    yield Number(("context",), shape.context, "{:,.0f}")
    yield from _vector("key", trace.opened.head.key)
    yield from _vector("value", trace.opened.head.value)


_STEPS: dict[StepName, Callable[[TokenTrace, LessonState], Found]] = {
    "tokens": _tokens,
    "position": _position,
    "norm": _norm,
    "queries": _queries,
    "scores": _scores,
    "softmax": _softmax,
    "values": _values,
    "output": _output,
    "neurons": _neurons,
    "residual": _residual,
    "sampling": _sampling,
    "cache": _cache,
}
