"""Every number that the lesson shows, by name: read off the trace here and nowhere else.

A name is a tuple, as ("query", 3): what it is, and which. The view writes numbers by their names
only, so what a test compares with the reference executor is all that a person can read.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import accumulate

from msgspec import Struct

from llm_lite.core.messages.inspecting.lesson import (
    TEMPERATURES,
    Curve,
    Distribution,
    HeadTrace,
    TokenTrace,
    VectorPart,
)
from llm_lite.desktop.features.lesson.state import LessonState, StepName
from llm_lite.desktop.language.units import size

Name = tuple[str | int, ...]
WRITTEN = 8  # first values of a vector that are written out
LISTED = 10  # tokens that may follow


class Number(Struct, frozen=True):
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


def vector_numbers(name: str, vector: VectorPart, count: int = WRITTEN) -> Found:
    for index, value in enumerate(vector.values[:count]):
        yield Number((name, index), value)
    yield Number((name, "rms"), vector.rms, "{:.3f}")


def share_number(name: Name, value: float) -> Number:
    return Number(name, 100 * value, "{:.1f}%")


_GOLDEN = 0.6180339887498949  # steps of a sequence that spreads evenly over 0..1


class Sampled(Struct, frozen=True):
    """`shares`: probabilities of the distribution's `top` at the temperature; `kept`: how many of
    them top-p leaves; `complete`: whether these are all that it leaves; `whole`: the sum of the
    probabilities of all that it leaves, whether they are among `top` or not."""

    shares: tuple[float, ...]
    kept: int
    complete: bool
    whole: float
    draw: float  # 0..1
    chosen: int | None  # which of `top`; None: a rarer token

    def kept_share(self, index: int) -> float:
        """Among those that are kept."""
        return self.shares[index] / self.whole


def token_shares(distribution: Distribution, temperature: float) -> tuple[float, ...]:
    """Probabilities of `top` at a temperature of TEMPERATURES; what they lack to 1 is the tail's.
    ValueError at another temperature."""
    largest = distribution.top[0].logit
    weights = [math.exp((token.logit - largest) / temperature) for token in distribution.top]
    whole = math.fsum(weights) + distribution.tails[TEMPERATURES.index(temperature)]
    return tuple(weight / whole for weight in weights)


@lru_cache(maxsize=32)
def sampled(distribution: Distribution, temperature: float, top_p: float, draws: int) -> Sampled:
    """The token that the draw number `draws` gives."""
    shares = token_shares(distribution, temperature)
    sums = list(accumulate(shares))
    kept = 1 + sum(total < top_p for total in sums[:-1])
    complete = sums[kept - 1] >= top_p or len(shares) > kept
    draw = (0.5 + draws * _GOLDEN) % 1.0
    whole = sums[kept - 1] if complete else top_p  # tokens that are not known are tiny steps
    mark = draw * whole
    chosen = next((i for i in range(kept) if mark < sums[i]), kept - 1 if complete else None)
    return Sampled(shares, kept, complete, whole, draw, chosen)


ACTIVATION_NAMES: dict[Curve, str] = {"silu": "SiLU", "gelu": "GELU", "relu": "ReLU"}


def activation(curve: Curve, x: float) -> float:
    """SiLU, ReLU, or GELU by its tanh approximation, as `core.exec.reference` defines them; by the
    error function GELU differs by 0.0005 at most."""
    match curve:
        case "silu":
            return x / (1.0 + math.exp(-x)) if x > -700.0 else 0.0
        case "relu":
            return max(x, 0.0)
    return 0.5 * x * (1.0 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


_AS_TRAINED = 1.0  # the temperature


def source(trace: TokenTrace, lesson: LessonState) -> Found:
    for token in trace.source:
        yield Number(("source_id", token.position), token.id, "{:.0f}")
        yield Number(("hidden", token.position), token.hidden.rms, "{:.3f}")


def cross(trace: TokenTrace, lesson: LessonState) -> Found:
    found = trace.opened.cross
    if found is None:
        return
    yield from vector_numbers("cross_query", found.head.query)
    for score in found.head.scores:
        yield Number(("cross_score", score.position), score.score, "{:+.2f}")
        yield share_number(("cross_probability", score.position), score.probability)
    yield share_number(("cross_others",), found.head.others_probability)
    yield from vector_numbers("cross_output", found.head.output)
    yield from vector_numbers("cross_attended", found.attended)


def _listed(trace: TokenTrace) -> Found:
    shares = token_shares(trace.distribution, _AS_TRAINED)
    for token, share in zip(trace.distribution.top[:LISTED], shares, strict=False):
        yield Number(("logit", token.id), token.logit, "{:.2f}")
        yield share_number(("likely", token.id), share)


def likeliest(trace: TokenTrace) -> Number:
    share = token_shares(trace.distribution, _AS_TRAINED)[0]
    return share_number(("likely", trace.distribution.top[0].id), share)


def choosing(trace: TokenTrace, lesson: LessonState) -> Found:
    yield from _listed(trace)
    shares = token_shares(trace.distribution, _AS_TRAINED)
    for token, share in zip(trace.distribution.top[:LISTED], shares, strict=False):
        yield Number(("log_likely", token.id), math.log(max(share, 1e-300)), "{:.2f}")


def filling(trace: TokenTrace, lesson: LessonState) -> Found:
    yield from _listed(trace)
    if trace.distribution.went_on is not None:
        yield Number(("rank",), trace.distribution.rank, "{:,.0f}")


def pooling(trace: TokenTrace, lesson: LessonState) -> Found:
    found = trace.pooled
    if found is None:
        return
    yield Number(("pooled_tokens",), found.count, "{:,.0f}")
    yield Number(("pooled_length",), found.length, "{:.3f}")
    yield from vector_numbers("vector", found.vector)
    if found.beside is not None:
        yield Number(("similarity",), found.similarity, "{:.3f}")


PAIRS = (0, 1, 2, 3, 5, 8, 16, 31)  # rotary pairs that are shown as hands


def numbers_of(lesson: LessonState) -> dict[Name, Number]:
    """Of the step that is shown; none while there is no trace."""
    if lesson.trace is None:
        return {}
    return {number.name: number for number in _STEPS[lesson.name](lesson.trace, lesson)}


def _tokens(trace: TokenTrace, lesson: LessonState) -> Found:
    for position, token in trace.tokens:
        yield Number(("id", position), token, "{:.0f}")
    yield from vector_numbers("row", trace.row)


def _position(trace: TokenTrace, lesson: LessonState) -> Found:
    yield Number(("position",), trace.position, "{:.0f}")
    if trace.shape.positions == "bias":
        for score in trace.opened.head.scores:
            yield Number(("bias", score.position), score.bias, "{:+.2f}")
            apart = score.position - trace.position
            yield Number(("distance", score.position), apart, "{:+.0f}" if apart else "{:.0f}")
    elif trace.shape.positions == "rotary":
        for pair in pairs_of(trace):
            yield Number(("angle", pair), angle(trace.opened.head, pair, trace), "{:.0f}°")
            if whole := turns(pair, trace):
                yield Number(("turns", pair), whole, "{:,.0f}")
    for name, vector in embedding_rows(trace):
        yield from vector_numbers(name, vector)


def embedding_rows(trace: TokenTrace) -> tuple[tuple[str, VectorPart], ...]:
    """What is added up before the first layer, and what comes of it; nothing where no position is
    added."""
    if trace.place is None:
        return ()
    rows = (
        ("row", trace.row), ("segment", trace.segment), ("place", trace.place),
        ("embedding_sum", trace.embedding_sum), ("embedded", trace.embedded),
    )  # fmt: skip
    return tuple((name, vector) for name, vector in rows if vector is not None)


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


def turns(pair: int, trace: TokenTrace) -> int:
    """Whole turns that the pair has made besides its angle; 0 where angles are scaled, so that the
    plain formula does not tell them."""
    shape, shown = trace.shape, angle(trace.opened.head, pair, trace)
    whole = math.degrees(trace.position * shape.theta ** (-2 * pair / shape.rotary_dim))
    apart = (whole - shown + 180.0) % 360.0 - 180.0
    return round((whole - shown) / 360.0) if abs(apart) < 1.0 else 0


def has_halves(trace: TokenTrace) -> bool:
    """Whether the opened layer's norm divides by the root mean square, and then multiplies."""
    return trace.shape.norm == "rms" and not trace.shape.norm_behind


