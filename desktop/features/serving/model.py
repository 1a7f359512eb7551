"""The server is switched on and off, its clients are listed and their requests cancelled. Sockets
are the host's part; it reports them in actions too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llm_lite.core.messages import (
    Ended,
    Event,
    ServingChanged,
    ServingStatus,
    StartServing,
    StopServing,
)
from llm_lite.core.records import replace, repr_without
from llm_lite.desktop.features.program.action import Action, HostAction
from llm_lite.desktop.features.program.notices import add_log, notify
from llm_lite.desktop.features.program.requests import Result
from llm_lite.desktop.features.program.state import AppState, LogLine
from llm_lite.desktop.features.serving.state import (
    MOST_PARALLEL,
    PORTS,
    ServingChoice,
    ServingState,
)
from llm_lite.desktop.language.incoming import fit_line

LONGEST = 400  # characters of a problem


class SetServing(Action, frozen=True):
    """What the server is to be when it is switched on; what is on stays as it is."""

    choice: ServingChoice


class SwitchServing(Action, frozen=True):
    on: bool


class RenewKey(HostAction, frozen=True):
    """Another key in the place of the one that clients have; the server begins again with it."""


class HideKey(Action, frozen=True):
    """The new key was seen."""


class CancelServed(Action, frozen=True):
    """End a client's request."""

    number: int


class ServerBegan(Action, frozen=True):
    """The server listens. `key` is the whole of it where it is new."""

    address: str
    others: tuple[str, ...] = ()
    key_end: str = ""
    key: str = ""
    __repr__ = repr_without("key")


class ServerReported(Action, frozen=True):
    """The service reports its requests; None: there is none, as no model is loaded."""

    status: ServingStatus | None


class ServerNoted(Action, frozen=True):
    """The server reports something for the log: what a program asked that is not done here."""

    text: str


class ServerEnded(Action, frozen=True):
    """The server does not listen any more, or never did; then `problem` is a sentence."""

    problem: str = ""


ServingHostAction = SwitchServing | RenewKey | CancelServed


def _set(action: SetServing, state: AppState, now: float) -> Result:
    choice = action.choice
    port = min(max(choice.port, PORTS[0]), PORTS[1])
    parallel = min(max(choice.parallel, 1), MOST_PARALLEL)
    choice = replace(choice, port=port, parallel=parallel)
    return replace(state, serving=replace(state.serving, choice=choice)), ()


def _switch(action: SwitchServing, state: AppState, now: float) -> Result:
    serving = state.serving
    if action.on:
        if serving.phase != "off":
            return state, ()
        return replace(state, serving=replace(ServingState(serving.choice), phase="starting")), ()
    if serving.phase not in ("starting", "on"):
        return state, ()
    return replace(state, serving=replace(serving, phase="stopping")), (StopServing(),)


def due(state: AppState) -> Result:
    """Have the engine serve the model as soon as there is one, and the next one again."""
    serving = state.serving
    wanted = serving.phase in ("starting", "on") and serving.asked is None
    if not wanted or state.model is None or state.load is not None:
        return state, ()
    command = StartServing(parallel=serving.choice.parallel)
    return replace(state, serving=replace(serving, asked=command)), (command,)


def _hide(action: HideKey, state: AppState, now: float) -> Result:
    return replace(state, serving=replace(state.serving, fresh_key="")), ()


def _cancel(action: CancelServed, state: AppState, now: float) -> Result:
    cancelling = state.serving.cancelling | {action.number}
    return replace(state, serving=replace(state.serving, cancelling=cancelling)), ()


def _began(action: ServerBegan, state: AppState, now: float) -> Result:
    serving = state.serving
    serving = replace(
        serving,
        phase="on" if serving.phase == "starting" else serving.phase,
        address=action.address,
        others=action.others,
        key_end=action.key_end,
        fresh_key=action.key or serving.fresh_key,
    )
    return replace(state, serving=serving), ()


def _set_status(action: ServerReported, state: AppState, now: float) -> Result:
    serving = state.serving
    status = action.status or ServingStatus()
    serving = replace(serving, answers=action.status is not None)
    return replace(state, serving=serving.with_status(status, now)), ()


def _noted(action: ServerNoted, state: AppState, now: float) -> Result:
    return add_log(state, LogLine("info", action.text, now)), ()


def _ended(action: ServerEnded, state: AppState, now: float) -> Result:
    """Stop the engine's serving too, where that was not asked for before."""
    before = state.serving
    problem = fit_line(action.problem, LONGEST) or before.problem
    commands = (StopServing(),) if before.phase in ("starting", "on") else ()
    state = replace(state, serving=ServingState(before.choice, problem=problem))
    if action.problem:
        state = notify(state, "warning", problem, now)
    return state, commands


HANDLERS: dict[type[Any], Callable[[Any, AppState, float], Result]] = {
    SetServing: _set,
    SwitchServing: _switch,
    HideKey: _hide,
    CancelServed: _cancel,
    ServerBegan: _began,
    ServerReported: _set_status,
    ServerNoted: _noted,
    ServerEnded: _ended,
}


def _changed(event: ServingChanged, state: AppState, now: float) -> AppState:
    """End the server of an engine that cannot serve; one without a model waits for the next."""
    if state.serving.phase == "off":  # it answers what was wanted before the server failed
        return state
    serving = replace(state.serving, answers=event.is_on).with_status(event.status, now)
    if event.is_on:
        return replace(state, serving=replace(serving, problem=""))
    return _not_served(replace(state, serving=serving), event.problem, now)


def _start_replied(event: Event, asked: StartServing, state: AppState, now: float) -> AppState:
    """Note that the engine could not begin; what it serves it reports as ServingChanged."""
    if not isinstance(event, Ended) or not event.failure or state.serving.asked is not asked:
        return state
    return _not_served(state, event.failure, now)


def _not_served(state: AppState, problem: str, now: float) -> AppState:
    serving = replace(state.serving, asked=None)
    waits = state.model is None or state.load is not None
    if problem and not waits and serving.phase in ("starting", "on"):
        problem = fit_line(problem, LONGEST)
        serving = replace(serving, phase="stopping", problem=problem)
        state = notify(state, "warning", problem, now)
    return replace(state, serving=serving)


EVENTS: dict[type[Any], Callable[[Any, AppState, float], AppState]] = {ServingChanged: _changed}
REPLIES: dict[type[Any], Callable[[Event, Any, AppState, float], AppState]] = {
    StartServing: _start_replied
}
