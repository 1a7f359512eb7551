"""What the engine says of kept caches and learned drafts, folded into the state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llm_lite.core.messages import CacheKept, DraftsLearned, KeptChecked, KeptResumed, TitleMade
from llm_lite.core.records import replace
from llm_lite.desktop.features.chat.reading import begun, owner_of
from llm_lite.desktop.features.program.notices import notify
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.features.resume.state import Offer
from llm_lite.desktop.language.translate import tr


def _kept(event: CacheKept, state: AppState, now: float) -> AppState:
    """Its keeper lists it."""
    if event.problem:
        return notify(state, "warning", event.problem, now)
    if event.conversation != state.history.open:
        return state
    return replace(state, resume=replace(state.resume, kept_tokens=event.tokens))


def _checked(event: KeptChecked, state: AppState, now: float) -> AppState:
    offer = _offer(state, event.conversation)
    if offer is None or offer.phase != "checking":
        return state
    changes = (event.tokens, event.total, event.bytes)
    tokens, total, size = changes
    phase: Any = "unfit" if event.unfit else "ready"
    offer = replace(
        offer, phase=phase, tokens=tokens, total=total, bytes=size,
        unfit=event.unfit, problem=event.problem,
    )  # fmt: skip
    return _with_offer(state, offer, now)


def _resumed(event: KeptResumed, state: AppState, now: float) -> AppState:
    offer = _offer(state, event.conversation)
    if offer is None or offer.request != event.request:
        return state
    if event.unfit:
        offer = replace(offer, phase="unfit", unfit=event.unfit, problem=event.problem)
        return _with_offer(state, offer, now)
    offer = replace(offer, phase="resumed", tokens=len(event.prompt), seconds=event.seconds)
    state = replace(state, resume=replace(state.resume, kept_tokens=len(event.prompt)))
    state = _with_offer(state, offer, now)
    if state.running:  # an answer began meanwhile, and says itself what is there
        return state
    owners = tuple(owner_of(token.message, offer.lead) for token in event.prompt)
    return begun(state, event.prompt, owners)


def _titled(event: TitleMade, state: AppState, now: float) -> AppState:
    """Asked again only where it was interrupted; its keeper judges it."""
    if event.text is not None or state.history.title_asked != event.conversation:
        return state
    return replace(state, history=replace(state.history, title_asked=None))


def _learned(event: DraftsLearned, state: AppState, now: float) -> AppState:
    return replace(state, learned_drafts=event)


def _offer(state: AppState, conversation: int) -> Offer | None:
    offer = state.resume.offer
    return offer if offer is not None and offer.conversation == conversation else None


def _with_offer(state: AppState, offer: Offer, now: float) -> AppState:
    state = replace(state, resume=replace(state.resume, offer=offer))
    if offer.unfit == "damaged":
        words = tr("The kept cache of this conversation is damaged and was removed: {problem}.")
        told = tr("It is read again.")
        return notify(state, "warning", f"{words.format(problem=offer.problem)} {told}", now)
    return state


EVENTS: dict[type[Any], Callable[[Any, AppState, float], AppState]] = {
    CacheKept: _kept,
    KeptChecked: _checked,
    KeptResumed: _resumed,
    DraftsLearned: _learned,
    TitleMade: _titled,
}
