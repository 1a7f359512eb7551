"""Asks for the experts that tokens chose, and switches experts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

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
    return replace(state, routing=replace(routing, key=action.key, asked=asked)), (asked,)


def known_tokens(routing: RoutingLook, key: tuple[object, ...]) -> int:
    """Return how many of the first tokens are those that were read, on the same executor."""
    read = routing.read
    if read is None or not routing.read_of or routing.read_of[1:] != key[1:]:
        return 0
    before, after = routing.read_of[0], key[0]
    assert isinstance(before, tuple) and isinstance(after, tuple)
    same = next(
        (i for i, pair in enumerate(zip(before, after, strict=False)) if pair[0] != pair[1]),
        min(len(before), len(after)),
    )
    end = read.first + read.count
    return min(same, end) if same > read.first else 0


def joined(held: RoutingRead | None, found: RoutingRead, asked: ReadRouting) -> RoutingRead | None:
    """Return what was found behind what is held of the tokens before; None where choices of tokens
    between are missing, or those that are held are of others."""
    if asked.first == 0:
        return found
    if held is None or found.epoch != held.epoch or found.first != asked.first:
        return None
    each = len(held.layers) * held.chosen * (asked.first - held.first)
    return replace(
        found,
        first=held.first,
        experts_chosen=held.experts_chosen[: 2 * each] + found.experts_chosen,
        shares=held.shares[: 4 * each] + found.shares,
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
