"""Actions on the key and value cache, and what events of the engine change of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llm_lite.core.messages import (
    CacheMeasured,
    CacheStatus,
    Ended,
    Event,
    Measure,
    MeasureCache,
    Overflow,
)
from llm_lite.core.records import replace
from llm_lite.desktop.features.cache import state as cache_state
from llm_lite.desktop.features.cache.state import ColorBy
from llm_lite.desktop.features.program.action import Action, HostAction
from llm_lite.desktop.features.program.requests import Result
from llm_lite.desktop.features.program.state import AppState


class ColorCache(Action, frozen=True):
    """Choose what colours show, and whether columns are places in memory."""

    by: ColorBy
    slots: bool


class PointAt(Action, frozen=True):
    """Point at a position, which is then shown wherever its token is; None ends that."""

    position: int | None


class AskMeasure(Action, frozen=True):
    """Measure what is not known yet of the cache."""

    what: Measure


class SetOverflow(Action, frozen=True):
    overflow: Overflow


class AskFreeMemory(HostAction, frozen=True):
    """Find out how much memory the machine has free; the program does it."""


def color(action: ColorCache, state: AppState, now: float) -> Result:
    cache = replace(state.cache, by=action.by, slots=action.slots)
    if action.by != state.cache.by:
        cache = replace(cache, measured=None, asked=None, problem="")
    return replace(state, cache=cache), ()


def point(action: PointAt, state: AppState, now: float) -> Result:
    return replace(state, cache=replace(state.cache, pointed=action.position)), ()


def measure(action: AskMeasure, state: AppState, now: float) -> Result:
    """Ask for norms of the positions that are new, or for what all positions receive."""
    cache, length = state.cache, len(state.owners)
    known = cache.measured
    first = 0
    if known is not None and known.what == action.what and action.what != "received":
        first = known.values.shape[1]
    if cache.asked or state.model is None or first >= length:
        return state, ()
    asked = MeasureCache(action.what, first, min(length, state.context_used))
    return replace(state, cache=replace(cache, asked=asked)), (asked,)


def set_overflow(action: SetOverflow, state: AppState, now: float) -> Result:
    return replace(state, overflow=action.overflow), ()


HANDLERS: dict[type[Any], Callable[[Any, AppState, float], Result]] = {
    ColorCache: color,
    PointAt: point,
    AskMeasure: measure,
    SetOverflow: set_overflow,
}


def _cache_status(event: CacheStatus, state: AppState, now: float) -> AppState:
    state = replace(state, cache=replace(state.cache, status=event))
    if state.busy:
        return state
    if state.writes_targets:
        length = event.length if state.translating.asked else 0
        return replace(state, owners=state.owners[:length], context_used=length)
    # What else the cache holds is not of the conversation in front.
    owners = state.owners[: event.length]
    return replace(state, owners=owners, context_used=len(owners))


def _measure_replied(event: Event, asked: MeasureCache, state: AppState, now: float) -> AppState:
    cache = state.cache
    if asked is not cache.asked:
        return state
    if isinstance(event, CacheMeasured):
        return replace(state, cache=cache_state.measured(cache, event))
    problem = event.failure if isinstance(event, Ended) else ""
    return replace(state, cache=replace(cache, asked=None, problem=problem))


EVENTS: dict[type[Any], Callable[[Any, AppState, float], AppState]] = {
    CacheStatus: _cache_status,
}
REPLIES: dict[type[Any], Callable[[Event, Any, AppState, float], AppState]] = {
    MeasureCache: _measure_replied,
}
