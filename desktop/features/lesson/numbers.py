"""Every number that the lesson shows, by name: it is read off the trace here and nowhere else. A
name is a tuple, as ("query", 3): what it is, and which. The view writes numbers by their names
only, so a test compares all that a person can read with the reference executor."""

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
from llm_lite.desktop.features.lesson.state import LessonPage, StepName
from llm_lite.desktop.language.units import size

Name = tuple[str | int, ...]
WRITTEN_VALUES = 8  # first values of a vector that are written out
LISTED_TOKENS = 10  # tokens that may follow


class Number(Struct, frozen=True):
    name: Name
    value: float
    form: str = "{:+.3f}"

    @property
    def text(self) -> str:
        """Return the number as it is written: with a real minus sign, and without one before
        zero."""
        if self.form == "size":
            return size(int(self.value))
        text = self.form.format(self.value)
        if not text.strip("+-0.%°"):
            text = text.replace("-", "+")
        return text.replace("-", "−")


Numbers = Iterator[Number]


def vector_numbers(name: str, vector: VectorPart, count: int = WRITTEN_VALUES) -> Numbers:
    for index, value in enumerate(vector.values[:count]):
        yield Number((name, index), value)
    yield Number((name, "rms"), vector.rms, "{:.3f}")


def percentage(name: Name, value: float) -> Number:
    return Number(name, 100 * value, "{:.1f}%")


_GOLDEN = 0.6180339887498949  # steps of a sequence that spreads evenly over 0..1


class SampledToken(Struct, frozen=True):
    """The distribution at the set temperature and top-p, and the token that is sampled from it."""

    shares: tuple[float, ...]
    kept: int
    complete: bool
    whole: float
    draw: float  # 0..1
    chosen: int | None  # which of `top`; None: a rarer token

    def kept_share(self, index: int) -> float:
        """Return the probability of a token among those that are kept."""
        return self.shares[index] / self.whole


def token_shares(distribution: Distribution, temperature: float) -> tuple[float, ...]:
    """Return the probabilities of `top` at a temperature of TEMPERATURES; what they lack to 1
    belongs to the tail. ValueError at another temperature."""
    largest = distribution.top[0].logit
    weights = [math.exp((token.logit - largest) / temperature) for token in distribution.top]
    whole = math.fsum(weights) + distribution.tails[TEMPERATURES.index(temperature)]
    return tuple(weight / whole for weight in weights)


@lru_cache(maxsize=32)
def sample_token(
    distribution: Distribution, temperature: float, top_p: float, draws: int
) -> SampledToken:
    """Return the token that the draw number `draws` gives."""
    shares = token_shares(distribution, temperature)
    sums = list(accumulate(shares))
    kept = 1 + sum(total < top_p for total in sums[:-1])
    complete = sums[kept - 1] >= top_p or len(shares) > kept
    draw = (0.5 + draws * _GOLDEN) % 1.0
    whole = sums[kept - 1] if complete else top_p  # tokens that are not known are tiny steps
    mark = draw * whole
    chosen = next((i for i in range(kept) if mark < sums[i]), kept - 1 if complete else None)
    return SampledToken(shares, kept, complete, whole, draw, chosen)


ACTIVATION_NAMES: dict[Curve, str] = {"silu": "SiLU", "gelu": "GELU", "relu": "ReLU"}


