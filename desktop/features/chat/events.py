"""Events of the engine about the conversation in front, folded into the state: a prompt is read,
tokens are written, an answer ends."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from llm_lite.core.messages import (
    CacheRewritten,
    ConversationRead,
    GenerationFinished,
    GenerationStarted,
    PrefillProgress,
    TokenDecoded,
    TokensCounted,
    TokensSpelled,
)
from llm_lite.core.records import replace
from llm_lite.desktop.features.cache import state as cache_state
from llm_lite.desktop.features.chat import turns
from llm_lite.desktop.features.chat.reading import begun, ended, owner_of
from llm_lite.desktop.features.chat.thoughts import Thought
from llm_lite.desktop.features.performance import speed
from llm_lite.desktop.features.program.notices import notify
from llm_lite.desktop.features.program.state import RATE_WINDOW, AppState, Message, Running, Token
from llm_lite.desktop.features.tools.state import split_calls
from llm_lite.desktop.features.tree.model import spelled


def _generation_started(event: GenerationStarted, state: AppState, now: float) -> AppState:
    running = state.running
    if running is None or running.request != event.request:
        return state
    running = replace(
        running,
        phase="prefill",
        prompt_tokens=event.prompt_tokens,
        reused_tokens=event.reused_tokens,
        done=event.reused_tokens,
        thinking=event.thinking,
    )
    owners = tuple(owner_of(token.message, running.lead) for token in event.prompt)
    reused, tokens = event.reused_tokens, event.prompt_tokens
    state = replace(state, running=running)
    return begun(state, event.prompt, owners, reused=reused, tokens=tokens, used=reused)


def _prefill_progress(event: PrefillProgress, state: AppState, now: float) -> AppState:
    running, reading = state.running, state.reading
    if reading is not None and reading.request == event.request:
        return replace(state, reading=replace(reading, done=event.done, total=event.total))
    if running is None or running.request != event.request:
        return state
    running = replace(running, phase="prefill", done=event.done, prompt_tokens=event.total)
    used = min(max(state.context_used, event.done), len(state.owners) or event.done)
    return replace(state, running=running, context_used=used)


def _conversation_read(event: ConversationRead, state: AppState, now: float) -> AppState:
    reading = state.reading
    if reading is None or reading.request != event.request:
        return state
    state, lead = replace(state, reading=None), reading.lead
    if event.message:
        return notify(state, "error", event.message, now)
    return begun(state, event.prompt, tuple(owner_of(t.message, lead) for t in event.prompt))


def _token_decoded(event: TokenDecoded, state: AppState, now: float) -> AppState:
    return decoded([event], state, now)


def decoded(events: Sequence[TokenDecoded], state: AppState, now: float) -> AppState:
    """Fold tokens of one request, which follow each other, into the answer."""
    running, newest, count = state.running, events[-1], len(events)
    if running is None or running.request != newest.request:
        return state
    arrivals = (*(t for t in running.arrivals if now - t <= RATE_WINDOW), *[now] * count)
    first = running.first_token if running.first_token is not None else now
    since = newest.step_ms / 1e3 if running.received is None else now - running.received
    ttft_ms = next((event.ttft_ms for event in events if event.ttft_ms), running.ttft_ms)
    running = replace(
        running, phase="decode", arrivals=arrivals, first_token=first, received=now, ttft_ms=ttft_ms
    )
    last = _answer(state)
    tokens = [_token(e, running, at) for at, e in enumerate(events, len(last.tokens))]
    texts = [event.text for event in events]
    thought = last.thought
    if running.thinking and not last.tokens and not last.text:
        thought = Thought.of(running.thinking)
    thought = thought and thought.heard(events, since)
    text = thought.split.visible_text if thought else last.spoken + "".join(texts)
    calls = split_calls(last.calls, running.tool_style, text)
    text = calls.visible_text if calls else text
    last = replace(last, text=text, thought=thought, calls=calls, tokens=(*last.tokens, *tokens))
    state = _with_answer(state, last)
    owner = len(state.messages) - 1
    state = replace(
        state,
        running=running,
        context_used=newest.context_used,
        positions=(*state.positions, *texts),
        owners=(*state.owners, *[owner] * count),
        cache=cache_state.decoded(state.cache, len(state.owners), owner, count),
    )
    return speed.sampled(state, count, sum(event.step_ms for event in events), now)


def _generation_finished(event: GenerationFinished, state: AppState, now: float) -> AppState:
    running = state.running
    if event.request == state.draining:
        return replace(state, draining=None)
    if running is None or running.request != event.request:
        return state
    last = _answer(state).ended()
    last = replace(last, stop_reason=event.stop_reason, stats=event.stats, problem=event.message)
    state = replace(
        _with_answer(state, last),
        running=None,
        context_used=event.stats.context_used or state.context_used,
    )
    state = ended(state, running)
    state = speed.completed(turns.with_turns(state), running, event.stats)
    if event.stop_reason == "error" and event.message:
        return notify(state, "error", event.message, now)
    return state


def _tokens_spelled(event: TokensSpelled, state: AppState, now: float) -> AppState:
    known = (i for i, m in enumerate(state.messages) if m.key == event.key and m.restored)
    index = next(known, None)
    if index is None:
        return state
    message = spelled(state.messages[index], event.tokens, event.texts)
    return replace(state, messages=(*state.messages[:index], message, *state.messages[index + 1 :]))


def _tokens_counted(event: TokensCounted, state: AppState, now: float) -> AppState:
    if event.message and event.request == state.files.request:
        state = notify(state, "warning", event.message, now)
    counted = state.counted
    if event.request and event.request == counted.request:
        counted = replace(counted, request=0, tokens=event.conversation)
    return replace(state, files=state.files.counted(event), counted=counted)


def _cache_rewritten(event: CacheRewritten, state: AppState, now: float) -> AppState:
    running = state.running
    if running is None or running.request != event.request:
        return state
    owners = tuple(owner_of(token.message, running.lead) for token in event.tokens)
    cache = cache_state.rewritten(state.cache, event.tokens, event.forgotten, state.owners)
    return replace(
        state,
        positions=tuple(token.text for token in event.tokens),
        owners=owners,
        context_used=len(owners),
        cache=cache,
        attention=replace(state.attention, row=None),
        attention_rows=None,
    )


def _token(event: TokenDecoded, running: Running, index: int) -> Token:
    """Return the token; one that was forced and not scored again keeps its probability."""
    token = Token(
        event.token,
        event.text,
        event.probability,
        event.alternatives,
        event.allowed,
        event.accepted,
        tuple(drafted.text for drafted in event.rejected),
    )
    if event.probability == event.probability or index >= len(running.forced):
        return token
    before = running.forced[index]
    return replace(
        token,
        probability=before.probability,
        alternatives=before.alternatives,
        allowed=before.allowed,
    )


def _answer(state: AppState) -> Message:
    """Return the answer being written; a new one where the conversation ends with a user."""
    last = state.messages[-1] if state.messages else None
    return last if last and last.role == "assistant" else Message("assistant", "")


def _with_answer(state: AppState, answer: Message) -> AppState:
    last = state.messages[-1] if state.messages else None
    kept = state.messages[:-1] if last and last.role == "assistant" else state.messages
    return replace(state, messages=(*kept, answer))


EVENTS: dict[type[Any], Callable[[Any, AppState, float], AppState]] = {
    GenerationStarted: _generation_started,
    PrefillProgress: _prefill_progress,
    ConversationRead: _conversation_read,
    TokenDecoded: _token_decoded,
    GenerationFinished: _generation_finished,
    TokensSpelled: _tokens_spelled,
    TokensCounted: _tokens_counted,
    CacheRewritten: _cache_rewritten,
}
