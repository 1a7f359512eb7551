"""How fast tokens came, for the plot: points of every answer from its first token to its last."""

from __future__ import annotations

from dataclasses import replace

from llm_lite.core.messages import GenerationStats, TargetFinished
from llm_lite.desktop.state.state import (
    AppState,
    RateSample,
    Running,
)

RATE_SAMPLES = 1200
RATE_PERIOD = 0.1  # seconds between two points of the plot


def sampled(state: AppState, rate: float, step_ms: float, now: float) -> AppState:
    """With a point for the answer that is written, at most one a RATE_PERIOD; its first one counts
    from the first token on, so there the line begins."""
    running = state.running
    if running is None or not rate:
        return state
    last = state.rates[-1] if state.rates else None
    known = last is not None and last.answer == running.request
    if last is not None and known and not step_ms:  # drafts that came: the pass before brought them
        step_ms = last.step_ms
    if last is not None and known and now - last.time < RATE_PERIOD:
        return state
    points = [RateSample(now, rate, step_ms, running.request)]
    if not known and running.first_token is not None:
        points.insert(0, replace(points[0], time=running.first_token))
    return replace(state, rates=_kept((*state.rates, *points)))


def completed(state: AppState, running: Running, stats: GenerationStats) -> AppState:
    """With what is still missing of an answer that has ended: its last point, or, of a short one,
    its mean from the first token to the last."""
    if running.first_token is None or running.heard is None or running.heard <= running.first_token:
        return state
    last = state.rates[-1] if state.rates else None
    if last is not None and last.answer == running.request:
        if running.heard <= last.time or not running.rate:
            return state
        points = (replace(last, time=running.heard, rate=running.rate),)
        return replace(state, rates=_kept((*state.rates, *points)))
    rate = stats.decode_tok_s
    if rate <= 0 or stats.new_tokens < 2:
        return state
    ends = (running.first_token, running.heard)
    mean = tuple(RateSample(at, rate, 1e3 / rate, running.request) for at in ends)
    return replace(state, rates=_kept((*state.rates, *mean)))


def of_target(state: AppState, finished: TargetFinished, now: float) -> AppState:
    """With the mean of a target's steps, from its first token to its last."""
    stats = finished.stats
    if stats.new_tokens < 2 or stats.tokens_per_s <= 0:
        return state
    each = 1e3 / stats.tokens_per_s
    ends = (now - stats.decode_ms / 1e3, now)
    mean = tuple(RateSample(at, stats.tokens_per_s, each, finished.request) for at in ends)
    return replace(state, rates=_kept((*state.rates, *mean)))


def _kept(points: tuple[RateSample, ...]) -> tuple[RateSample, ...]:
    """At most RATE_SAMPLES: old answers go whole; of a long one every second point does."""
    while len(points) > RATE_SAMPLES:
        newest = points[-1].answer
        first = points[0].answer
        if first != newest:
            points = tuple(point for point in points if point.answer != first)
        else:
            points = (*points[:-1:2], points[-1])
    return points
