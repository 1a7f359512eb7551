"""What the engine says of clients that it answers, folded into the state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llm_lite.core.messages import ServingChanged
from llm_lite.core.records import replace
from llm_lite.desktop.features.program.notices import notify
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.language.incoming import fit_line

LONGEST = 400  # characters of a problem


def _changed(event: ServingChanged, state: AppState, now: float) -> AppState:
    """An engine that cannot serve ends the server; one without a model waits for the next."""
    if state.serving.phase == "off":  # it answers what was wanted before the server failed
        return state
    serving = replace(state.serving, answers=event.is_on).heard(event.status, now)
    if event.is_on:
        return replace(state, serving=replace(serving, problem=""))
    serving = replace(serving, asked=False)
    waits = state.model is None or state.load is not None
    if event.problem and not waits and serving.phase in ("starting", "on"):
        problem = fit_line(event.problem, LONGEST)
        serving = replace(serving, phase="stopping", problem=problem)
        state = notify(state, "warning", problem, now)
    return replace(state, serving=serving)


EVENTS: dict[type[Any], Callable[[Any, AppState, float], AppState]] = {ServingChanged: _changed}
