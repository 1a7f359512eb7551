"""Answers of all addresses begin, send events, end and are counted in the same way."""

from __future__ import annotations

import secrets
import time
from collections.abc import AsyncIterator, Sequence
from typing import Annotated

from msgspec import Struct

from llm_lite.core.messages import (
    AnswerRequest,
    Ended,
    Event,
    GenerationFinished,
    GenerationStarted,
)
from llm_lite.server.answers import Answers
from llm_lite.server.call import Call
from llm_lite.server.event_bridge import IndexedEvent
from llm_lite.server.event_stream import event
from llm_lite.server.failures import AGAIN, ApiError, json_text
from llm_lite.server.openai.choice import Choice
from llm_lite.server.openai.models import fingerprint, id_of
from llm_lite.server.schema import Count, about

AnswerId = Annotated[str, about("By which /inspect knows it.")]


class PromptTokens(Struct):
    cached_tokens: Annotated[Count, about("Found in the cache.")]


class NewTokens(Struct):
    reasoning_tokens: Count


class Usage(Struct, kw_only=True):
    prompt_tokens: Count
    completion_tokens: Count
    total_tokens: Count
    prompt_tokens_details: PromptTokens
    completion_tokens_details: NewTokens


class Timings(Struct, kw_only=True):
    """The speed of an answer, by the names of llama.cpp's server."""

    cache_n: Annotated[Count, about("Tokens of the prompt that the cache had.")]
    prompt_n: Annotated[Count, about("Tokens of the prompt that were read.")]
    prompt_per_second: float
    predicted_n: Annotated[Count, about("Tokens of the answer.")]
    draft_n: Annotated[Count, about("Tokens that were drafted.")]
    draft_n_accepted: Annotated[Count, about("Drafted tokens that the model took.")]
    predicted_per_second: float
    first_token_ms: float


class AnswerHead(Struct, kw_only=True):
    """This stands at the head of an answer, whole or in a stream."""

    id: AnswerId
    object: str
    created: Count
    model: str
    system_fingerprint: Annotated[str, about("Another one: the same seed may answer differently.")]


def head_of(call: Call, response: str, kind: str) -> AnswerHead:
    """Return the head. The model in use answers, whatever a request calls it."""
    return AnswerHead(
        id=response,
        object=kind,
        created=now(),
        model=model_id(call),
        system_fingerprint=fingerprint(call.service),
    )


def model_id(call: Call) -> str:
    return id_of(call.service.model)


def new_id(lead: str) -> str:
    return f"{lead}-{secrets.token_hex(16)}"


def name_of(response: str, index: int) -> str:
    """Return the name by which an answer can be inspected: the response's id, with the number of
    all but the first choice."""
    return f"{response}.{index}" if index else response


def now() -> int:
    return int(time.time())


async def begin(
    call: Call, requests: Sequence[AnswerRequest]
) -> tuple[Answers, list[IndexedEvent]]:
    """Queue the requests and wait for their first event, so that what is wrong with them is still a
    status.

    The caller closes the answers.
    """
    answers = Answers(call, requests)
    await answers.start()
    try:
        head = await _first(answers, call.shared.config.quiet_seconds)
    except BaseException:
        answers.close()
        raise
    return answers, head


async def _first(answers: Answers, seconds: float) -> list[IndexedEvent]:
    """Return all events up to the first that is more than a beginning, but wait no longer than
    `seconds`."""
    head: list[IndexedEvent] = []
    ends = time.monotonic() + seconds
    while all(isinstance(one, GenerationStarted) for _, one in head):
        left = ends - time.monotonic()
        if left <= 0:
            break
        head += await answers.events(left)
    for _, one in head:
        check(one)
    return head


def check(one: Event) -> None:
    """Raise ApiError where an answer failed. Most of what is wrong with a request was refused
    before."""
    if isinstance(one, Ended) and one.at_fault:
        raise ApiError(400, one.problem)
    if is_failure(one):
        problem = one.problem if isinstance(one, Ended) else "the answer was stopped"
        raise ApiError(503, problem, code="answer_failed", retry_after=AGAIN)


def is_failure(one: Event) -> bool:
    if isinstance(one, Ended):
        return bool(one.problem)
    return isinstance(one, GenerationFinished) and one.stop_reason == "stopped"


async def events_of(
    call: Call, answers: Answers, head: list[IndexedEvent]
) -> AsyncIterator[list[IndexedEvent]]:
    """Yield all events to the end; an empty list where nothing happens for a while. Raises
    ApiError."""
    yield head
    while not answers.are_over:
        events = await answers.events(call.shared.config.quiet_seconds)
        for at, (_, one) in enumerate(events):
            if is_failure(one):
                yield events[:at]  # what came before is sent before
                check(one)
        yield events


async def collect(call: Call, requests: Sequence[AnswerRequest], choices: list[Choice]) -> None:
    """Feed the whole of each answer to its choice. Raises ApiError and ClientLeft."""
    answers, head = await begin(call, requests)
    try:
        async for events in events_of(call, answers, head):
            for index, one in events:
                choices[index].feed(one)
    finally:
        answers.close()


def failure_event(error: ApiError) -> bytes:
    """Return the event by which a stream says that it ends before its time."""
    return event(json_text(error.body()))


def usage(choices: Sequence[Choice], prompts: int = 1) -> Usage:
    """Return the counts of tokens. Each of the `prompts` has as many choices; its tokens count
    once."""
    each = len(choices) // prompts
    asked = sum(c.stats.prompt_tokens or _prompt(c) for c in choices[::each])
    cached = sum(c.stats.reused_tokens or _reused(c) for c in choices[::each])
    new = sum(c.stats.new_tokens for c in choices)
    return Usage(
        prompt_tokens=asked,
        completion_tokens=new,
        total_tokens=asked + new,
        prompt_tokens_details=PromptTokens(cached),
        completion_tokens_details=NewTokens(sum(c.thought_tokens for c in choices)),
    )


def timings(choice: Choice) -> Timings:
    stats = choice.stats
    return Timings(
        cache_n=stats.reused_tokens,
        prompt_n=stats.prompt_tokens - stats.reused_tokens,
        prompt_per_second=round(stats.prefill_tok_s, 2),
        predicted_n=stats.new_tokens,
        draft_n=stats.drafted,
        draft_n_accepted=stats.accepted,
        predicted_per_second=round(stats.decode_tok_s, 2),
        first_token_ms=round(stats.ttft_ms, 1),
    )


def _prompt(choice: Choice) -> int:
    return choice.started.prompt_tokens if choice.started else 0


def _reused(choice: Choice) -> int:
    return choice.started.reused_tokens if choice.started else 0
