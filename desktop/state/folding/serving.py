"""What the engine says of clients that it answers, folded into the state."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from llm_lite.core.messages import ServingChanged
from llm_lite.desktop.state.incoming import fit_line
from llm_lite.desktop.state.notices import notify
from llm_lite.desktop.state.state import AppState

LONGEST = 400  # characters of a problem


def _changed(event: ServingChanged, state: AppState, now: float) -> AppState:
    """An engine that cannot serve ends the server; one without a model waits for the next."""
    serving = state.serving
    problem = fit_line(event.problem, LONGEST)
    if problem and serving.phase in ("starting", "on"):
        serving = replace(serving, phase="stopping")
        state = notify(state, "warning", problem, now)
    serving = replace(serving, answers=event.is_on, problem=problem or serving.problem)
    return replace(state, serving=serving.heard(event.status, now))


EVENTS: dict[type[Any], Callable[[Any, AppState, float], AppState]] = {ServingChanged: _changed}
