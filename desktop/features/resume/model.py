"""A conversation's cache is kept when the conversation is left, and offered when it comes back."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

from msgspec import Struct

from llm_lite.core.messages import (
    CacheKept,
    Cancel,
    CheckKept,
    Command,
    Ended,
    Event,
    KeepConversation,
    KeptChecked,
    KeptResumed,
    LoadModel,
    ResumeKept,
)
from llm_lite.core.records import replace
from llm_lite.desktop.features.chat.reading import begun, owner_of
from llm_lite.desktop.features.history.model import DeleteAll, DeleteConversation
from llm_lite.desktop.features.history.titles import AskTitle
from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.asking import Slot, replied
from llm_lite.desktop.features.program.cached_text import PromptSettings
from llm_lite.desktop.features.program.notices import notify
from llm_lite.desktop.features.program.requests import Result, conversation, is_idle, obstacle
from llm_lite.desktop.features.program.state import AppState, Message
from llm_lite.desktop.features.resume.state import (
    KeptCache,
    Offer,
    OfferStatus,
    ResumeMode,
    newest_first,
)
from llm_lite.desktop.language.translate import tr

# Of idle time, before a cache is kept and a title is made.
KEEP_SECONDS, TITLE_SECONDS = 15.0, 3.0
TRIES = 3  # a title that was interrupted is requested again


class SetResume(Action, frozen=True):
    """Set whether caches are kept on disk and offered, and how much they may take."""

    mode: ResumeMode
    budget: int  # bytes


class KeepNow(Action, frozen=True):
    """Write what the cache holds of the conversation in the chat."""


class Resume(Action, frozen=True):
    """Resume from the kept cache that is offered."""


class DismissOffer(Action, frozen=True):
    pass


class ClearKept(Action, frozen=True):
    """Remove all kept caches, or that of one conversation."""

    conversation: int | None = None


class KeptListed(Action, frozen=True):
    """All kept caches, and the folder that they are in."""

    kept: tuple[KeptCache, ...]
    folder: str


class KeptFound(Action, frozen=True):
    """The conversation that was opened has a kept cache."""

    conversation: int
    path: str


NeedsCaches = SetResume | ClearKept
ResumeAction = NeedsCaches | KeepNow | Resume | DismissOffer | KeptListed | KeptFound


def _with(state: AppState, **changes: Any) -> AppState:
    return replace(state, resume=replace(state.resume, **changes))


def keep_left(action: object, before: AppState, result: Result, now: float) -> Result:
    """Keep a conversation's cache before something else takes its place, unless the conversation is
    deleted."""
    state, commands = result
    turned = state.chat != before.chat
    if state.running and not before.running and state.resume.offer is not None:
        state = _with(state, offer=None)  # the events of the answer list what was in the cache
    loads = any(isinstance(command, LoadModel) for command in commands)
    if not (turned or loads) or isinstance(action, DeleteConversation | DeleteAll):
        return state, commands
    first = [c for c in commands if isinstance(c, Cancel)]
    others = [c for c in commands if not isinstance(c, Cancel)]
    return state, (*first, *keeping(before), *others)


def keeping(state: AppState) -> tuple[Command, ...]:
    """Return the command that writes the cache of the chat, where there is something to write."""
    number, resume = state.history.open, state.resume
    if number is None or not resume.keeps or not state.owners or state.model is None:
        return ()
    if state.elsewhere or not state.holds_conversations:  # the cache is of another text
        return ()
    return (KeepConversation(number, kept_path(resume.folder, number), resume.budget),)


def kept_path(folder: str, conversation: int) -> str:
    return str(Path(folder) / f"{conversation}.kv")


def _prompt(state: AppState) -> tuple[tuple[Message, ...], PromptSettings]:
    """Return what a check and a resumption are of: the conversation, and what its prompt is made
    with."""
    return state.messages, state.next_prompt_settings


CHECK: Slot[KeptChecked] = Slot("kept-cache", CheckKept, KeptChecked, subject=_prompt)
RESUMED: Slot[KeptResumed] = Slot("resumed-cache", ResumeKept, KeptResumed, subject=_prompt)


def offer_status(state: AppState) -> OfferStatus | None:
    """Return what is known of the kept cache that is offered; None where none is."""
    if state.resume.offer is None:
        return None
    checked, resumed = CHECK.answered(state), RESUMED.answered(state)
    if resumed is not None:
        done = resumed.answer
        if done is None or done.unfit:
            return OfferStatus("unfit", unfit=done.unfit if done else "failed")
        return OfferStatus("resumed", len(done.prompt), done.total, seconds=done.seconds)
    if RESUMED.waiting(state) is not None:
        return OfferStatus("resuming")
    if checked is None:
        return OfferStatus("checking")
    found = checked.answer
    if found is None or found.unfit:
        return OfferStatus("unfit", unfit=found.unfit if found else "failed")
    return OfferStatus("ready", found.tokens, found.total, found.bytes)


def due(state: AppState) -> Result:
    """Check an offer against the conversation and the model as they are, and resume where the
    setting is `always`; called after every batch of events."""
    offer, status = state.resume.offer, offer_status(state)
    if offer is None or status is None:
        return state, ()
    is_there = bool(state.owners) and status.phase not in ("resuming", "resumed")
    if is_there or state.elsewhere:
        return _with(state, offer=None), ()
    if state.running or state.load or state.model is None:
        return state, ()
    if status.phase == "checking" and CHECK.waiting(state) is None:
        return CHECK.due(state, CheckKept(offer.conversation, offer.path, **_prompt_fields(state)))
    always = state.resume.mode == "always" and not state.resume.dismissed
    if status.phase == "ready" and always and not obstacle(state):
        return resume(Resume(), state, 0.0)
    return state, ()


def _prompt_fields(state: AppState) -> dict[str, Any]:
    """Return the fields of a command with the conversation whose cache is kept, and how the
    template is to write it."""
    options = state.next_prompt_settings.options
    fields = {name: value for name, value in options.items() if name != "raw"}
    return {"messages": conversation(state, state.messages), **fields}


def resume(action: Resume, state: AppState, now: float) -> Result:
    offer, status = state.resume.offer, offer_status(state)
    if offer is None or status is None or status.phase != "ready":
        return state, ()
    if problem := obstacle(state):
        return notify(state, "warning", problem, now), ()
    return RESUMED.due(state, ResumeKept(offer.conversation, offer.path, **_prompt_fields(state)))


def _set_resume(action: SetResume, state: AppState, now: float) -> Result:
    offer = None if action.mode == "off" else state.resume.offer
    return _with(state, mode=action.mode, budget=action.budget, offer=offer), ()


def _keep_now(action: KeepNow, state: AppState, now: float) -> Result:
    return state, () if state.running else keeping(state)


def _dismiss(action: DismissOffer, state: AppState, now: float) -> Result:
    return _with(state, dismissed=True), ()


def _clear(action: ClearKept, state: AppState, now: float) -> Result:
    """Remove caches from the list at once; the host deletes their files."""
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


def _found(action: KeptFound, state: AppState, now: float) -> Result:
    """Offer a kept cache, unless the conversation is in the cache already."""
    ours = action.conversation == state.history.open
    if not ours or not state.resume.keeps or state.owners or state.busy or state.elsewhere:
        return state, ()
    return _with(state, offer=Offer(action.conversation, action.path)), ()


def _keeping_replied(
    event: Event, asked: KeepConversation, state: AppState, now: float
) -> AppState:
    """Note how many tokens were written; the history's host lists the file."""
    if isinstance(event, Ended) and event.failure:
        return notify(state, "warning", event.failure, now)
    if isinstance(event, CacheKept) and asked.conversation == state.history.open:
        return _with(state, kept_tokens=event.tokens)
    return state


