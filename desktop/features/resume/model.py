"""A conversation's cache is kept when the conversation is left, and offered when it comes back."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from llm_lite.core.messages import (
    CheckKept,
    Command,
    KeepConversation,
    LoadModel,
    MakeTitle,
    ResumeKept,
    Stop,
)
from llm_lite.core.records import replace
from llm_lite.desktop.features.history.model import DeleteAll, DeleteConversation
from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.notices import notify
from llm_lite.desktop.features.program.requests import Result, conversation, obstacle
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.features.resume.state import (
    KeptCache,
    Offer,
    ResumeMode,
    RunWith,
    newest_first,
)


class SetResume(Action, frozen=True):
    """Whether caches of conversations are kept on disk and offered, and how much they may take."""

    mode: ResumeMode
    budget: int  # bytes


class SetTitles(Action, frozen=True):
    """Whether the model makes titles when it has nothing else to do."""

    by_model: bool


class KeepNow(Action, frozen=True):
    """Write what the cache holds of the conversation in the chat."""


class Resume(Action, frozen=True):
    """Take what is offered."""


class DismissOffer(Action, frozen=True):
    pass


class ClearKept(Action, frozen=True):
    """Remove all kept caches, or that of one conversation."""

    conversation: int | None = None


class KeptListed(Action, frozen=True):
    """All that there are now, and the folder that they are in."""

    kept: tuple[KeptCache, ...]
    folder: str


class AskTitle(Action, frozen=True):
    """The model has nothing to do: it may say what the conversation in the chat is about."""

    conversation: int


class TitleWanted(Action, frozen=True):
    """Nobody gave the conversation a title yet."""

    conversation: int


class KeptFound(Action, frozen=True):
    """The conversation that was opened has a file."""

    conversation: int
    path: str


NeedsCaches = SetResume | ClearKept | AskTitle
ResumeAction = (
    NeedsCaches | SetTitles | KeepNow | Resume | DismissOffer | KeptListed | KeptFound | TitleWanted
)


def _with(state: AppState, **changes: Any) -> AppState:
    return replace(state, resume=replace(state.resume, **changes))


def keep_left(action: object, before: AppState, result: Result, now: float) -> Result:
    """Keep a conversation's cache before something else takes its place, unless the conversation is
    deleted."""
    state, commands = result
    turned = state.chat != before.chat
    if state.running and not before.running and state.resume.offer is not None:
        state = _with(state, offer=None)  # the answer says itself what was there
    loads = any(isinstance(command, LoadModel) for command in commands)
    if not (turned or loads) or isinstance(action, DeleteConversation | DeleteAll):
        return state, commands
    first = [c for c in commands if isinstance(c, Stop)]
    others = [c for c in commands if not isinstance(c, Stop)]
    return state, (*first, *keeping(before), *others)


def keeping(state: AppState) -> tuple[Command, ...]:
    """What writes the cache of the conversation in the chat, where there is something to write."""
    number, resume = state.history.open, state.resume
    if number is None or not resume.keeps or not state.owners or state.model is None:
        return ()
    if state.elsewhere or not state.holds_conversations:  # what lies there, or a target
        return ()
    return (KeepConversation(number, kept_path(resume.folder, number), resume.budget),)


def kept_path(folder: str, conversation: int) -> str:
    return str(Path(folder) / f"{conversation}.kv")


def due(state: AppState) -> Result:
    """An offer is checked against the model that is there, and taken where that is always wanted;
    after every batch of events."""
    offer = state.resume.offer
    if offer is None or state.running or state.load or state.model is None:
        return state, ()
    now = running(state)
    stale = offer.phase in ("ready", "unfit") and offer.asked != now
    if offer.phase == "waiting" or stale:
        told = conversation(state, state.messages)
        command = CheckKept(offer.conversation, offer.path, told, state.thinking)
        return _with(state, offer=replace(offer, phase="checking", asked=now)), (command,)
    always = state.resume.mode == "always" and not state.resume.dismissed
    if offer.phase == "ready" and always and not obstacle(state):
        return resume(Resume(), state, 0.0)
    return state, ()


def running(state: AppState) -> RunWith | None:
    if state.model is None or state.executor is None:
        return None
    how = state.executor
    return (state.model.path, how.mode, how.activations, how.keys, how.values)


def resume(action: Resume, state: AppState, now: float) -> Result:
    offer = state.resume.offer
    if offer is None or offer.phase != "ready":
        return state, ()
    if problem := obstacle(state):
        return notify(state, "warning", problem, now), ()
    told, request = conversation(state, state.messages), state.next_request
    lead = len(told) - len(state.messages)
    offer = replace(offer, phase="resuming", request=request, lead=lead)
    command = ResumeKept(request, offer.conversation, offer.path, told, state.thinking)
    return _with(replace(state, next_request=request + 1), offer=offer), (command,)


def _set_resume(action: SetResume, state: AppState, now: float) -> Result:
    offer = None if action.mode == "off" else state.resume.offer
    return _with(state, mode=action.mode, budget=action.budget, offer=offer), ()


def _set_titles(action: SetTitles, state: AppState, now: float) -> Result:
    return replace(state, history=replace(state.history, titles=action.by_model)), ()


def _keep_now(action: KeepNow, state: AppState, now: float) -> Result:
    return state, () if state.running else keeping(state)


def _dismiss(action: DismissOffer, state: AppState, now: float) -> Result:
    return _with(state, dismissed=True), ()


def _clear(action: ClearKept, state: AppState, now: float) -> Result:
    """The list says so at once."""
    left = (
        cache
        for cache in state.resume.kept
        if action.conversation is not None and cache.conversation != action.conversation
    )
    gone = state.resume.offer
    if gone is not None and action.conversation in (None, gone.conversation):
        gone = None
    return _with(state, kept=tuple(left), offer=gone, kept_tokens=0), ()


def _listed(action: KeptListed, state: AppState, now: float) -> Result:
    return _with(state, kept=newest_first(action.kept), folder=action.folder), ()


def _ask_title(action: AskTitle, state: AppState, now: float) -> Result:
    """Its keeper knows whether it has one."""
    return replace(state, history=replace(state.history, title_asked=action.conversation)), ()


def _title(action: TitleWanted, state: AppState, now: float) -> Result:
    if action.conversation != state.history.open or not idle(state):
        return replace(state, history=replace(state.history, title_asked=None)), ()
    told = conversation(state, state.messages)
    return state, (MakeTitle(action.conversation, told, state.thinking),)


def idle(state: AppState) -> bool:
    """Whether the engine has nothing to do, and the cache holds what is in the chat."""
    busy = state.running or state.reading or state.load or state.quantization.work
    waits = state.draining is not None or state.queued is not None
    here = state.model is not None and not state.elsewhere and state.holds_conversations
    return not busy and not waits and here and bool(state.owners)


def _found(action: KeptFound, state: AppState, now: float) -> Result:
    """Nothing is offered where the conversation is in the cache already."""
    ours = action.conversation == state.history.open
    if not ours or not state.resume.keeps or state.owners or state.busy or state.elsewhere:
        return state, ()
    return _with(state, offer=Offer(action.conversation, action.path)), ()


HANDLERS: dict[type[Any], Callable[[Any, AppState, float], Result]] = {
    SetResume: _set_resume,
    SetTitles: _set_titles,
    KeepNow: _keep_now,
    Resume: resume,
    DismissOffer: _dismiss,
    ClearKept: _clear,
    KeptListed: _listed,
    KeptFound: _found,
    AskTitle: _ask_title,
    TitleWanted: _title,
}
