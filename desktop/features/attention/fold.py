"""What the engine says of its inside, as it was asked for, folded into the state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llm_lite.core.messages import (
    AttentionRows,
    GainsEffect,
    LensResult,
    MapsExported,
    TokenFollowed,
)
from llm_lite.core.records import replace
from llm_lite.desktop.features.program.notices import notify
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.language.translate import tr


def _attention_rows(event: AttentionRows, state: AppState, now: float) -> AppState:
    details = state.row_details
    if event.request == details.request and details.head is not None:
        rows = (*details.rows, (details.head, event))
        return replace(state, row_details=replace(details, request=0, rows=rows))
    return (
        replace(state, rows_request=0, attention_rows=event)
        if event.request == state.rows_request
        else state
    )


def _maps_exported(event: MapsExported, state: AppState, now: float) -> AppState:
    if event.message:
        return notify(state, "warning", event.message, now)
    return notify(state, "info", tr("Saved {path}").format(path=event.path), now)


def _lens_result(event: LensResult, state: AppState, now: float) -> AppState:
    if event.request != state.lens.request:
        return state
    return replace(state, lens=replace(state.lens, request=0, result=event))


def _gains_effect(event: GainsEffect, state: AppState, now: float) -> AppState:
    if event.request != state.steering.request:
        return state
    return replace(state, steering=replace(state.steering, request=0, effect=event))


def _token_followed(event: TokenFollowed, state: AppState, now: float) -> AppState:
    lesson, trace, texts = state.lesson, event.trace, state.positions
    if event.request != lesson.request:
        return state
    if trace is None:
        return replace(state, lesson=lesson.with_problem(event.message))
    if trace.shape.path == "encoder_decoder":
        words = trace.texts
    else:  # positions know characters that several tokens make
        words = tuple(texts[p] if p < len(texts) else "" for p, _ in trace.tokens)
    return replace(state, lesson=lesson.with_trace(trace, words))


EVENTS: dict[type[Any], Callable[[Any, AppState, float], AppState]] = {
    AttentionRows: _attention_rows,
    MapsExported: _maps_exported,
    LensResult: _lens_result,
    GainsEffect: _gains_effect,
    TokenFollowed: _token_followed,
}
