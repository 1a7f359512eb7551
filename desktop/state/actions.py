"""What a person does in a view, and the pure `act` that turns it into state and commands."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

from llm_lite.core.messages import (
    CancelLoad,
    EngineOptions,
    ExportMaps,
    LoadModel,
    Reconfigure,
    SamplingOptions,
    Stop,
)
from llm_lite.desktop.state import cache_actions, defects, inspect_actions, quant_actions
from llm_lite.desktop.state.attention_state import AttentionChoice, FigureName
from llm_lite.desktop.state.cache_actions import CacheAction
from llm_lite.desktop.state.defects import ReportDefect
from llm_lite.desktop.state.incoming import typed
from llm_lite.desktop.state.inspect_actions import InsideAction
from llm_lite.desktop.state.notices import notify
from llm_lite.desktop.state.quant_actions import QuantAction
from llm_lite.desktop.state.requests import Result, ask, ask_again, end_reading, obstacle
from llm_lite.desktop.state.state import AppState, Load, Message, ThemeName

MIN_FONT, MAX_FONT = 10.0, 32.0


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
class SetSampling:
    sampling: SamplingOptions


@dataclass(frozen=True, slots=True)
class SetSystemPrompt:
    text: str


@dataclass(frozen=True, slots=True)
class SetOptions:
    options: EngineOptions


@dataclass(frozen=True, slots=True)
class OpenModel:
    source: str | None


@dataclass(frozen=True, slots=True)
class CancelLoading:
    pass


@dataclass(frozen=True, slots=True)
class SetTheme:
    theme: ThemeName


@dataclass(frozen=True, slots=True)
class SetFontSize:
    size: float


@dataclass(frozen=True, slots=True)
class DismissNotice:
    id: int


@dataclass(frozen=True, slots=True)
class ClearLog:
    pass


@dataclass(frozen=True, slots=True)
class SetAttention:
    choice: AttentionChoice


@dataclass(frozen=True, slots=True)
class ExportAttention:
    """Write a file: a picture of a view, which the program draws, or the numbers of the locked
    heads, which the engine writes."""

    view: FigureName
    kind: Literal["png", "npz"]
    path: str


@dataclass(frozen=True, slots=True)
class ChooseFile:
    """Ask the system for a file; the window does it, the state does not change."""


@dataclass(frozen=True, slots=True)
class ResetLayout:
    """Put the docked views back where they were at first; the window does it."""


Action = (
    SetDraft
    | Send
    | StopAnswer
    | ContinueAnswer
    | Regenerate
    | EditMessage
    | CancelEdit
    | NewChat
    | UndoNewChat
    | SetSampling
    | SetSystemPrompt
    | SetOptions
    | OpenModel
    | CancelLoading
    | SetTheme
    | SetFontSize
    | DismissNotice
    | ClearLog
    | SetAttention
    | ExportAttention
    | InsideAction
    | CacheAction
    | QuantAction
    | ChooseFile
    | ResetLayout
    | ReportDefect
)


def act(action: Action, state: AppState, now: float) -> Result:
    """The state after `action`, and what the engine must be told."""
    if type(action) not in _HANDLERS:
        raise TypeError(f"not an action: {action!r}")
    return _HANDLERS[type(action)](action, state, now)


def due(state: AppState) -> Result:
    """What had to wait for the engine and can be sent now; after every batch of events."""
    state, commands = inspect_actions.compare_gains(state)
    if state.queued is None or state.draining is not None:
        return state, commands
    return replace(state, queued=None), (*commands, state.queued)


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
    if not last.text:
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
    if not state.messages[last].text:  # nothing worth keeping
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


def _set_sampling(action: SetSampling, state: AppState, now: float) -> Result:
    return replace(state, sampling=action.sampling), ()


def _set_system_prompt(action: SetSystemPrompt, state: AppState, now: float) -> Result:
    return replace(state, system_prompt=typed(action.text)), ()


def _set_options(action: SetOptions, state: AppState, now: float) -> Result:
    if action.options == state.options:
        return state, ()
    if state.load:
        problem = "Wait until the model is loaded, then change this."
        return notify(state, "warning", problem, now), ()
    state = replace(state, options=action.options)
    if state.model is None:
        return state, ()
    path = state.model.path
    state, ended = end_reading(state)  # a running answer goes on: it is switched between tokens
    return replace(state, load=Load(path)), (*ended, Reconfigure(action.options))


def _open_model(action: OpenModel, state: AppState, now: float) -> Result:
    if state.load:
        return notify(state, "warning", "A model is already loading. Cancel it first.", now), ()
    state, ended = end_reading(state)
    busy = state.running or state.quantization.work
    stop = (Stop(),) if busy else ended
    load = Load(action.source or "the default model")
    return replace(state, load=load), (*stop, LoadModel(action.source, state.options))


def _cancel_loading(action: CancelLoading, state: AppState, now: float) -> Result:
    if state.load is None or state.load.cancelling:
        return state, ()
    return replace(state, load=replace(state.load, cancelling=True)), (CancelLoad(),)


def _set_theme(action: SetTheme, state: AppState, now: float) -> Result:
    return replace(state, theme=action.theme), ()


def _set_font_size(action: SetFontSize, state: AppState, now: float) -> Result:
    return replace(state, font_size=min(MAX_FONT, max(MIN_FONT, action.size))), ()


def _dismiss_notice(action: DismissNotice, state: AppState, now: float) -> Result:
    return replace(state, notices=tuple(n for n in state.notices if n.id != action.id)), ()


def _clear_log(action: ClearLog, state: AppState, now: float) -> Result:
    return replace(state, log=()), ()


def _set_attention(action: SetAttention, state: AppState, now: float) -> Result:
    before, state = state.attention, replace(state, attention=action.choice)
    other = (before.locked, before.exclude_first) != (
        action.choice.locked,
        action.choice.exclude_first,
    )
    return inspect_actions.look(state) if other else (state, ())


def _export_attention(action: ExportAttention, state: AppState, now: float) -> Result:
    if action.kind == "png":
        return state, ()
    export = ExportMaps(state.next_aside, action.path, state.attention.locked)
    return replace(state, next_aside=state.next_aside + 1), (export,)


def _leave_to_the_window(action: ChooseFile | ResetLayout, state: AppState, now: float) -> Result:
    return state, ()


_HANDLERS: dict[type[Any], Callable[[Any, AppState, float], Result]] = {
    SetDraft: _set_draft,
    Send: _send,
    StopAnswer: _stop_answer,
    ContinueAnswer: _continue_answer,
    Regenerate: _regenerate,
    EditMessage: _edit_message,
    CancelEdit: _cancel_edit,
    NewChat: _new_chat,
    UndoNewChat: _undo_new_chat,
    SetSampling: _set_sampling,
    SetSystemPrompt: _set_system_prompt,
    SetOptions: _set_options,
    OpenModel: _open_model,
    CancelLoading: _cancel_loading,
    SetTheme: _set_theme,
    SetFontSize: _set_font_size,
    DismissNotice: _dismiss_notice,
    ClearLog: _clear_log,
    SetAttention: _set_attention,
    ExportAttention: _export_attention,
    ChooseFile: _leave_to_the_window,
    ResetLayout: _leave_to_the_window,
    **inspect_actions.HANDLERS,
    **cache_actions.HANDLERS,
    **quant_actions.HANDLERS,
    **defects.HANDLERS,
}