def activation(curve: Curve, x: float) -> float:
    """Return SiLU, ReLU, or GELU by its tanh approximation, as `core.exec.reference` defines them;
    GELU by the error function differs by 0.0005 at most."""
    match curve:
        case "silu":
            return x / (1.0 + math.exp(-x)) if x > -700.0 else 0.0
        case "relu":
            return max(x, 0.0)
    return 0.5 * x * (1.0 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


_AS_TRAINED = 1.0  # the temperature


def _source(trace: TokenTrace, lesson: LessonPage) -> Numbers:
    for token in trace.source:
        yield Number(("source_id", token.position), token.id, "{:.0f}")
        yield Number(("hidden", token.position), token.hidden.rms, "{:.3f}")


def _cross(trace: TokenTrace, lesson: LessonPage) -> Numbers:
    found = trace.opened.cross
    if found is None:
        return
    yield from vector_numbers("cross_query", found.head.query)
    for score in found.head.scores:
        yield Number(("cross_score", score.position), score.score, "{:+.2f}")
        yield percentage(("cross_probability", score.position), score.probability)
    yield percentage(("cross_others",), found.head.others_probability)
    yield from vector_numbers("cross_output", found.head.output)
    yield from vector_numbers("cross_attended", found.attended)


def _likely_tokens(trace: TokenTrace) -> Numbers:
    shares = token_shares(trace.distribution, _AS_TRAINED)
    for token, share in zip(trace.distribution.top[:LISTED_TOKENS], shares, strict=False):
        yield Number(("logit", token.id), token.logit, "{:.2f}")
        yield percentage(("likely", token.id), share)


def _likeliest(trace: TokenTrace) -> Number:
    share = token_shares(trace.distribution, _AS_TRAINED)[0]
    return percentage(("likely", trace.distribution.top[0].id), share)


def _choosing(trace: TokenTrace, lesson: LessonPage) -> Numbers:
    yield from _likely_tokens(trace)
    shares = token_shares(trace.distribution, _AS_TRAINED)
    for token, share in zip(trace.distribution.top[:LISTED_TOKENS], shares, strict=False):
        yield Number(("log_likely", token.id), math.log(max(share, 1e-300)), "{:.2f}")


def _filling(trace: TokenTrace, lesson: LessonPage) -> Numbers:
    yield from _likely_tokens(trace)
    if trace.distribution.went_on is not None:
        yield Number(("rank",), trace.distribution.rank, "{:,.0f}")


def _pooling(trace: TokenTrace, lesson: LessonPage) -> Numbers:
    found = trace.pooled
    if found is None:
        return
    yield Number(("pooled_tokens",), found.count, "{:,.0f}")
    yield Number(("pooled_length",), found.length, "{:.3f}")
    yield from vector_numbers("vector", found.vector)
    if found.beside is not None:
        yield Number(("similarity",), found.similarity, "{:.3f}")


PAIRS = (0, 1, 2, 3, 5, 8, 16, 31)  # rotary pairs that are shown as hands


def numbers_of(lesson: LessonPage) -> dict[Name, Number]:
    """Return the numbers of the step that is shown; none while there is no trace."""
    if lesson.trace is None:
        return {}
    return {number.name: number for number in _STEPS[lesson.step_name](lesson.trace, lesson)}


def _tokens(trace: TokenTrace, lesson: LessonPage) -> Numbers:
    for position, token in trace.tokens:
        yield Number(("id", position), token, "{:.0f}")
    yield from vector_numbers("row", trace.row)


def _position(trace: TokenTrace, lesson: LessonPage) -> Numbers:
    yield Number(("position",), trace.position, "{:.0f}")
    if trace.shape.positions == "bias":
        for score in trace.opened.head.scores:
            yield Number(("bias", score.position), score.bias, "{:+.2f}")
            apart = score.position - trace.position
            yield Number(("distance", score.position), apart, "{:+.0f}" if apart else "{:.0f}")
    elif trace.shape.positions == "rotary":
        for pair in shown_pairs(trace):
            yield Number(("angle", pair), angle(trace.opened.head, pair, trace), "{:.0f}°")
            if whole := full_turns(pair, trace):
                yield Number(("turns", pair), whole, "{:,.0f}")
    for name, vector in embedding_rows(trace):
        yield from vector_numbers(name, vector)


def embedding_rows(trace: TokenTrace) -> tuple[tuple[str, VectorPart], ...]:
    """Return the rows that are added up before the first layer, and their sum, if there are any."""
    if trace.place is None:
        return ()
    rows = (
        ("row", trace.row), ("segment", trace.segment), ("place", trace.place),
        ("embedding_sum", trace.embedding_sum), ("embedded", trace.embedded),
    )  # fmt: skip
    return tuple((name, vector) for name, vector in rows if vector is not None)


def shown_pairs(trace: TokenTrace) -> tuple[int, ...]:
    """Return the rotary pairs that are shown."""
    first, second = pair_layout(trace)
    known = len(trace.opened.head.query.values)
    return tuple(p for p in PAIRS if p * first[1] + first[0] < known and _second(p, second) < known)


def pair_layout(trace: TokenTrace) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return (offset, stride) of the first and of the second value of each pair."""
    shape = trace.shape
    if shape.half_split:
        return (0, 1), (shape.rotary_dim // 2, 1)
    return (0, 2), (1, 2)


def _second(pair: int, place: tuple[int, int]) -> int:
    return place[0] + pair * place[1]


def pair_values(vector: VectorPart, pair: int, trace: TokenTrace) -> tuple[float, float]:
    """Return both values of a rotary pair."""
    first, second = pair_layout(trace)
    return vector.values[_second(pair, first)], vector.values[_second(pair, second)]


def angle(head: HeadTrace, pair: int, trace: TokenTrace) -> float:
    """Return by how many degrees the token's position rotated the pair, 0..360."""
    (a, b), (c, d) = (pair_values(v, pair, trace) for v in (head.query_raw, head.query))
    return math.degrees(math.atan2(a * d - b * c, a * c + b * d)) % 360.0


def full_turns(pair: int, trace: TokenTrace) -> int:
    """Return the full turns of the pair besides its angle; 0 where angles are scaled, so that the
    plain formula does not give them."""
    shape, text = trace.shape, angle(trace.opened.head, pair, trace)
    whole = math.degrees(trace.position * shape.theta ** (-2 * pair / shape.rotary_dim))
    apart = (whole - text + 180.0) % 360.0 - 180.0
    return round((whole - text) / 360.0) if abs(apart) < 1.0 else 0


def shows_division(trace: TokenTrace) -> bool:
    """Return whether the opened layer's norm divides by the RMS, and then multiplies."""
    return trace.shape.norm == "rms" and not trace.shape.norm_behind


def divided_residual(trace: TokenTrace) -> VectorPart:
    """Return the residual divided by its RMS, between both halves of an RMS norm."""
    before = trace.opened.residual
    size = before.rms or 1.0
    return VectorPart(tuple(v / size for v in before.values), before.size, before.rms / size)


def norm_weight(trace: TokenTrace, index: int) -> float:
    """Return the weight by which an RMS norm multiplies a number; nan where the number is 0."""
    value = divided_residual(trace).values[index]
    return trace.opened.normed.values[index] / value if value else math.nan


def norm_input_output(trace: TokenTrace) -> tuple[tuple[str, VectorPart], tuple[str, VectorPart]]:
    """Return names and vectors of the input and the output of the opened layer's norm."""
    opened = trace.opened
    if opened.summed is not None:
        return ("summed", opened.summed), ("after_attention", opened.after_attention)
    return ("residual", opened.residual), ("normed", opened.normed)


def _norm(trace: TokenTrace, lesson: LessonPage) -> Numbers:
    (before, given), (after, made) = norm_input_output(trace)
    yield from vector_numbers(before, given)
    if shows_division(trace):
        yield from vector_numbers("divided", divided_residual(trace))
    yield from vector_numbers(after, made)


def _queries(trace: TokenTrace, lesson: LessonPage) -> Numbers:
    head = trace.opened.head
    yield from vector_numbers("query", head.query)
    yield from vector_numbers("key", head.key)
    yield from vector_numbers("value", head.value)


def _scores(trace: TokenTrace, lesson: LessonPage) -> Numbers:
    for score in trace.opened.head.scores:
        yield Number(("dot", score.position), score.dot, "{:+.2f}")
        yield Number(("sum", score.position), score.dot, "{:+.2f}")


def _softmax(trace: TokenTrace, lesson: LessonPage) -> Numbers:
    head = trace.opened.head
    yield Number(("scale",), trace.shape.scale, "{:.4f}")
    for score in head.scores:
        yield Number(("dot", score.position), score.dot, "{:+.2f}")
        yield Number(("score", score.position), score.score, "{:+.2f}")
        if trace.shape.positions == "bias":
            yield Number(("bias", score.position), score.bias, "{:+.2f}")
        yield percentage(("probability", score.position), score.probability)
        yield percentage(("unscaled", score.position), score.unscaled)
    yield percentage(("others",), head.others_probability)
    yield percentage(("others_unscaled",), head.others_unscaled)
    yield percentage(("sink",), head.sink)
    yield percentage(("sink_unscaled",), head.sink_unscaled)


def _values(trace: TokenTrace, lesson: LessonPage) -> Numbers:
    head = trace.opened.head
    for score in head.scores:
        yield percentage(("probability", score.position), score.probability)
    yield percentage(("others",), head.others_probability)
    yield from vector_numbers("head_output", head.output)


def _output(trace: TokenTrace, lesson: LessonPage) -> Numbers:
    for head, value in enumerate(trace.opened.head.outputs):
        yield Number(("head", head), value, "{:.3f}")
    yield from vector_numbers("attended", trace.opened.attended)
    yield from vector_numbers("residual", trace.opened.residual)
    name, vector = residual_sum(trace)
    yield from vector_numbers(name, vector)


def residual_sum(trace: TokenTrace) -> tuple[str, VectorPart]:
    """Return the name and the vector of the residual with what attention adds."""
    opened = trace.opened
    if opened.summed is not None:
        return "summed", opened.summed
    return "after_attention", opened.after_attention


def _neurons(trace: TokenTrace, lesson: LessonPage) -> Numbers:
    found = trace.opened.feed_forward
    for neuron in found.neurons:
        yield Number(("neuron", neuron.index), neuron.value, "{:+.2f}")
        yield Number(("up", neuron.index), neuron.up, "{:+.2f}")
        if trace.shape.gate != "none" and neuron.gate is not None:
            yield Number(("gate", neuron.index), neuron.gate, "{:+.2f}")
            opened = activation(trace.shape.curve, neuron.gate)
            yield Number(("curved", neuron.index), opened, "{:+.2f}")
    yield Number(("strong",), found.strong, "{:,.0f}")
    yield Number(("neurons",), found.size, "{:,.0f}")
    yield from vector_numbers("ff_output", found.output)


def _residual(trace: TokenTrace, lesson: LessonPage) -> Numbers:
    yield from vector_numbers("embedded", trace.embedded)
    for layer, growth in enumerate(trace.growth):
        yield Number(("residual", layer), growth.residual, "{:.2f}")
        yield Number(("attention", layer), growth.attention, "{:.2f}")
        yield Number(("feed_forward", layer), growth.feed_forward, "{:.2f}")
        if trace.shape.path == "encoder_decoder":
            yield Number(("cross", layer), growth.cross, "{:.2f}")


def _sampling(trace: TokenTrace, lesson: LessonPage) -> Numbers:
    found = sample_token(trace.distribution, lesson.temperature, lesson.top_p, lesson.draws)
    yield Number(("temperature",), lesson.temperature, "{:.1f}")
    yield Number(("top_p",), lesson.top_p, "{:.2f}")
    for index, token in enumerate(trace.distribution.top[:LISTED_TOKENS]):
        yield Number(("logit", token.id), token.logit, "{:.2f}")
        yield percentage(("share", token.id), found.shares[index])
        if index < found.kept:
            yield percentage(("kept_share", token.id), found.kept_share(index))
    yield _kept(found)
    yield Number(("drawn",), found.draw, "{:.3f}")
    if trace.distribution.rank > LISTED_TOKENS:
        yield Number(("rank",), trace.distribution.rank, "{:,.0f}")


def _kept(found: SampledToken) -> Number:
    """Return how many tokens top-p leaves; at least so many where not all of them are known."""
    return Number(("kept",), found.kept, "{:,.0f}" if found.complete else "> {:,.0f}")


def _cache(trace: TokenTrace, lesson: LessonPage) -> Numbers:
    found = sample_token(trace.distribution, lesson.temperature, lesson.top_p, lesson.draws)
    shape = trace.shape
    if shape.path == "encoder_decoder":
        yield _likeliest(trace)
    elif found.chosen is not None:
        yield percentage(("chosen_share",), found.kept_share(found.chosen))
    yield Number(("length",), trace.position + 1, "{:,.0f}")
    yield Number(("grown",), trace.position + 2, "{:,.0f}")
    yield Number(("position_bytes",), shape.cache_bytes, "size")
    yield Number(("cache_values",), shape.cache_values, "{:,.0f}")
    yield Number(("cache_bytes",), shape.cache_bytes * (trace.position + 2), "size")
    yield Number(("context",), shape.context, "{:,.0f}")
    yield from vector_numbers("key", trace.opened.head.key)
    yield from vector_numbers("value", trace.opened.head.value)


def _summary(trace: TokenTrace, lesson: LessonPage) -> Numbers:
    for position, token in trace.tokens:
        yield Number(("id", position), token, "{:.0f}")
    found = sample_token(trace.distribution, lesson.temperature, lesson.top_p, lesson.draws)
    for likely, share in zip(trace.distribution.top[:LISTED_TOKENS], found.shares, strict=False):
        yield percentage(("share", likely.id), share)


_STEPS: dict[StepName, Callable[[TokenTrace, LessonPage], Numbers]] = {
    "source": _source,
    "tokens": _tokens,
    "position": _position,
    "norm": _norm,
    "queries": _queries,
    "scores": _scores,
    "softmax": _softmax,
    "values": _values,
    "output": _output,
    "cross": _cross,
    "neurons": _neurons,
    "residual": _residual,
    "sampling": _sampling,
    "choosing": _choosing,
    "filling": _filling,
    "pooling": _pooling,
    "cache": _cache,
    "summary": _summary,
}