def divided(trace: TokenTrace) -> VectorPart:
    """The residual by its root mean square: between the two halves of an RMS norm."""
    before = trace.opened.residual
    size = before.rms or 1.0
    return VectorPart(tuple(v / size for v in before.values), before.size, before.rms / size)


def factor(trace: TokenTrace, index: int) -> float:
    """By what an RMS norm multiplies a number besides; nan where the number is 0."""
    value = divided(trace).values[index]
    return trace.opened.normed.values[index] / value if value else math.nan


def normed_rows(trace: TokenTrace) -> tuple[tuple[str, VectorPart], tuple[str, VectorPart]]:
    """What the opened layer's norm is given, and what it gives."""
    opened = trace.opened
    if opened.summed is not None:
        return ("summed", opened.summed), ("after_attention", opened.after_attention)
    return ("residual", opened.residual), ("normed", opened.normed)


def _norm(trace: TokenTrace, lesson: LessonState) -> Found:
    (before, given), (after, made) = normed_rows(trace)
    yield from vector_numbers(before, given)
    if has_halves(trace):
        yield from vector_numbers("divided", divided(trace))
    yield from vector_numbers(after, made)


def _queries(trace: TokenTrace, lesson: LessonState) -> Found:
    head = trace.opened.head
    yield from vector_numbers("query", head.query)
    yield from vector_numbers("key", head.key)
    yield from vector_numbers("value", head.value)


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
        if trace.shape.positions == "bias":
            yield Number(("bias", score.position), score.bias, "{:+.2f}")
        yield share_number(("probability", score.position), score.probability)
        yield share_number(("unscaled", score.position), score.unscaled)
    yield share_number(("others",), head.others_probability)
    yield share_number(("others_unscaled",), head.others_unscaled)
    yield share_number(("sink",), head.sink)
    yield share_number(("sink_unscaled",), head.sink_unscaled)


