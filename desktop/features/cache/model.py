"""What a person does with the key and value cache, as pure functions of the state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llm_lite.core.messages import Measure, MeasureCache, Overflow
from llm_lite.core.records import replace
from llm_lite.desktop.features.cache.state import ColorBy
from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.requests import Result
from llm_lite.desktop.features.program.state import AppState


class ColorCache(Action, frozen=True):
    """How the cache is drawn: what colours say, and whether columns are places in memory."""

    by: ColorBy
    slots: bool


class PointAt(Action, frozen=True):
    """The position under the pointer, to be shown wherever its token is; None: no longer."""

    position: int | None


class AskMeasure(Action, frozen=True):
    """Measure what is not known yet of the cache."""

    what: Measure


class SetOverflow(Action, frozen=True):
    overflow: Overflow


class AskFreeMemory(Action, frozen=True):
    """Find out how much memory the machine has free; the program does it."""


def color(action: ColorCache, state: AppState, now: float) -> Result:
    cache = replace(state.cache, by=action.by, slots=action.slots)
    if action.by != state.cache.by:
        cache = replace(cache, measured=None, request=0, problem="")
    return replace(state, cache=cache), ()


def point(action: PointAt, state: AppState, now: float) -> Result:
    return replace(state, cache=replace(state.cache, pointed=action.position)), ()


def measure(action: AskMeasure, state: AppState, now: float) -> Result:
    """Norms of the positions that are new; what each receives, of all."""
    cache, length = state.cache, len(state.owners)
    known = cache.measured
    first = 0
    if known is not None and known.what == action.what and action.what != "received":
        first = known.values.shape[1]
    if cache.request or state.model is None or first >= length:
        return state, ()
    request = state.next_step_request
    asked = MeasureCache(request, action.what, first, min(length, state.context_used))
    state = replace(state, next_step_request=request + 1, cache=replace(cache, request=request))
    return state, (asked,)


def set_overflow(action: SetOverflow, state: AppState, now: float) -> Result:
    return replace(state, overflow=action.overflow), ()


def nothing(action: AskFreeMemory, state: AppState, now: float) -> Result:
    return state, ()


HANDLERS: dict[type[Any], Callable[[Any, AppState, float], Result]] = {
    ColorCache: color,
    PointAt: point,
    AskMeasure: measure,
    SetOverflow: set_overflow,
    AskFreeMemory: nothing,
}