def _check_replied(event: Event, asked: CheckKept, state: AppState, now: float) -> AppState:
    """Keep what the offered file holds."""
    if not CHECK.waits_for(state, asked):
        return state
    state = replied(event, asked, state, now)
    if isinstance(event, KeptChecked):
        return _with_damage(state, event, now)
    return _without_answer(event, CHECK, state)


def _resume_replied(event: Event, asked: ResumeKept, state: AppState, now: float) -> AppState:
    """Keep what the file brought into the cache."""
    if not RESUMED.waits_for(state, asked):
        return state
    prompt = state.asks[RESUMED].waiting
    state = replied(event, asked, state, now)
    if not isinstance(event, KeptResumed):
        return _without_answer(event, RESUMED, state)
    if event.unfit or prompt is None:
        return _with_damage(state, event, now)
    state = _with(state, kept_tokens=len(event.prompt))
    if state.running:  # an answer began meanwhile; its own events list what is in the cache
        return state
    messages, settings = cast(tuple[tuple[Message, ...], PromptSettings], prompt.stamp.subject)
    lead = len(asked.messages) - len(messages)
    owners = tuple(owner_of(token.message, lead) for token in event.prompt)
    state = begun(state, event.prompt, owners, settings)
    return replace(state, cached=replace(state.cached, is_cut=event.is_cut))


