"""What an encoder-decoder says of a source and its target, folded into the state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llm_lite.core.messages import SourceRead, TargetFinished, TargetGrown
from llm_lite.core.records import replace
from llm_lite.desktop.features.performance import speed
from llm_lite.desktop.features.program.notices import notify
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.features.tokens.state import TARGET
from llm_lite.desktop.features.translator.state import TranslatingState, grown


def _source_read(event: SourceRead, state: AppState, now: float) -> AppState:
    translating = state.translating
    if event.request != translating.request:
        return state
    translating = replace(translating, source=event.tokens, start=event.start)
    translating = replace(translating, tokens=(), result=None, pointed=None)
    state = replace(
        state, attention=replace(state.attention, row=None), rows_request=0, attention_rows=None
    )
    return shown(state, translating)


def _target_grown(event: TargetGrown, state: AppState, now: float) -> AppState:
    if event.request != state.translating.request:
        return state
    tokens = grown(event.tokens, event.texts)
    return shown(state, replace(state.translating, tokens=tokens))


def _target_finished(event: TargetFinished, state: AppState, now: float) -> AppState:
    if event.request != state.translating.request:
        return state
    mode = state.executor.mode if state.executor else None
    ended = replace(state.translating, request=0, stopping=False, result=event, mode=mode)
    if event.tokens or not event.problem:
        ended = replace(ended, tokens=event.tokens)
    state = speed.of_target(state, event, now)
    state = emptied(shown(state, ended)) if ended.clearing else shown(state, ended)
    return notify(state, "error", event.problem, now) if event.problem else state


def emptied(state: AppState) -> AppState:
    """Without the source and its target, which the engine still holds."""
    known = state.translating
    if not (known.draft or known.asked):
        return state
    translating, choice = known.emptied(), replace(state.attention, row=None)
    state = replace(state, translating=translating, positions=(), owners=(), context_used=0)
    return replace(state, attention=choice, rows_request=0, attention_rows=None)


def shown(state: AppState, translating: TranslatingState) -> AppState:
    """With the texts of the target's positions."""
    positions = (translating.start, *(token.text for token in translating.tokens))
    owners = (TARGET,) * len(positions)
    return replace(state, translating=translating, positions=positions, owners=owners)


EVENTS: dict[type[Any], Callable[[Any, AppState, float], AppState]] = {
    SourceRead: _source_read,
    TargetGrown: _target_grown,
    TargetFinished: _target_finished,
}
