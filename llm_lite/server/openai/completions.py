"""/v1/completions: a text goes on, without a template."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

from starlette.responses import Response

from llm_lite.core.messages import MOST_ALTERNATIVES, AnswerRequest
from llm_lite.server.answers import Answers
from llm_lite.server.call import Call
from llm_lite.server.event_stream import COMMENT, DONE, EventStream, event
from llm_lite.server.failures import ApiError, json_response
from llm_lite.server.inbox import Told
from llm_lite.server.openai import likelihoods
from llm_lite.server.openai.chat_request import FORMAT, MOST_TOKENS, form_of, formatted
from llm_lite.server.openai.choice import Choice, Delta
from llm_lite.server.openai.running import (
    MODEL,
    STREAM_OPTIONS,
    USER,
    WITHOUT_EFFECT,
    answered_by,
    begin,
    failure_event,
    heard,
    name_of,
    new_id,
    now,
    timings,
    told,
    usage,
)
from llm_lite.server.openai.sampling import GRAMMAR, JSON_SCHEMA, SAMPLING, of_choice, sampling_of
from llm_lite.server.openai.tools import ToolPlan
from llm_lite.server.tables.kinds import FieldProblem, Flag, ListOf, OneOf, Text, Whole
from llm_lite.server.tables.records import Field, request_body
from llm_lite.server.tables.unsupported import OF_ALL

MOST_PROMPTS = 64
_USUAL_TOKENS = 16  # of OpenAI's server
_TEXT = Text(least=1)
TOKENS = ListOf(Whole(0, (1 << 31) - 1), least=1)
_PLAIN = ToolPlan()
COMPLETION = request_body(
    "CompletionRequest",
    (
        MODEL,
        Field(
            "prompt",
            OneOf(
                (
                    _TEXT,
                    TOKENS,
                    ListOf(_TEXT, least=1, most=MOST_PROMPTS),
                    ListOf(TOKENS, least=1, most=MOST_PROMPTS),
                )
            ),
            "A text, its tokens, or several of either.",
            True,
        ),
        Field("max_tokens", MOST_TOKENS, "Without it, 16; -1: to the context's end."),
        Field("n_predict", MOST_TOKENS, "The same, by llama.cpp's name."),
        Field("n", Whole(1, 16), "How many answers to each prompt.", default=1),
        Field("best_of", Whole(1, 16), "As n: no answers are made and left out."),
        Field("echo", Flag(), "The prompt stands before the answer.", default=False),
        Field("stream", Flag(), "Server-sent events as it is written.", default=False),
        STREAM_OPTIONS,
        Field("logprobs", Whole(0, MOST_ALTERNATIVES), "And so many others in a token's place."),
        Field("suffix", Text(), "Texts are only made at the end: expected none."),
        Field("response_format", FORMAT),
        *SAMPLING,
        GRAMMAR,
        JSON_SCHEMA,
        USER,
        *WITHOUT_EFFECT,
        *OF_ALL,
    ),
)


async def completion(call: Call) -> Response:
    by, body = answered_by(call), call.body
    prompts, response = _prompts(body), new_id("cmpl")
    requests = _requests(call, prompts, response)
    keeps = body["logprobs"] is not None
    choices = [Choice(_PLAIN, keeps_tokens=keeps) for _ in requests]
    echoed = await _echoed(call, prompts)
    if body["stream"]:
        answers, head = await begin(call, requests)
        stream = TextStream(response, by, body, choices, echoed)
        return EventStream(stream.pieces(call, answers, head), answers.close)
    await heard(call, requests, choices)
    made = [
        _choice(i, one.fresh(), echoed[i // body["n"]], body, one) for i, one in enumerate(choices)
    ]
    return json_response(
        {
            "id": response,
            "object": "text_completion",
            "created": now(),
            **by,
            "choices": made,
            "usage": usage(choices, len(prompts)),
            "timings": timings(choices[0]),
        }
    )


def _prompts(body: dict[str, Any]) -> list[str | tuple[int, ...]]:
    """FieldProblem."""
    if body["suffix"]:
        raise FieldProblem("suffix", "texts are only made at the end: expected none")
    if body["best_of"] is not None and body["best_of"] != body["n"]:
        raise FieldProblem("best_of", f"expected as many as n, {body['n']}")
    if body["echo"] and body["logprobs"] is not None:
        raise FieldProblem("logprobs", "are not known of a prompt: cannot be used with echo")
    given = body["prompt"]
    if isinstance(given, str):
        return [given]
    if isinstance(given[0], int):
        return [tuple(given)]
    return [one if isinstance(one, str) else tuple(one) for one in given]


def _requests(
    call: Call, prompts: list[str | tuple[int, ...]], response: str
) -> list[AnswerRequest]:
    body = call.body
    most = body["max_tokens"] or body["n_predict"] or _USUAL_TOKENS
    sampling = sampling_of(body, most, call.service.model)
    form = form_of(body, "response_format", body["response_format"])
    sampling = formatted(sampling, form, _PLAIN)
    return [
        AnswerRequest(
            response=name_of(response, index * body["n"] + number),
            tokens=() if isinstance(prompt, str) else prompt,
            text=prompt if isinstance(prompt, str) else "",
            sampling=of_choice(sampling, number),
            alternatives=body["logprobs"] or 0,
            client=call.client,
        )
        for index, prompt in enumerate(prompts)
        for number in range(body["n"])
    ]


async def _echoed(call: Call, prompts: list[str | tuple[int, ...]]) -> list[str]:
    """What stands before each prompt's answers."""
    if not call.body["echo"]:
        return [""] * len(prompts)
    service = call.service
    return await call.apart(
        lambda _: [p if isinstance(p, str) else service.detokenize(p) for p in prompts]
    )