def _without_answer(event: Event, slot: Slot[Any], state: AppState) -> AppState:
    """Offer nothing any more where a question ended without an answer: it was cancelled, or there
    was no file."""
    ended = isinstance(event, Ended) and not event.failure
    return _with(state, offer=None) if ended and slot.answer(state) is None else state


def _with_damage(state: AppState, event: KeptChecked | KeptResumed, now: float) -> AppState:
    if event.unfit != "damaged":
        return state
    words = tr("The kept cache of this conversation is damaged and was removed: {problem}.")
    again = tr("It is read again.")
    return notify(state, "warning", f"{words.format(problem=event.problem)} {again}", now)


class IdleWork(Struct):
    """Actions for idle times. `poll` takes a time in seconds and returns what is due, once."""

    _messages: tuple[Message, ...] = ()
    _since: float = 0.0  # when the messages changed, or the engine had something to do
    _kept: bool = True  # these messages, or it was tried
    _tries: int = 0
    _open: int | None = None

    def poll(self, state: AppState, now: float) -> list[AskTitle | KeepNow]:
        if state.messages is not self._messages or not is_idle(state):
            self._messages, self._since, self._kept = state.messages, now, False
            return []
        if state.history.open != self._open:
            self._open, self._tries = state.history.open, 0
        return [*self._title(state, now), *self._keep(state, now)]

    def _title(self, state: AppState, now: float) -> list[AskTitle | KeepNow]:
        number, first = state.history.open, _is_first(state.messages)
        if number is None or not first or not state.history.titles or self._tries >= TRIES:
            return []
        if number == state.history.title_asked:
            return []
        if now - self._since < TITLE_SECONDS * (1 + self._tries):
            return []
        self._tries += 1
        return [AskTitle(number)]

    def _keep(self, state: AppState, now: float) -> list[AskTitle | KeepNow]:
        if self._kept or now - self._since < KEEP_SECONDS:
            return []
        self._kept = True
        return [KeepNow()] if state.resume.kept_tokens != state.context_used else []


def _is_first(messages: tuple[Message, ...]) -> bool:
    """Return whether there is one question with its answer, and nothing more."""
    return len(messages) == 2 and messages[1].role == "assistant" and bool(messages[1].text)


HANDLERS: dict[type[Any], Callable[[Any, AppState, float], Result]] = {
    SetResume: _set_resume,
    KeepNow: _keep_now,
    Resume: resume,
    DismissOffer: _dismiss,
    ClearKept: _clear,
    KeptListed: _listed,
    KeptFound: _found,
}
REPLIES: dict[type[Any], Callable[[Event, Any, AppState, float], AppState]] = {
    KeepConversation: _keeping_replied,
    CheckKept: _check_replied,
    ResumeKept: _resume_replied,
}
