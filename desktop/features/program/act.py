"""The pure `act`: an action of a person or a host, carried out on the state."""

from __future__ import annotations

from llm_lite.core.messages import Command
from llm_lite.desktop.features.program.action import Action, HostAction
from llm_lite.desktop.features.program.requests import Result
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.features.registry import FEATURES, joined

ACTIONS = joined(feature.actions for feature in FEATURES)
_ON_ACTION = tuple(feature.on_action for feature in FEATURES if feature.on_action is not None)
_DUE = tuple(due for feature in FEATURES for due in feature.due)


def act(action: Action, state: AppState, now: float) -> Result:
    """Return the state after `action`, done at `now`, in seconds, and the engine's commands. Each
    feature that follows actions adds what they mean for it. Raises TypeError for what is no
    action."""
    result: Result
    if type(action) in ACTIONS:
        result = ACTIONS[type(action)](action, state, now)
    elif isinstance(action, HostAction):
        result = state, ()
    else:
        raise TypeError(f"not an action: {action!r}")
    for on_action in _ON_ACTION:
        result = on_action(action, state, result, now)
    return result


def due(state: AppState) -> Result:
    """Return the state after every batch of events, and the commands that had to wait for the
    engine and can be sent now."""
    commands: tuple[Command, ...] = ()
    for one in _DUE:
        state, asked = one(state)
        commands = (*commands, *asked)
    return state, commands