def _choice(
    index: int, delta: Delta, echoed: str, body: dict[str, Any], choice: Choice, offset: int = 0
) -> dict[str, Any]:
    """More of a choice; its reasons are none until it is over."""
    found = None
    if body["logprobs"] is not None:
        found = likelihoods.of_completion(delta.tokens, body["logprobs"], offset)
    text = echoed + delta.said
    is_over = choice.finished is not None
    return {
        "index": index,
        "text": text,
        "logprobs": found,
        "finish_reason": choice.finish_reason if is_over else None,
        "stop_reason": choice.stop_reason,
    }


class TextStream:
    def __init__(
        self,
        response: str,
        by: dict[str, str],
        body: dict[str, Any],
        choices: list[Choice],
        echoed: list[str],
    ) -> None:
        self._body, self._choices = body, choices
        self._before = [echoed[i // body["n"]] for i in range(len(choices))]  # still to be said
        self._prompts = len(echoed)
        self._written = [0] * len(choices)  # characters
        self._head = {"id": response, "object": "text_completion", "created": now(), **by}
        options = body["stream_options"]
        self._wants_usage = bool(options and options["include_usage"])

    async def pieces(self, call: Call, answers: Answers, head: list[Told]) -> AsyncIterator[bytes]:
        try:
            async for events in told(call, answers, head):
                yield self._said(events) or (b"" if events else COMMENT)
        except ApiError as error:
            yield failure_event(error)
            return
        if self._wants_usage:
            counted = usage(self._choices, self._prompts)
            yield _event({**self._head, "choices": [], "usage": counted})
        yield DONE

    def _said(self, events: list[Told]) -> bytes:
        for index, one in events:
            self._choices[index].hear(one)
        return b"".join(self._fresh(index) for index in sorted({index for index, _ in events}))

    def _fresh(self, index: int) -> bytes:
        choice = self._choices[index]
        delta, is_over = choice.fresh(), choice.finished is not None
        if not delta and not is_over:
            return b""
        before, self._before[index] = self._before[index], ""
        made = _choice(index, delta, before, self._body, choice, self._written[index])
        self._written[index] += len(made["text"])
        more = {"usage": None} if self._wants_usage else {}
        if is_over:
            more |= {"timings": timings(choice)}  # type: ignore[dict-item]
        return _event({**self._head, "choices": [made], **more})


def _event(value: dict[str, Any]) -> bytes:
    return event(json.dumps(value, ensure_ascii=False))
