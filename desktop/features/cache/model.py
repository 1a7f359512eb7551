"""Actions on the key and value cache, and what events of the engine change of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from llm_lite.core.messages import (
    CacheMeasured,
    CacheStatus,
    MeasureCache,
    Overflow,
)
from llm_lite.core.records import replace
from llm_lite.desktop.features.cache.state import ColorBy, MeasuredCache
from llm_lite.desktop.features.program.action import Action, HostAction
from llm_lite.desktop.features.program.asking import Extent, Slot
from llm_lite.desktop.features.program.requests import Result
from llm_lite.desktop.features.program.state import AppState


def extent(question: MeasureCache) -> Extent:
    """Return the tokens that a measurement depends on: what a token receives needs all that look
    back at it."""
    return "all" if question.what == "received" or question.last is None else question.last


def _joined(
    known: MeasuredCache | None, event: CacheMeasured, question: MeasureCache
) -> MeasuredCache | None:
    """Return a measurement behind what was known of the positions before; None where that is
    missing: all is asked again."""
    values = np.array(event.values, np.float32).reshape(len(event.values), -1)
    if event.first and (known is None or known.what != event.what):
        return None
    if event.first and known is not None:
        values = np.concatenate([known.values[:, : event.first], values], axis=1)
    return MeasuredCache(event.what, values)


MEASURE: Slot[MeasuredCache] = Slot(
    "measure", MeasureCache, CacheMeasured, extent, join=_joined, recorded=True
)


def measured(state: AppState) -> MeasuredCache | None:
    """Return the measurement that the colours show, once there is one."""
    known = MEASURE.answer(state)
    return known if known is not None and known.what == state.cache.by else None


def measured_positions(state: AppState) -> int:
    """Return how many first positions were measured for the colours that are shown."""
    known = measured(state)
    return known.values.shape[1] if known is not None else 0


def problem(state: AppState) -> str:
    """Return why there is no measurement for the colours that are shown; "" where there is one."""
    known = MEASURE.answered(state)
    if known is None or not isinstance(known.question, MeasureCache):
        return ""
    return known.problem if known.question.what == state.cache.by else ""


class ColorCache(Action, frozen=True):
    """Choose what colours show, and whether columns are places in memory."""

    by: ColorBy
    slots: bool


class PointAt(Action, frozen=True):
    """Point at a position, which is then shown wherever its token is; None ends that."""

    position: int | None


class SetOverflow(Action, frozen=True):
    overflow: Overflow


class AskFreeMemory(HostAction, frozen=True):
    """Find out how much memory the machine has free; the program does it."""


def color(action: ColorCache, state: AppState, now: float) -> Result:
    return replace(state, cache=replace(state.cache, by=action.by, slots=action.slots)), ()


def point(action: PointAt, state: AppState, now: float) -> Result:
    return replace(state, cache=replace(state.cache, pointed=action.position)), ()


def set_overflow(action: SetOverflow, state: AppState, now: float) -> Result:
    return replace(state, overflow=action.overflow), ()


HANDLERS: dict[type[Any], Callable[[Any, AppState, float], Result]] = {
    ColorCache: color,
    PointAt: point,
    SetOverflow: set_overflow,
}


def _cache_status(event: CacheStatus, state: AppState, now: float) -> AppState:
    state = replace(state, cache=replace(state.cache, status=event))
    if state.busy or state.encodes:
        return state
    cached = state.cached
    used = event.length if state.holds_conversations else min(event.length, len(cached.owners))
    if used < len(cached.owners) and state.holds_conversations:
        # The last token of an answer is not computed; others lack.
        is_cut = cached.is_cut or used < len(cached.owners) - 1
        cached = replace(cached.first(used), is_cut=is_cut)
    known = min(used, len(cached.owners))
    cached = cached.computed_to(known)
    return replace(state, cached=replace(cached, unknown=used - known, is_known=True))


EVENTS: dict[type[Any], Callable[[Any, AppState, float], AppState]] = {
    CacheStatus: _cache_status,
}