def _values(trace: TokenTrace, lesson: LessonState) -> Found:
    head = trace.opened.head
    for score in head.scores:
        yield share_number(("probability", score.position), score.probability)
    yield share_number(("others",), head.others_probability)
    yield from vector_numbers("head_output", head.output)


def _output(trace: TokenTrace, lesson: LessonState) -> Found:
    for head, value in enumerate(trace.opened.head.outputs):
        yield Number(("head", head), value, "{:.3f}")
    yield from vector_numbers("attended", trace.opened.attended)
    yield from vector_numbers("residual", trace.opened.residual)
    name, vector = added_up(trace)
    yield from vector_numbers(name, vector)


def added_up(trace: TokenTrace) -> tuple[str, VectorPart]:
    """The residual with what attention adds."""
    opened = trace.opened
    if opened.summed is not None:
        return "summed", opened.summed
    return "after_attention", opened.after_attention


def _neurons(trace: TokenTrace, lesson: LessonState) -> Found:
    found = trace.opened.feed_forward
    for neuron in found.neurons:
        yield Number(("neuron", neuron.index), neuron.value, "{:+.2f}")
        yield Number(("up", neuron.index), neuron.up, "{:+.2f}")
        if trace.shape.gate != "none" and not math.isnan(neuron.gate):
            yield Number(("gate", neuron.index), neuron.gate, "{:+.2f}")
            opened = activation(trace.shape.curve, neuron.gate)
            yield Number(("curved", neuron.index), opened, "{:+.2f}")
    yield Number(("strong",), found.strong, "{:,.0f}")
    yield Number(("neurons",), found.size, "{:,.0f}")
    yield from vector_numbers("ff_output", found.output)


