"""What a person does in the chat: say, stop, edit, begin another one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from llm_lite.core.messages import (
    SamplingOptions,
    Stop,
)
from llm_lite.desktop.actions.requests import Result, ask, ask_again, end_reading, obstacle
from llm_lite.desktop.state.incoming import typed
from llm_lite.desktop.state.notices import notify
from llm_lite.desktop.state.state import AppState, Message


@dataclass(frozen=True, slots=True)
class SetDraft:
    text: str


@dataclass(frozen=True, slots=True)
class Send:
    text: str


@dataclass(frozen=True, slots=True)
class StopAnswer:
    pass


@dataclass(frozen=True, slots=True)
class ContinueAnswer:
    pass


@dataclass(frozen=True, slots=True)
class Regenerate:
    pass


@dataclass(frozen=True, slots=True)
class EditMessage:
    """Put a user's message back into the input; sending it replaces what followed."""

    index: int


@dataclass(frozen=True, slots=True)
class CancelEdit:
    pass


@dataclass(frozen=True, slots=True)
class NewChat:
    pass


@dataclass(frozen=True, slots=True)
class UndoNewChat:
    """Bring the last chat back; what was said since then takes its place."""


@dataclass(frozen=True, slots=True)
class SetSystemPrompt:
    text: str


@dataclass(frozen=True, slots=True)
class SetSampling:
    sampling: SamplingOptions


@dataclass(frozen=True, slots=True)
class SetThinking:
    """Whether the model thinks before it answers, where its template lets one choose."""

    thinking: bool


@dataclass(frozen=True, slots=True)
class UnfoldThought:
    """Show all that an answer has thought, or fold it to a line again."""

    index: int
    unfolded: bool


ChatAction = (
    SetDraft
    | Send
    | StopAnswer
    | ContinueAnswer
    | Regenerate
    | EditMessage
    | CancelEdit
    | NewChat
    | UndoNewChat
    | SetSystemPrompt
    | SetSampling
    | SetThinking
    | UnfoldThought
)


def _set_draft(action: SetDraft, state: AppState, now: float) -> Result:
    return replace(state, draft=typed(action.text)), ()


def _send(action: Send, state: AppState, now: float) -> Result:
    if not action.text.strip():
        return state, ()
    if problem := obstacle(state):
        return notify(replace(state, draft=typed(action.text)), "warning", problem, now), ()
    kept = state.messages if state.editing is None else state.messages[: state.editing]
    messages = (*kept, Message("user", typed(action.text.strip())))
    return ask(replace(state, draft="", editing=None, comparing=None), messages, now)


def _stop_answer(action: StopAnswer, state: AppState, now: float) -> Result:
    if state.running is None or state.running.stopping:
        return state, ()
    if state.queued:
        last = replace(state.messages[-1], stop_reason="stopped")
        messages = (*state.messages[:-1], last)
        return replace(state, messages=messages, queued=None, running=None), ()
    return replace(state, running=replace(state.running, stopping=True)), (Stop(),)


def _continue_answer(action: ContinueAnswer, state: AppState, now: float) -> Result:
    if not state.messages or state.messages[-1].role != "assistant":
        return state, ()
    if problem := obstacle(state):
        return notify(state, "warning", problem, now), ()
    last = replace(state.messages[-1], stop_reason=None, stats=None, problem="")
    if not last.whole:
        return ask(state, state.messages[:-1], now)
    return ask(state, (*state.messages[:-1], last), now, continue_last=True)


def _regenerate(action: Regenerate, state: AppState, now: float) -> Result:
    if not state.messages:
        return state, ()
    if problem := obstacle(state):
        return notify(state, "warning", problem, now), ()
    state = replace(state, comparing=None)
    last = len(state.messages) - 1
    if state.messages[last].role == "user":
        return ask(state, state.messages, now)
    if not state.messages[last].whole:  # nothing worth keeping
        return ask(state, state.messages[:last], now)
    return ask_again(state, last, now)


def _edit_message(action: EditMessage, state: AppState, now: float) -> Result:
    if not 0 <= action.index < len(state.messages):
        return state, ()
    message = state.messages[action.index]
    if message.role != "user":
        return state, ()
    return replace(state, draft=message.text, editing=action.index), ()


def _cancel_edit(action: CancelEdit, state: AppState, now: float) -> Result:
    return (state if state.editing is None else replace(state, draft="", editing=None)), ()


def _new_chat(action: NewChat, state: AppState, now: float) -> Result:
    if not state.messages:
        return replace(state, editing=None), ()
    state, ended = end_reading(state)
    sent = state.running and not state.queued
    commands = (Stop(),) if sent else ended
    fresh = replace(
        state,
        messages=(),
        set_aside=state.messages,
        editing=None,
        running=None,
        draining=state.running.request if state.running and sent else state.draining,
        queued=None,
        context_used=0,
        owners=(),
        cache=state.cache.cleared(),
        comparing=None,
        chat=state.chat + 1,
    )
    return notify(fresh, "info", "Started a new chat.", now, undo=True), commands


def _undo_new_chat(action: UndoNewChat, state: AppState, now: float) -> Result:
    if not state.set_aside or state.running:
        return state, ()
    notices = tuple(n for n in state.notices if not n.undo)
    messages = tuple(
        m if m.role != "assistant" or m.stop_reason else replace(m, stop_reason="stopped")
        for m in state.set_aside
    )
    newer = state.messages
    state = replace(
        state,
        messages=messages,
        set_aside=newer,
        editing=None,
        notices=notices,
        owners=(),
        cache=state.cache.cleared(),
        comparing=None,
        chat=state.chat + 1,
    )
    return notify(state, "info", "The newer chat was set aside.", now, True) if newer else state, ()


def _set_system_prompt(action: SetSystemPrompt, state: AppState, now: float) -> Result:
    return replace(state, system_prompt=typed(action.text)), ()


def _set_sampling(action: SetSampling, state: AppState, now: float) -> Result:
    return replace(state, sampling=action.sampling), ()


def _set_thinking(action: SetThinking, state: AppState, now: float) -> Result:
    return replace(state, thinking=action.thinking), ()


def _unfold_thought(action: UnfoldThought, state: AppState, now: float) -> Result:
    if not 0 <= action.index < len(state.messages):
        return state, ()
    message = state.messages[action.index]
    if message.thought is None or message.thought.unfolded == action.unfolded:
        return state, ()
    changed = replace(message, thought=replace(message.thought, unfolded=action.unfolded))
    before, after = state.messages[: action.index], state.messages[action.index + 1 :]
    return replace(state, messages=(*before, changed, *after)), ()


HANDLERS: dict[type[Any], Callable[[Any, AppState, float], Result]] = {
    SetDraft: _set_draft,
    Send: _send,
    StopAnswer: _stop_answer,
    ContinueAnswer: _continue_answer,
    Regenerate: _regenerate,
    EditMessage: _edit_message,
    CancelEdit: _cancel_edit,
    NewChat: _new_chat,
    UndoNewChat: _undo_new_chat,
    SetSystemPrompt: _set_system_prompt,
    SetSampling: _set_sampling,
    SetThinking: _set_thinking,
    UnfoldThought: _unfold_thought,
}
