"""How much of the context the conversation in front takes, whatever the cache holds: its tokens,
whole turns, how many more fit, a position's token."""

from __future__ import annotations

from statistics import median

from msgspec import Struct

from llm_lite.core.records import replace
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.features.tokens.state import TEMPLATE


def token_id(state: AppState, position: int) -> int | None:
    """Return the id of the token at a position; None where that is not known."""
    prompt = state.cache.prompt
    if position < len(prompt):
        return prompt[position].id
    answer = state.messages[-1].tokens if state.messages else ()
    index = len(answer) - (len(state.positions) - position)
    return answer[index].id if 0 <= index < len(answer) else None


def tokens_in_front(state: AppState) -> int | None:
    """Return the tokens of the conversation in front; None where they are not counted yet."""
    running = state.running
    if running is not None and running.phase != "waiting":
        return max(running.prompt_tokens, state.context_used)
    if not state.messages:
        return 0
    return state.counted.tokens


class Forecast(Struct, frozen=True):
    """How many turns as long as those before, in the median, still fit."""

    turns: int
    typical: int  # tokens


def forecast(state: AppState) -> Forecast | None:
    """Return the forecast; None before the first whole turn."""
    if state.model is None:
        return None
    if not state.cache.turns:
        return None
    typical = max(1, round(median(state.cache.turns)))
    room = max(0, state.model.context - (tokens_in_front(state) or state.context_used))
    return Forecast(room // typical, typical)


def with_turns(state: AppState) -> AppState:
    """With the tokens of each whole turn: a question and its answer, with what the template puts
    around them."""
    owners = state.cache.all_owners or state.owners
    users = {i for i, message in enumerate(state.messages) if message.role in ("user", "text")}
    starts: list[int] = []
    lead, before = 0, TEMPLATE
    for position, owner in enumerate(owners):
        if owner in users and owner != before:
            starts.append(lead)
        if owner != TEMPLATE:
            lead, before = position + 1, owner
    sizes = [b - a for a, b in zip(starts, [*starts[1:], len(owners)], strict=False)]
    whole = tuple(sizes[:-1] if state.running else sizes)
    return replace(state, cache=replace(state.cache, turns=whole))
