"""Measures of speed for the plot: an answer is cut into short spans of time, from its first token
to its last, each with the tokens that came in it."""

from __future__ import annotations

from collections.abc import Sequence

from llm_lite.core.messages import GenerationStats, TargetFinished
from llm_lite.core.records import replace
from llm_lite.desktop.features.program.state import (
    AppState,
    Running,
)
from llm_lite.desktop.features.quantization.state import RateSample

RATE_SAMPLES = 1200
RATE_PERIOD = 0.2  # seconds of a span at least


def sampled(state: AppState, count: int, step_ms: float, now: float) -> AppState:
    """Add `count` tokens behind the first that came now, for which the model's steps took
    `step_ms`. The last span grows until it is RATE_PERIOD long; the next one begins where it
    ended."""
    running = state.running
    if running is None or running.first_token is None or not count:
        return state
    if now <= running.first_token:
        return state
    last = _last(state.rates, running.started)
    if last is not None and (last.time - last.begin < RATE_PERIOD or now <= last.time):
        tokens, taken = last.tokens + count, last.step_ms + step_ms
        grown = replace(last, time=max(now, last.time), tokens=tokens, step_ms=taken)
        return replace(state, rates=(*state.rates[:-1], grown))
    begin = running.first_token if last is None else last.time
    span = RateSample(begin, now, count, step_ms, running.started)
    return replace(state, rates=_kept((*state.rates, span)))


def _last(rates: Sequence[RateSample], answer: float) -> RateSample | None:
    return rates[-1] if rates and rates[-1].answer == answer else None


def completed(state: AppState, running: Running, stats: GenerationStats) -> AppState:
    """Close the spans of an answer that has ended. A short rest joins the span before it; an answer
    of one span, or that the window heard of all at once, has the engine's mean."""
    first, rate, rates = running.first_token, stats.decode_tok_s, state.rates
    last = _last(rates, running.started)
    before = _last(rates[:-1], running.started) if last is not None else None
    if last is not None and before is not None:
        last = _ended(last, next(one for one in rates if one.answer == last.answer), stats)
        if last.time - last.begin >= RATE_PERIOD:
            return replace(state, rates=(*rates[:-1], last))
        return replace(state, rates=(*rates[:-2], _joined(before, last)))
    if first is None or rate <= 0 or stats.new_tokens < 2:
        return state
    behind = stats.new_tokens - 1
    step_ms = last.token_step_ms * behind if last is not None else 0.0
    mean = RateSample(first, first + behind / rate, behind, step_ms, running.started)
    return replace(state, rates=_kept((*(rates if last is None else rates[:-1]), mean)))


def _ended(last: RateSample, first: RateSample, stats: GenerationStats) -> RateSample:
    """Return the last span as long as the engine took: a busy window hears of its end later."""
    if stats.decode_tok_s <= 0:
        return last
    end = first.begin + (stats.new_tokens - 1) / stats.decode_tok_s
    return replace(last, time=end) if last.begin < end < last.time else last


def of_target(state: AppState, finished: TargetFinished, now: float) -> AppState:
    """Add the mean of a target's steps, from its first token to its last."""
    stats = finished.stats
    if stats.new_tokens < 2 or stats.tokens_per_s <= 0 or stats.decode_ms <= 0:
        return state
    begin = now - stats.decode_ms / 1e3
    behind = max(1, round(stats.tokens_per_s * stats.decode_ms / 1e3))
    mean = RateSample(begin, now, behind, stats.decode_ms, state.translating.began)
    return replace(state, rates=_kept((*state.rates, mean)))


def _kept(spans: tuple[RateSample, ...]) -> tuple[RateSample, ...]:
    """Keep at most RATE_SAMPLES: old answers go whole; of a long one every two spans become one."""
    while len(spans) > RATE_SAMPLES:
        newest = spans[-1].answer
        if spans[0].answer != newest:
            first = spans[0].answer
            spans = tuple(span for span in spans if span.answer != first)
        else:
            pairs = zip(spans[:-1:2], spans[1::2], strict=True)
            rest = spans[-1:] if len(spans) % 2 else ()
            spans = (*(_joined(one, other) for one, other in pairs), *rest)
    return spans


def _joined(one: RateSample, other: RateSample) -> RateSample:
    tokens, step_ms = one.tokens + other.tokens, one.step_ms + other.step_ms
    return RateSample(one.begin, other.time, tokens, step_ms, one.answer)
