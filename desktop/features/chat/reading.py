"""What a model has read of the conversation in front: how it begins, grows, is cut and ends."""

from __future__ import annotations

from collections.abc import Sequence

from llm_lite.core.messages import PromptToken
from llm_lite.core.records import replace
from llm_lite.desktop.features.cache import state as cache_state
from llm_lite.desktop.features.chat import turns
from llm_lite.desktop.features.program.state import AppState, Counted, Lens, RowDetails, Running
from llm_lite.desktop.features.tokens.state import SYSTEM, TEMPLATE, cut


def owner_of(message: int, lead: int) -> int:
    """Of a position, by the message's number in what the engine was told, which had `lead` messages
    before those of the conversation."""
    if message < 0:
        return TEMPLATE
    return message - lead if message >= lead else SYSTEM


def begun(
    state: AppState,
    prompt: Sequence[PromptToken],
    owners: tuple[int, ...],
    *,
    reused: int = 0,
    tokens: int | None = None,
    used: int | None = None,
) -> AppState:
    """The cache holds, or soon will, the conversation up to `prompt`; `used` positions by now."""
    prompt, length = tuple(prompt), len(prompt)
    resume = state.resume
    if resume.offer is not None and resume.offer.phase not in ("resuming", "resumed"):
        resume = replace(resume, offer=None)  # what it offers is there
    state = replace(
        state,
        resume=resume,
        context_used=length if used is None else used,
        positions=tuple(token.text for token in prompt),
        owners=owners,
        cache=cache_state.started(
            state.cache, prompt, reused, length if tokens is None else tokens
        ),
        attention_rows=None,
    )
    return turns.with_turns(_outdated(state))


def ended(state: AppState, running: Running) -> AppState:
    """An answer has ended: the cache holds all of the conversation, unless it was stopped before
    its prompt was read, or something was forgotten or refused."""
    state = replace(state, steering=state.steering.outdated())
    if running.phase != "decode":
        return state
    last = state.messages[-1]
    told_otherwise = last.untokenized or not last.whole or last.stop_reason == "error"
    if told_otherwise or state.cache.forgotten:
        return state
    return replace(state, counted=Counted(state.messages, running.beside, state.context_used))


def first_messages(state: AppState, messages: int) -> AppState:
    """Without what was read of the messages after so many: others stand in their places."""
    owners = cut(state.owners, messages)
    length = len(owners)
    if length == len(state.owners) and length >= state.context_used:
        return state
    cache = state.cache.first(length, cut(state.cache.all_owners, messages))
    row, at = state.attention.row, state.xray.at
    state = replace(
        state,
        owners=owners,
        positions=state.positions[:length],
        context_used=min(state.context_used, length),
        cache=cache,
        attention=replace(state.attention, row=None if row is None or row >= length else row),
        xray=replace(state.xray, at=None if at is None or at >= length else at),
        row_details=RowDetails(),
        rows_request=0,
        attention_rows=None,
        lens=Lens(),
        lesson=state.lesson.of_next_conversation(),
    )
    return turns.with_turns(_outdated(state))


def _outdated(state: AppState) -> AppState:
    """What was measured of the conversation's end is of another end."""
    return replace(state, steering=state.steering.outdated())