def _residual(trace: TokenTrace, lesson: LessonState) -> Found:
    yield from vector_numbers("embedded", trace.embedded)
    for layer, growth in enumerate(trace.growth):
        yield Number(("residual", layer), growth.residual, "{:.2f}")
        yield Number(("attention", layer), growth.attention, "{:.2f}")
        yield Number(("feed_forward", layer), growth.feed_forward, "{:.2f}")
        if trace.shape.path == "encoder_decoder":
            yield Number(("cross", layer), growth.cross, "{:.2f}")


def _sampling(trace: TokenTrace, lesson: LessonState) -> Found:
    found = sampled(trace.distribution, lesson.temperature, lesson.top_p, lesson.draws)
    yield Number(("temperature",), lesson.temperature, "{:.1f}")
    yield Number(("top_p",), lesson.top_p, "{:.2f}")
    for index, token in enumerate(trace.distribution.top[:LISTED]):
        yield Number(("logit", token.id), token.logit, "{:.2f}")
        yield share_number(("share", token.id), found.shares[index])
        if index < found.kept:
            yield share_number(("kept_share", token.id), found.kept_share(index))
    yield _kept(found)
    yield Number(("drawn",), found.draw, "{:.3f}")
    if trace.distribution.rank > LISTED:
        yield Number(("rank",), trace.distribution.rank, "{:,.0f}")


def _kept(found: Sampled) -> Number:
    """Tokens that top-p leaves; where they are more than are known, at least so many."""
    return Number(("kept",), found.kept, "{:,.0f}" if found.complete else "> {:,.0f}")


def _cache(trace: TokenTrace, lesson: LessonState) -> Found:
    found = sampled(trace.distribution, lesson.temperature, lesson.top_p, lesson.draws)
    shape = trace.shape
    if shape.path == "encoder_decoder":
        yield likeliest(trace)
    elif found.chosen is not None:
        yield share_number(("chosen_share",), found.kept_share(found.chosen))
    yield Number(("length",), trace.position + 1, "{:,.0f}")
    yield Number(("grown",), trace.position + 2, "{:,.0f}")
    yield Number(("position_bytes",), shape.cache_bytes, "size")
    yield Number(("cache_values",), shape.cache_values, "{:,.0f}")
    yield Number(("cache_bytes",), shape.cache_bytes * (trace.position + 2), "size")
    yield Number(("context",), shape.context, "{:,.0f}")
    yield from vector_numbers("key", trace.opened.head.key)
    yield from vector_numbers("value", trace.opened.head.value)


def _summary(trace: TokenTrace, lesson: LessonState) -> Found:
    for position, token in trace.tokens:
        yield Number(("id", position), token, "{:.0f}")
    found = sampled(trace.distribution, lesson.temperature, lesson.top_p, lesson.draws)
    for likely, share in zip(trace.distribution.top[:LISTED], found.shares, strict=False):
        yield share_number(("share", likely.id), share)


_STEPS: dict[StepName, Callable[[TokenTrace, LessonState], Found]] = {
    "source": source,
    "tokens": _tokens,
    "position": _position,
    "norm": _norm,
    "queries": _queries,
    "scores": _scores,
    "softmax": _softmax,
    "values": _values,
    "output": _output,
    "cross": cross,
    "neurons": _neurons,
    "residual": _residual,
    "sampling": _sampling,
    "choosing": choosing,
    "filling": filling,
    "pooling": pooling,
    "cache": _cache,
    "summary": _summary,
}
