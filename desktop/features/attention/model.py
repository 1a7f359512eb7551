"""Actions that look inside an answer and change it, and what events of the engine change of
that."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llm_lite.core.messages import (
    Ended,
    Event,
    ExportMaps,
    MapsExported,
)
from llm_lite.core.records import replace
from llm_lite.desktop.features.attention.state import AttentionChoice
from llm_lite.desktop.features.chat.reading import is_unsettled
from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.notices import notify
from llm_lite.desktop.features.program.requests import (
    Result,
    end_reading,
    obstacle,
    read_again,
)
from llm_lite.desktop.features.program.settings import Looks, Settings
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.features.tokens.model import KEPT
from llm_lite.desktop.language.translate import tr

# Fields of `Looks` that are of the X-ray, and of the choice of maps
_KEPT_OF_MAPS = ("colors", "logarithmic", "high", "exclude_first")


class SetAttention(Action, frozen=True):
    """Choose what is shown of attention."""

    choice: AttentionChoice


class ReadAgain(Action, frozen=True):
    """Bring the conversation as it is shown back into the cache, with the queries of all its
    tokens, to look into it."""


def set_attention(action: SetAttention, state: AppState, now: float) -> Result:
    return replace(state, attention=action.choice), ()


def reread(action: ReadAgain, state: AppState, now: float) -> Result:
    problem = obstacle(state)
    if state.elsewhere:
        problem = tr("A server reads the conversation with the next answer, when it is asked.")
    if problem:
        return notify(state, "warning", problem, now), ()
    return read_again(state)


def drop_reading(state: AppState) -> Result:
    """Stop a reading whose prompt is made otherwise by now."""
    reading = state.reading
    if reading is None or reading.prompt_settings == state.prompt_settings:
        return state, ()
    return end_reading(state)


def drop_row(state: AppState) -> Result:
    """Mark no row, once the token that a person chose is not in front."""
    choice, of = state.attention, state.attention.row_of
    if choice.row is None or state.positions[: len(of)] == of or is_unsettled(state, len(of)):
        return state, ()
    return replace(state, attention=replace(choice, row=None)), ()


def note_row(action: object, before: AppState, result: Result, now: float) -> Result:
    """Note which text a row that an action marks is of."""
    state, commands = result
    row = state.attention.row
    if row is None or row == before.attention.row:
        return result
    choice = replace(state.attention, row_of=state.positions[: row + 1])
    return replace(state, attention=choice), commands


HANDLERS: dict[type[Any], Callable[[Any, AppState, float], Result]] = {
    SetAttention: set_attention,
    ReadAgain: reread,
}


def _export_replied(event: Event, asked: ExportMaps, state: AppState, now: float) -> AppState:
    if isinstance(event, MapsExported):
        return notify(state, "info", tr("Saved {path}").format(path=event.path), now)
    if isinstance(event, Ended) and event.failure:
        return notify(state, "warning", event.failure, now)
    return state


REPLIES: dict[type[Any], Callable[[Event, Any, AppState, float], AppState]] = {
    ExportMaps: _export_replied,
}


def remember(state: AppState, settings: Settings) -> dict[str, Any]:
    looks = {name: getattr(state.xray, name) for name in KEPT}
    looks |= {name: getattr(state.attention, name) for name in _KEPT_OF_MAPS}
    return {"looks": Looks(**looks)}


def restore(settings: Settings, state: AppState) -> AppState:
    maps = {name: getattr(settings.looks, name) for name in _KEPT_OF_MAPS}
    return replace(state, attention=replace(state.attention, **maps))
