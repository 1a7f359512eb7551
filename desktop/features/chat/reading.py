"""The conversation in front as the model has it: what was read of it, the tokens and turns that it
takes, the tools that it is offered, and the calls that wait."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from msgspec import Struct

from llm_lite.core.messages import AnswerRun, PromptToken, ToolCall, ToolSpec
from llm_lite.core.plain_text import estimate
from llm_lite.core.records import replace
from llm_lite.desktop.features.program import cached_text
from llm_lite.desktop.features.program.cached_text import PromptSettings
from llm_lite.desktop.features.program.state import (
    AppState,
    Counted,
    Message,
    Running,
)
from llm_lite.desktop.features.tokens.state import SYSTEM, TEMPLATE
from llm_lite.desktop.features.tools.state import Approval, CallRound, approval_of, chosen

ROUNDS = 8  # of calls behind each other; then a person is asked
LEAST_READ = 32  # tokens of a prompt whose speed means something
_CUT = 32  # tokens that a conversation that filled the context may have less when it is read again


def owner_of(message: int, lead: int) -> int:
    """Return the owner of a position: the index of a message of the conversation, TEMPLATE or
    SYSTEM. `message` is its number in what the engine was given, which had `lead` messages before
    those of the conversation."""
    if message < 0:
        return TEMPLATE
    return message - lead if message >= lead else SYSTEM


def begun(
    state: AppState,
    prompt: Sequence[PromptToken],
    owners: tuple[int, ...],
    prompt_settings: PromptSettings,
    *,
    reused: int = 0,
    tokens: int | None = None,
    used: int | None = None,
) -> AppState:
    """Note that the cache holds, or soon will, the conversation up to `prompt`, and what that was
    made with; it holds `used` positions by now."""
    length = len(prompt)
    cached = cached_text.begun(
        state.cached,
        prompt,
        owners,
        reused,
        length if tokens is None else tokens,
        length if used is None else used,
        state.chat,
        tuple(message.id for message in state.messages),
        prompt_settings,
    )
    return with_turns(replace(state, cached=cached))


def with_turns(state: AppState) -> AppState:
    """Find the turns of what was read."""
    users = {i for i, message in enumerate(state.messages) if message.role in ("user", "text")}
    return replace(state, cached=cached_text.with_turns(state.cached, users))


def ended(state: AppState, running: Running) -> AppState:
    """Note that an answer has ended: the cache holds all of the conversation, unless the answer was
    stopped before its prompt was read, or something was forgotten or refused."""
    if running.phase != "decode":
        return state
    last = state.messages[-1]
    differs = last.untokenized or not last.whole or last.stop_reason == "error"
    if differs or state.cached.forgotten:
        return state
    return replace(state, count=Counted(state.messages, running.prompt_settings, state.cached.used))


def is_unsettled(state: AppState, tokens: int) -> bool:
    """Return whether the cache may soon hold so many first tokens of what is in front: they are
    counted, or read."""
    if len(state.positions) >= tokens or not state.messages:
        return False
    counts = state.counted.asked is not None or state.counted.messages is None
    return counts or state.reading is not None or state.running is not None


def token_id(state: AppState, position: int) -> int | None:
    """Return the id of the token at a position; None where that is not known."""
    ids = state.in_front.ids
    return ids[position] if 0 <= position < len(ids) else None


def tokens_in_front(state: AppState) -> int | None:
    """Return the tokens of the conversation in front; None where they are not counted yet."""
    running = state.running
    if running is not None:
        return max(running.prompt_tokens, state.context_used) or state.counted.tokens
    if not state.messages:
        return 0
    return state.counted.tokens


def tokens_words(state: AppState, tokens: int) -> str:
    """Return how many tokens the conversation in front has, in words: an estimate has two digits
    that mean something."""
    if not state.counted.about or tokens != state.counted.tokens:
        return f"{tokens:,}"
    return estimate(tokens)


def seconds_to_read(state: AppState, count: int) -> float:
    """Return how long reading this many tokens would take, by the speed of this model so far, in
    this conversation or the last one that was read; 0 if it is not known."""
    now = AnswerRun.by(state.model, state.executor)
    alike = (m.stats for m in state.messages if m.stats and m.written and m.written.is_like(now))
    known = [*alike, *filter(None, (state.last_stats,))]
    read = [s for s in known if s.prompt_tokens - s.reused_tokens >= LEAST_READ]
    best = max(read, key=lambda s: s.prompt_tokens - s.reused_tokens, default=None)
    if best is not None and best.prefill_tok_s > 0:
        return count / best.prefill_tok_s
    executor, rate = state.read_rate
    return count / rate if rate > 0 and executor == state.executor else 0.0


def with_read_rate(state: AppState, tokens: int, seconds: float) -> AppState:
    """Note how fast so many tokens were read, where they say something about the speed."""
    if tokens < LEAST_READ or seconds <= 0:
        return state
    return replace(state, read_rate=(state.executor, tokens / seconds))


def too_long(state: AppState) -> int | None:
    """Return how many tokens the conversation in front has where no answer fits behind them and
    nothing may be forgotten; None where one does, or where that is not known."""
    model = state.model
    if model is None or not model.context or not state.holds_conversations or state.elsewhere:
        return None
    if state.overflow != "stop" or state.editing is not None or state.running or state.load:
        return None
    used = tokens_in_front(state)
    if used is None or not state.messages:
        return None
    was_cut = state.messages[-1].stop_reason == "context"  # maybe of a smaller one
    full = used >= model.context - (_CUT if was_cut else 0)
    return max(used, model.context) if full else None


class Forecast(Struct, frozen=True):
    """The number of turns as long as those before, in the median, that still fit."""

    turns: int
    typical: int  # tokens


def forecast(state: AppState) -> Forecast | None:
    """Return the forecast; None before the first whole turn, and for a context of unknown
    length."""
    if state.model is None or not state.model.context:
        return None
    sizes = cached_text.turns(state.in_front)
    whole = sizes[:-1] if state.running else sizes
    if not whole:
        return None
    typical = max(1, round(median(whole)))
    room = max(0, state.model.context - (tokens_in_front(state) or state.context_used))
    return Forecast(room // typical, typical)


def source_of(state: AppState, name: str) -> tuple[str, ToolSpec] | None:
    """Return where a function that is switched on comes from."""
    return next((found for found in chosen(state.tools) if found[1].name == name), None)


def waiting(state: AppState) -> Message | None:
    """Return the answer whose calls wait for results: the last one, once it has ended."""
    last = state.messages[-1] if state.messages else None
    if last is None or last.calls is None or not last.calls.calls or state.running:
        return None
    return None if last.stop_reason in (None, "error") else last


def calls_of(message: Message) -> tuple[ToolCall, ...]:
    return message.calls.calls if message.calls else ()


def round_of(state: AppState, message: Message) -> CallRound:
    known = state.tools.round
    return known if known.key == message.id else CallRound(message.id)


def rounds(state: AppState) -> int:
    """Count answers with calls since the last question."""
    count = 0
    for message in reversed(state.messages):
        if message.role in ("user", "text"):
            break
        count += bool(calls_of(message))
    return count


def may_go_on(state: AppState) -> bool:
    """Tell whether the conversation goes on by itself once all calls are answered."""
    return rounds(state) < ROUNDS * (1 + state.tools.granted)


def approval(state: AppState, call: ToolCall) -> Approval | None:
    """Return what a person approves who lets such calls run without a question; None where no
    server could run them."""
    found = source_of(state, call.name)
    server = state.tools.server(found[0]) if found else None
    return approval_of(server.spec, found[1]) if found and server else None


def is_allowed(state: AppState, call: ToolCall) -> bool:
    return approval(state, call) in state.tools.allowed
