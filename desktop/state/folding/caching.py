"""What the engine says of its cache, folded into the state."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from llm_lite.core.messages import CacheMeasured, CacheStatus
from llm_lite.desktop.state import cache_state
from llm_lite.desktop.state.state import AppState


def _cache_status(event: CacheStatus, state: AppState, now: float) -> AppState:
    state = replace(state, cache=replace(state.cache, status=event))
    if state.busy or state.draining:
        return state
    owners, length = state.owners[: event.length], event.length if _is_told(state) else 0
    return replace(state, owners=owners, context_used=length)


def _is_told(state: AppState) -> bool:
    """Whether what the cache holds is shown: a conversation, or a target."""
    return bool(state.translating.asked if state.writes_targets else state.messages)


def _cache_measured(event: CacheMeasured, state: AppState, now: float) -> AppState:
    return replace(state, cache=cache_state.measured(state.cache, event))


EVENTS: dict[type[Any], Callable[[Any, AppState, float], AppState]] = {
    CacheStatus: _cache_status,
    CacheMeasured: _cache_measured,
}
