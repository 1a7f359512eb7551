"""The model makes titles of conversations when it has nothing else to do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llm_lite.core.messages import Ended, Event, MakeTitle
from llm_lite.core.records import replace
from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.requests import Result, conversation, is_idle
from llm_lite.desktop.features.program.state import AppState


class SetTitles(Action, frozen=True):
    """Set whether the model makes titles when it has nothing else to do."""

    by_model: bool


class AskTitle(Action, frozen=True):
    """The model is idle and may make a title of the conversation in the chat."""

    conversation: int


class TitleWanted(Action, frozen=True):
    """The conversation has no title yet."""

    conversation: int


def _with(state: AppState, **changes: Any) -> AppState:
    return replace(state, history=replace(state.history, **changes))


def _set_titles(action: SetTitles, state: AppState, now: float) -> Result:
    return _with(state, titles=action.by_model), ()


def _ask_title(action: AskTitle, state: AppState, now: float) -> Result:
    """Mark the title as requested; the host knows whether there is one already."""
    return _with(state, title_asked=action.conversation), ()


def _title(action: TitleWanted, state: AppState, now: float) -> Result:
    if action.conversation != state.history.open or not is_idle(state):
        return _with(state, title_asked=None), ()
    messages = conversation(state, state.messages)
    return state, (MakeTitle(action.conversation, messages, state.thinking),)


def _title_replied(event: Event, asked: MakeTitle, state: AppState, now: float) -> AppState:
    """Allow another request for a title that was not made; the host keeps the others."""
    failed = isinstance(event, Ended) and event.problem
    if not failed or state.history.title_asked != asked.conversation:
        return state
    return _with(state, title_asked=None)


HANDLERS: dict[type[Any], Callable[[Any, AppState, float], Result]] = {
    SetTitles: _set_titles,
    AskTitle: _ask_title,
    TitleWanted: _title,
}
REPLIES: dict[type[Any], Callable[[Event, Any, AppState, float], AppState]] = {
    MakeTitle: _title_replied,
}
