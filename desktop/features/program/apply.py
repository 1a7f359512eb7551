"""The pure `apply`: an event of the engine folded into the state."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from typing import Any

from llm_lite.core.messages import (
    CacheRewritten,
    ConversationRead,
    Event,
    ExecutorChanged,
    FileDamaged,
    GenerationFinished,
    GenerationStarted,
    LoadFailed,
    LoadNeedsMemory,
    LoadProgress,
    LoadStarted,
    Logged,
    ModelLoaded,
    PrefillProgress,
    TokenDecoded,
    TokensCounted,
    TokensSpelled,
)
from llm_lite.core.records import replace
from llm_lite.desktop.features.attention import fold as looking
from llm_lite.desktop.features.cache import fold as caching
from llm_lite.desktop.features.cache import state as cache_state
from llm_lite.desktop.features.chat import turns
from llm_lite.desktop.features.chat.reading import begun, ended, owner_of
from llm_lite.desktop.features.chat.thoughts import Thought
from llm_lite.desktop.features.encoder import fold as encoding
from llm_lite.desktop.features.performance import speed
from llm_lite.desktop.features.program.notices import add_log, notify
from llm_lite.desktop.features.program.scopes import next_model
from llm_lite.desktop.features.program.state import (
    RATE_WINDOW,
    RECENT_FILES,
    AppState,
    Lens,
    Load,
    LogLine,
    Message,
    Running,
    Token,
)
from llm_lite.desktop.features.quantization import model as quantizing
from llm_lite.desktop.features.resume import fold as resuming
from llm_lite.desktop.features.serving import fold as serving
from llm_lite.desktop.features.tokenizer import model as tokenizing
from llm_lite.desktop.features.tools.state import heard
from llm_lite.desktop.features.translator import model as translating
from llm_lite.desktop.features.tree.spelling import spelled
from llm_lite.desktop.language.incoming import fit_to_show
from llm_lite.desktop.language.translate import tr


def apply(event: Event, state: AppState, now: float) -> AppState:
    """The state after `event`, which came at `now`; those of a dropped request change nothing."""
    if type(event) not in _HANDLERS:
        raise TypeError(f"not an event: {event!r}")
    return _HANDLERS[type(event)](fit_to_show(event), state, now)


def fold(events: Iterable[Event], state: AppState, now: float) -> AppState:
    """The state after `events`, which were heard together at `now`. Tokens of an answer that follow
    each other become part of it at once: each alone would copy all that was said before it."""
    for request, together in groupby(events, _request):
        if request is None:
            for event in together:
                state = apply(event, state, now)
        else:
            tokens = [fit_to_show(e) for e in together if isinstance(e, TokenDecoded)]
            state = _decoded(tokens, state, now)
    return state


def _request(event: Event) -> int | None:
    return event.request if isinstance(event, TokenDecoded) else None


def _load_started(event: LoadStarted, state: AppState, now: float) -> AppState:
    known = state.load
    if known is not None and known.request:  # the change that is wanted now, or one before it
        return replace(state, load=replace(known, stage="opening", fraction=0.0))
    return replace(state, load=Load(event.source, mode=event.mode))


def _load_progress(event: LoadProgress, state: AppState, now: float) -> AppState:
    if state.load is None:
        return state
    fraction = min(1.0, max(0.0, event.fraction))
    return replace(state, load=replace(state.load, stage=event.stage, fraction=fraction))


def _model_loaded(event: ModelLoaded, state: AppState, now: float) -> AppState:
    if state.model is None or state.model.path != event.model.path:
        state = quantizing.forget(state)
    opened = () if event.executor.backend == "remote" else (event.model.path,)
    recent = (*opened, *(p for p in state.recent if p not in opened))
    model, parts = event.model, event.model.kind == "encoder-decoder"
    return next_model(
        state,
        load=None,
        model=model,
        executor=event.executor,
        load_seconds=event.seconds,
        reading=None,
        attention=state.attention.fit(model.layers, model.heads, parts=parts),
        xray=state.xray.fit(model.layers, model.heads, state.model is None),
        lesson=state.lesson.of_model(model),
        encoding=state.encoding.forgotten(),
        translating=state.translating.forgotten(),
        steering=state.steering.of_next_model().fit(model),
        # The engine loads a model with gains of 1; one elsewhere leaves those here as they are.
        gains_told=None if opened else state.gains_told,
        recent=recent[:RECENT_FILES],
    )


def _load_failed(event: LoadFailed, state: AppState, now: float) -> AppState:
    known, superseded = state.load, False
    if known is not None and known.request:
        superseded = event.request != known.request
        if not superseded and known.in_use is not None:
            state = replace(state, options=known.in_use)  # which is what goes on
    if superseded:
        return state if event.cancelled else notify(state, "error", event.message, now)
    state = replace(state, load=None)
    if event.cancelled:
        return notify(state, "info", tr("Loading was cancelled."), now)
    if state.memory_question is not None:
        return state  # which says it
    return notify(state, "error", event.message, now)


def _load_needs_memory(event: LoadNeedsMemory, state: AppState, now: float) -> AppState:
    return replace(state, memory_question=event)


def _executor_changed(event: ExecutorChanged, state: AppState, now: float) -> AppState:
    before = state.executor.reason if state.executor else ""
    reason = event.executor.reason
    cache = replace(state.cache, measured=None, request=0)
    state = replace(state, executor=event.executor, model=event.model, cache=cache)
    known = state.load
    if known is not None and known.request not in (0, event.request):
        # Something else changed it meanwhile; what a person wants now is still to come.
        state = replace(state, load=replace(known, in_use=event.options or known.in_use))
    else:
        state = replace(state, load=None)
        if event.options is not None:  # a client of the server may have switched it
            mode, activations = event.options.mode, event.options.activations
            options = replace(state.options, mode=mode, activations=activations)
            state = replace(state, options=options)
    state = replace(state, encoding=state.encoding.outdated())
    state = replace(state, lesson=replace(state.lesson, key=None))  # its numbers are other ones
    state = replace(state, lens=Lens())  # a CacheStatus follows: what of the cache is there
    return notify(state, "warning", reason, now) if reason not in ("", before) else state


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
    return _decoded([event], state, now)


def _decoded(events: Sequence[TokenDecoded], state: AppState, now: float) -> AppState:
    """Tokens of one request, one after the other."""
    running, newest, count = state.running, events[-1], len(events)
    if running is None or running.request != newest.request:
        return state
    arrivals = (*(t for t in running.arrivals if now - t <= RATE_WINDOW), *[now] * count)
    first = running.first_token if running.first_token is not None else now
    since = newest.step_ms / 1e3 if running.heard is None else now - running.heard
    ttft_ms = next((event.ttft_ms for event in events if event.ttft_ms), running.ttft_ms)
    running = replace(
        running, phase="decode", arrivals=arrivals, first_token=first, heard=now, ttft_ms=ttft_ms
    )
    last = _answer(state)
    tokens = [_judged(e, running, at) for at, e in enumerate(events, len(last.tokens))]
    texts = [event.text for event in events]
    thought = last.thought
    if running.thinking and not last.tokens and not last.text:
        thought = Thought.of(running.thinking)
    thought = thought and thought.heard(events, since)
    text = thought.split.visible_text if thought else last.spoken + "".join(texts)
    calls = heard(last.calls, running.tool_style, text)
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
    """What the tokens of an answer stand for that was read from the history."""
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


def _file_damaged(event: FileDamaged, state: AppState, now: float) -> AppState:
    return notify(state, "error", event.message, now)


def _logged(event: Logged, state: AppState, now: float) -> AppState:
    return add_log(state, LogLine(event.level, event.text, event.time))


_HANDLERS: dict[type[Any], Callable[[Any, AppState, float], AppState]] = {
    LoadStarted: _load_started,
    LoadProgress: _load_progress,
    ModelLoaded: _model_loaded,
    LoadFailed: _load_failed,
    LoadNeedsMemory: _load_needs_memory,
    ExecutorChanged: _executor_changed,
    GenerationStarted: _generation_started,
    PrefillProgress: _prefill_progress,
    ConversationRead: _conversation_read,
    TokenDecoded: _token_decoded,
    GenerationFinished: _generation_finished,
    TokensSpelled: _tokens_spelled,
    TokensCounted: _tokens_counted,
    CacheRewritten: _cache_rewritten,
    FileDamaged: _file_damaged,
    Logged: _logged,
    **caching.EVENTS,
    **encoding.EVENTS,
    **looking.EVENTS,
    **resuming.EVENTS,
    **serving.EVENTS,
    **tokenizing.EVENTS,
    **translating.EVENTS,
    **dict.fromkeys(quantizing.EVENTS, quantizing.fold),
}


def _judged(event: TokenDecoded, running: Running, index: int) -> Token:
    """The token; one that was forced and not judged again is as it was."""
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
    """The assistant's message being written; a new one where the conversation ends with a user."""
    last = state.messages[-1] if state.messages else None
    return last if last and last.role == "assistant" else Message("assistant", "")


def _with_answer(state: AppState, answer: Message) -> AppState:
    last = state.messages[-1] if state.messages else None
    kept = state.messages[:-1] if last and last.role == "assistant" else state.messages
    return replace(state, messages=(*kept, answer))
