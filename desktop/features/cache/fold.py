"""What the engine says of its cache, folded into the state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llm_lite.core.messages import CacheMeasured, CacheStatus
from llm_lite.core.records import replace
from llm_lite.desktop.features.cache import state as cache_state
from llm_lite.desktop.features.program.state import AppState


def _cache_status(event: CacheStatus, state: AppState, now: float) -> AppState:
    state = replace(state, cache=replace(state.cache, status=event))
    if state.busy or state.draining:
        return state
    if state.writes_targets:
        length = event.length if state.translating.asked else 0
        return replace(state, owners=state.owners[:length], context_used=length)
    # What else the cache holds is not of the conversation in front.
    owners = state.owners[: event.length]
    return replace(state, owners=owners, context_used=len(owners))


def _cache_measured(event: CacheMeasured, state: AppState, now: float) -> AppState:
    return replace(state, cache=cache_state.measured(state.cache, event))


EVENTS: dict[type[Any], Callable[[Any, AppState, float], AppState]] = {
    CacheStatus: _cache_status,
    CacheMeasured: _cache_measured,
}
