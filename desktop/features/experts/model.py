"""Asks for the experts that tokens chose, and switches experts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from llm_lite.core.messages import Ended, Event, ReadRouting, RoutingRead
from llm_lite.core.records import replace
from llm_lite.desktop.features.experts.state import RoutingLook
from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.requests import Result
from llm_lite.desktop.features.program.state import AppState


class LookAtExperts(Action, frozen=True):
    """Ask which experts the tokens chose; `key` is what the text is now."""

    key: tuple[object, ...]


def look_at_experts(action: LookAtExperts, state: AppState, now: float) -> Result:
    """Ask for the tokens that are not known yet, one question at a time."""
    routing = state.routing
    if routing.asked is not None or routing.key == action.key:
        return state, ()
    asked = ReadRouting(known_tokens(routing, action.key))
    true = without_changed(routing, action.key)
    return replace(state, routing=replace(true, key=action.key, asked=asked)), (asked,)


def known_tokens(routing: RoutingLook, key: tuple[object, ...]) -> int:
    """Return how many of the first tokens are those that were read, on the same executor."""
    read = routing.read
    if read is None or routing.read_of[1:] != key[1:]:
        return 0
    same = _same_tokens(routing, key)
    return min(same, read.first + read.count) if same > read.first else 0


def without_changed(routing: RoutingLook, key: tuple[object, ...]) -> RoutingLook:
    """Return what was read without the tokens that are others now: they are not in front."""
    read, same = routing.read, _same_tokens(routing, key)
    if read is None or same >= read.first + read.count:
        return routing
    if same <= read.first:
        return replace(routing, read=None, read_of=())
    texts = texts_read(routing)[:same]
    return replace(routing, read=_cut(read, same), read_of=(texts, *routing.read_of[1:]))


def texts_read(routing: RoutingLook) -> tuple[str, ...]:
    """Return the texts of the tokens whose choices were read, by position."""
    return cast(tuple[str, ...], routing.read_of[0]) if routing.read_of else ()


def _same_tokens(routing: RoutingLook, key: tuple[object, ...]) -> int:
    """Return how many of the first tokens have the texts that they had when they were read."""
    before, after = texts_read(routing), cast(tuple[str, ...], key[0])
    pairs = enumerate(zip(before, after, strict=False))
    return next((i for i, (a, b) in pairs if a != b), min(len(before), len(after)))


def _cut(read: RoutingRead, end: int) -> RoutingRead:
    """Return the choices of the tokens before a position."""
    each = len(read.layers) * read.chosen * (end - read.first)
    return replace(
        read, experts_chosen=read.experts_chosen[: 2 * each], shares=read.shares[: 4 * each]
    )


def joined(held: RoutingRead | None, found: RoutingRead, asked: ReadRouting) -> RoutingRead | None:
    """Return what was found behind what is held of the tokens before; None where choices of tokens
    between are missing, or those that are held are of others."""
    if asked.first == 0:
        return found
    if held is None or found.epoch != held.epoch or found.first != asked.first:
        return None
    before = _cut(held, asked.first)
    return replace(
        found,
        first=held.first,
        experts_chosen=before.experts_chosen + found.experts_chosen,
        shares=before.shares + found.shares,
    )


def _replied(event: Event, asked: ReadRouting, state: AppState, now: float) -> AppState:
    routing = state.routing
    if asked is not routing.asked:
        return state
    if isinstance(event, RoutingRead):
        read = joined(routing.read, event, asked)
        key = routing.key if read is not None else ()  # all is asked again
        changed = replace(routing, read=read, read_of=key, key=key, problem="")
        return replace(state, routing=changed)
    if isinstance(event, Ended):
        problem = event.failure or routing.problem
        return replace(state, routing=replace(routing, asked=None, problem=problem))
    return state


HANDLERS: dict[type[Any], Callable[[Any, AppState, float], Result]] = {
    LookAtExperts: look_at_experts
}
REPLIES: dict[type[Any], Callable[[Event, Any, AppState, float], AppState]] = {
    ReadRouting: _replied
}
