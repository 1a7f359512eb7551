"""Events of the engine about models, executors and files, folded into the state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llm_lite.core.messages import (
    Command,
    Ended,
    Event,
    ExecutorChanged,
    FileDamaged,
    LoadModel,
    LoadNeedsMemory,
    LoadProgress,
    LoadStarted,
    Logged,
    ModelLoaded,
    Reconfigure,
)
from llm_lite.core.records import replace
from llm_lite.desktop.features.program.notices import add_log, notify
from llm_lite.desktop.features.program.requests import with_message
from llm_lite.desktop.features.program.scopes import next_model
from llm_lite.desktop.features.program.state import RECENT_FILES, AppState, Load, LogLine
from llm_lite.desktop.features.steer.model import with_new_engine
from llm_lite.desktop.language.translate import tr


def _load_started(
    event: LoadStarted, state: AppState, now: float, asked: Command | None = None
) -> AppState:
    known = state.load
    if known is not None and known.changes:  # the change that is wanted now, or one before it
        return replace(state, load=replace(known, stage="opening", fraction=0.0))
    return replace(state, load=Load(event.source, mode=event.mode, asked=asked))


def _load_progress(event: LoadProgress, state: AppState, now: float) -> AppState:
    if state.load is None:
        return state
    fraction = min(1.0, max(0.0, event.fraction))
    return replace(state, load=replace(state.load, stage=event.stage, fraction=fraction))


def model_loaded(event: ModelLoaded, state: AppState, now: float) -> AppState:
    opened = () if event.executor.backend == "remote" else (event.model.path,)
    recent = (*opened, *(p for p in state.recent if p not in opened))
    # One elsewhere leaves the engine here as it is.
    state = with_new_engine(state) if opened else state
    return next_model(
        state,
        event.model,
        load=None,
        executor=event.executor,
        load_seconds=event.seconds,
        reading=None,
        recent=recent[:RECENT_FILES],
    )


def _load_ended(event: Ended, asked: Command, state: AppState, now: float) -> AppState:
    """Tell why a load or a change ended without what it was for."""
    known = state.load
    if not event.problem:
        return state
    if known is not None and known.changes:
        if asked is not known.asked:  # a later change has taken its place
            return notify(state, "error", event.failure, now) if event.failure else state
        if known.in_use is not None:
            state = replace(state, options=known.in_use)  # which is what goes on
    goes_on = known is not None and known.changes  # the model that the message waited for
    state = replace(state, load=None, queued=state.queued and goes_on)
    if event.unwanted:
        return notify(state, "info", tr("Loading was cancelled."), now)
    if state.memory_question is not None:
        return state  # which says it
    return notify(state, "error", event.problem, now)


def _load_needs_memory(event: LoadNeedsMemory, state: AppState, now: float) -> AppState:
    return replace(state, memory_question=event)


def _executor_changed(
    event: ExecutorChanged, state: AppState, now: float, asked: Command | None = None
) -> AppState:
    before = state.executor.reason if state.executor else ""
    reason = event.executor.reason
    state = replace(state, executor=event.executor, model=event.model)
    state = _marked_switch(state)
    known = state.load
    if known is not None and asked is not known.asked:
        # Something else changed it meanwhile; what a person wants now is still to come.
        if known.changes:
            state = replace(state, load=replace(known, in_use=event.options or known.in_use))
    else:
        state = replace(state, load=None)
        if event.options is not None:  # a client of the server may have switched it
            mode, activations = event.options.mode, event.options.activations
            options = replace(state.options, mode=mode, activations=activations)
            state = replace(state, options=options)
    return notify(state, "warning", reason, now) if reason not in ("", before) else state


def _marked_switch(state: AppState) -> AppState:
    """Record in the answer that is being written how its next tokens are computed."""
    answer, executor = state.answering, state.executor
    if answer is None or answer.written is None or executor is None or state.elsewhere:
        return state
    written = answer.written.switched(executor, len(answer.tokens))
    index = len(state.messages) - 1
    return with_message(state, index, replace(answer, written=written))


def _file_damaged(event: FileDamaged, state: AppState, now: float) -> AppState:
    return notify(state, "error", event.message, now)


def _logged(event: Logged, state: AppState, now: float) -> AppState:
    return add_log(state, LogLine(event.level, event.text, event.time))


def _replied(event: Event, asked: Command, state: AppState, now: float) -> AppState:
    """Fold an event of a load, or of a change of how the model in use runs."""
    match event:
        case LoadStarted():
            return _load_started(event, state, now, asked)
        case ExecutorChanged():
            return _executor_changed(event, state, now, asked)
        case Ended():
            return _load_ended(event, asked, state, now)
    return EVENTS[type(event)](event, state, now)


EVENTS: dict[type[Any], Callable[[Any, AppState, float], AppState]] = {
    LoadStarted: _load_started,
    LoadProgress: _load_progress,
    ModelLoaded: model_loaded,
    LoadNeedsMemory: _load_needs_memory,
    ExecutorChanged: _executor_changed,
    FileDamaged: _file_damaged,
    Logged: _logged,
}
REPLIES: dict[type[Any], Callable[[Event, Any, AppState, float], AppState]] = dict.fromkeys(
    (LoadModel, Reconfigure), _replied
)
