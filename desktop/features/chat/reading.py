"""The conversation in front as the model has it: what was read of it, the tokens and turns that it
takes, the tools that it is offered, and the calls that wait."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Any

from msgspec import Struct

from llm_lite.core.messages import PromptToken, ToolCall, ToolSpec
from llm_lite.core.messages.answers import EFFORT
from llm_lite.core.plain_text import estimate
from llm_lite.core.records import replace
from llm_lite.desktop.features.cache import state as cache_state
from llm_lite.desktop.features.program.state import (
    AppState,
    Counted,
    Lens,
    Message,
    RowDetails,
    Running,
    StatesLook,
)
from llm_lite.desktop.features.sampling.model import completes
from llm_lite.desktop.features.tokens.state import SYSTEM, TEMPLATE, cut
from llm_lite.desktop.features.tools.state import Approval, CallRound, approval_of, chosen

ROUNDS = 8  # of calls behind each other; then a person is asked
_CUT = 32  # tokens that a conversation that filled the context may have less when it is read again


def is_sentence_only(state: AppState, messages: Sequence[Message] | None = None) -> bool:
    """Return whether these messages, by default those of the chat, are only the lesson's sentence
    and the model's continuation: the history does not keep them, and the model reads them as they
    are, without a template or a system prompt."""
    count = len(state.messages if messages is None else messages)
    return state.lesson.sentence_chat == state.chat and count <= 2


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
    *,
    reused: int = 0,
    tokens: int | None = None,
    used: int | None = None,
) -> AppState:
    """Note that the cache holds, or soon will, the conversation up to `prompt`; it holds `used`
    positions by now."""
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
    return with_turns(_outdated(state))


def ended(state: AppState, running: Running) -> AppState:
    """Note that an answer has ended: the cache holds all of the conversation, unless the answer was
    stopped before its prompt was read, or something was forgotten or refused."""
    state = replace(state, steering=state.steering.outdated())
    if running.phase != "decode":
        return state
    last = state.messages[-1]
    differs = last.untokenized or not last.whole or last.stop_reason == "error"
    if differs or state.cache.forgotten:
        return state
    return replace(state, counted=Counted(state.messages, running.beside, state.context_used))


def first_messages(state: AppState, messages: int) -> AppState:
    """Drop what was read of the messages after so many: others stand in their places."""
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
        rows_asked=None,
        attention_rows=None,
        lens=Lens(),
        states=StatesLook(),
        lesson=state.lesson.of_next_conversation(),
    )
    return with_turns(_outdated(state))


def _outdated(state: AppState) -> AppState:
    """Mark what was measured at the conversation's end as outdated: it ends elsewhere now."""
    return replace(state, steering=state.steering.outdated())


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


def tokens_words(state: AppState, tokens: int) -> str:
    """Return how many tokens the conversation in front has, in words: an estimate has two digits
    that mean something."""
    if not state.counted.about or tokens != state.counted.tokens:
        return f"{tokens:,}"
    return estimate(tokens)


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
    if not state.cache.turns:
        return None
    typical = max(1, round(median(state.cache.turns)))
    room = max(0, state.model.context - (tokens_in_front(state) or state.context_used))
    return Forecast(room // typical, typical)


def with_turns(state: AppState) -> AppState:
    """Count the tokens of each whole turn: a question and its answer, with what the template puts
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


def offered(state: AppState) -> tuple[ToolSpec, ...]:
    """Return the functions that the model is offered; none where its template knows none."""
    if not knows_tools(state) or completes(state):
        return ()
    return tuple(spec for _, spec in chosen(state.tools))


def takes_effort(state: AppState) -> bool:
    """Return whether the template of the model in use takes how much the model is to think."""
    return state.model is not None and EFFORT in state.model.template_variables


def template_values(state: AppState) -> dict[str, Any]:
    """Return the values of variables that the template is given beside its switch for thoughts."""
    return {EFFORT: state.effort} if state.effort and takes_effort(state) else {}


def knows_tools(state: AppState) -> bool:
    return state.model is not None and state.model.tool_style not in ("", "unknown")


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
    granted = state.tools.granted if state.tools.chat == state.chat else 0
    return rounds(state) < ROUNDS * (1 + granted)


def approval(state: AppState, call: ToolCall) -> Approval | None:
    """Return what a person approves who lets such calls run without a question; None where no
    server could run them."""
    found = source_of(state, call.name)
    server = state.tools.server(found[0]) if found else None
    return approval_of(server.spec, found[1]) if found and server else None


def is_allowed(state: AppState, call: ToolCall) -> bool:
    tools = state.tools
    return tools.chat == state.chat and approval(state, call) in tools.allowed
