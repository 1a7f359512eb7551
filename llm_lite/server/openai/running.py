"""What all families of answers have in common: they begin, are told, end, and are counted."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import AsyncIterator, Sequence
from typing import Any

from llm_lite.core.messages import AnswerRequest, GenerationFinished, GenerationStarted
from llm_lite.core.serving.service import AnswerEvent
from llm_lite.server.answers import Answers
from llm_lite.server.call import Call
from llm_lite.server.event_stream import event
from llm_lite.server.failures import ApiError
from llm_lite.server.inbox import Told
from llm_lite.server.openai.choice import Choice
from llm_lite.server.openai.models import fingerprint, id_of
from llm_lite.server.tables.kinds import Anything, Flag, MapOf, Text
from llm_lite.server.tables.records import Field, Record

MODEL = Field("model", Text(most=512), "Any: the model in use answers, and says its name.")
USER = Field("user", Text(most=512), "Whose turn it is: users take turns.")
STREAM_OPTIONS = Field(
    "stream_options",
    Record(
        "StreamOptions",
        (
            Field("include_usage", Flag(), "A last event tells how many tokens there were."),
            Field("include_obfuscation", Flag()),
        ),
        open=True,
    ),
)
# What OpenAI's own service has and a machine of one's own has no use for. It may be said.
WITHOUT_EFFECT = (
    Field("metadata", MapOf(Anything(), most=16), "Has no effect here."),
    Field("store", Flag(), "Has no effect here: nothing is stored."),
    Field("service_tier", Text(), "Has no effect here."),
    Field("safety_identifier", Text(), "Has no effect here."),
    Field("prompt_cache_key", Text(), "Has no effect here: prefixes are found by their tokens."),
    Field("prompt_cache_retention", Text(), "Has no effect here."),
)


def answered_by(call: Call) -> dict[str, str]:
    """The model in use, which answers whatever a request calls it, and what it runs on."""
    service = call.service
    return {"model": model_id(call), "system_fingerprint": fingerprint(service)}


def model_id(call: Call) -> str:
    return id_of(call.service.model)


def new_id(lead: str) -> str:
    return f"{lead}-{secrets.token_hex(16)}"


def name_of(response: str, index: int) -> str:
    """By which an answer can be looked into: the response's id, with the number of all but the
    first choice."""
    return f"{response}.{index}" if index else response


def now() -> int:
    return int(time.time())


async def begin(call: Call, requests: Sequence[AnswerRequest]) -> tuple[Answers, list[Told]]:
    """Queue them and hear the first of them, so that what is wrong with them is still a status.

    Whoever gets them closes them.
    """
    status = call.service.status()
    room = status.parallel + status.most_waiting
    if len(requests) > room:  # to ask again would not help
        raise ApiError(400, f"{len(requests)} answers at once, there is room for {room}", param="n")
    answers = Answers(call, requests)
    await answers.start()
    try:
        head = await _first(answers, call.shared.config.quiet_seconds)
    except BaseException:
        answers.close()
        raise
    return answers, head


async def _first(answers: Answers, seconds: float) -> list[Told]:
    """All up to the first that is more than a beginning, but not for ever."""
    head: list[Told] = []
    ends = time.monotonic() + seconds
    while all(isinstance(one, GenerationStarted) for _, one in head):
        left = ends - time.monotonic()
        if left <= 0:
            break
        head += await answers.events(left)
    for _, one in head:
        check(one)
    return head


def check(one: AnswerEvent) -> None:
    """ApiError where an answer failed. Most of what a request itself has wrong was told before."""
    if isinstance(one, GenerationFinished) and is_failure(one):
        if one.request_at_fault:
            raise ApiError(400, one.message)
        raise ApiError(503, one.message or "the answer was stopped", code="answer_failed")


def is_failure(one: AnswerEvent) -> bool:
    return isinstance(one, GenerationFinished) and one.stop_reason in ("error", "stopped")


async def told(call: Call, answers: Answers, head: list[Told]) -> AsyncIterator[list[Told]]:
    """All events to the end; an empty list where nothing happens for a while. ApiError."""
    yield head
    while not answers.are_over:
        events = await answers.events(call.shared.config.quiet_seconds)
        for at, (_, one) in enumerate(events):
            if is_failure(one):
                yield events[:at]  # what was said before is told before
                check(one)
        yield events


async def heard(call: Call, requests: Sequence[AnswerRequest], choices: list[Choice]) -> None:
    """The whole of each answer. ApiError, ClientLeft."""
    answers, head = await begin(call, requests)
    try:
        async for events in told(call, answers, head):
            for index, one in events:
                choices[index].hear(one)
    finally:
        answers.close()


def failure_event(error: ApiError) -> bytes:
    """How a stream says that it ends before its time."""
    return event(json.dumps(error.body(), ensure_ascii=False))


def usage(choices: Sequence[Choice], prompts: int = 1) -> dict[str, Any]:
    """Each of the `prompts` has as many choices; its tokens count once."""
    each = len(choices) // prompts
    asked = sum(c.stats.prompt_tokens or _prompt(c) for c in choices[::each])
    cached = sum(c.stats.reused_tokens or _reused(c) for c in choices[::each])
    new = sum(c.stats.new_tokens for c in choices)
    return {
        "prompt_tokens": asked,
        "completion_tokens": new,
        "total_tokens": asked + new,
        "prompt_tokens_details": {"cached_tokens": cached},
        "completion_tokens_details": {"reasoning_tokens": sum(c.thought_tokens for c in choices)},
    }


def timings(choice: Choice) -> dict[str, Any]:
    """As llama.cpp's server tells them: how fast an answer was."""
    stats = choice.stats
    return {
        "cache_n": stats.reused_tokens,
        "prompt_n": stats.prompt_tokens - stats.reused_tokens,
        "prompt_per_second": round(stats.prefill_tok_s, 2),
        "predicted_n": stats.new_tokens,
        "draft_n": stats.drafted,
        "draft_n_accepted": stats.accepted,
        "predicted_per_second": round(stats.decode_tok_s, 2),
        "first_token_ms": round(stats.ttft_ms, 1),
    }


def _prompt(choice: Choice) -> int:
    return choice.started.prompt_tokens if choice.started else 0


def _reused(choice: Choice) -> int:
    return choice.started.reused_tokens if choice.started else 0
