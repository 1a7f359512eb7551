"""/v1/completions goes on with a text, without a template."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial
from typing import Annotated, Any, Literal

from msgspec import Struct, to_builtins
from starlette.responses import Response

from llm_lite.core.checked import CheckError
from llm_lite.core.messages import AnswerRequest, ModelInfo
from llm_lite.server.answers import Answers
from llm_lite.server.call import Call
from llm_lite.server.event_bridge import IndexedEvent
from llm_lite.server.event_stream import COMMENT, DONE, EventStream, event
from llm_lite.server.failures import ApiError, json_response, json_text
from llm_lite.server.openai import likelihoods
from llm_lite.server.openai.chat_request import (
    ResponseFormat,
    TopLogprobs,
    form_of,
    formatted,
    response_form,
)
from llm_lite.server.openai.choice import Choice, Delta, WhyStopped
from llm_lite.server.openai.models import fingerprint
from llm_lite.server.openai.request import (
    Choices,
    Prompts,
    StreamOptions,
    TokenLimit,
    interventions_of,
)
from llm_lite.server.openai.running import (
    AnswerHead,
    Timings,
    Usage,
    begin,
    collect,
    events_of,
    failure_event,
    head_of,
    model_id,
    name_of,
    new_id,
    now,
    timings,
    usage,
)
from llm_lite.server.openai.sampling import SamplingBody, of_choice, sampling_of
from llm_lite.server.openai.tools import ToolPlan
from llm_lite.server.schema import Count, about

_USUAL_TOKENS = 16  # of OpenAI's server
_PLAIN = ToolPlan()


class CompletionRequest(SamplingBody, kw_only=True):
    prompt: Annotated[Prompts, about("A text, its tokens, or several of either.")]
    max_tokens: Annotated[TokenLimit | None, about("Without it, 16; -1: to the context's end.")] = (
        None
    )
    n_predict: Annotated[TokenLimit | None, about("The same, by llama.cpp's name.")] = None
    n: Annotated[Choices, about("How many answers to each prompt.")] = 1
    best_of: Annotated[Choices | None, about("As n: no answers are made and left out.")] = None
    echo: Annotated[bool, about("The prompt stands before the answer.")] = False
    stream_options: StreamOptions | None = None
    logprobs: Annotated[TopLogprobs | None, about("And so many others in a token's place.")] = None
    suffix: Annotated[str | None, about("Texts are only made at the end: expected none.")] = None
    response_format: ResponseFormat | None = None


class TextChoice(Struct, kw_only=True):
    index: Count
    text: str
    logprobs: dict[str, Any] | None
    finish_reason: Annotated[
        Literal["stop", "length"] | None, about("null in a stream until the text ends.")
    ]
    stop_reason: WhyStopped


class Completion(AnswerHead, kw_only=True):
    object: Literal["text_completion"]
    choices: list[TextChoice]
    usage: Usage
    timings: Timings


async def completion(call: Call) -> Response:
    body: CompletionRequest = call.body
    prompts, response = _prompts(body), new_id("cmpl")
    work = partial(_requests, call, call.service.model, prompts, response)
    requests = await call.prepared(work)
    keeps = body.logprobs is not None
    choices = [Choice(_PLAIN, keeps_tokens=keeps) for _ in requests]
    echoed = await _echoed(call, prompts)
    if body.stream:
        answers, begun = await begin(call, requests)
        head = head_of(call, response, "text_completion")
        stream = TextStream(head, body, choices, echoed)
        return EventStream(stream.pieces(call, answers, begun), answers.close)
    await collect(call, requests, choices)
    made = [
        _choice(i, one.delta(), echoed[i // body.n], body, one) for i, one in enumerate(choices)
    ]
    return json_response(
        Completion(
            id=response,
            object="text_completion",
            created=now(),
            model=model_id(call),
            system_fingerprint=fingerprint(call.service),
            choices=made,
            usage=usage(choices, len(prompts)),
            timings=timings(choices[0]),
        )
    )


def _prompts(body: CompletionRequest) -> list[str | tuple[int, ...]]:
    """Return the prompts; raise CheckError for fields that cannot be used with each other."""
    if body.suffix:
        raise CheckError("suffix", "texts are only made at the end: expected none")
    if body.best_of is not None and body.best_of != body.n:
        raise CheckError("best_of", f"expected as many as n, {body.n}")
    if body.echo and body.logprobs is not None:
        raise CheckError("logprobs", "are not known of a prompt: cannot be used with echo")
    return [one if isinstance(one, str) else tuple(one) for one in body.prompt.items]


def _requests(
    call: Call, model: ModelInfo, prompts: list[str | tuple[int, ...]], response: str
) -> list[AnswerRequest]:
    body: CompletionRequest = call.body
    most = body.max_tokens or body.n_predict or _USUAL_TOKENS
    sampling = sampling_of(body, most, model)
    form = form_of(body, "response_format", response_form(body.response_format))
    sampling = formatted(sampling, form, _PLAIN)
    return [
        AnswerRequest(
            response=name_of(response, index * body.n + number),
            tokens=() if isinstance(prompt, str) else prompt,
            text=prompt if isinstance(prompt, str) else "",
            sampling=of_choice(sampling, number),
            alternatives=body.logprobs or 0,
            client=call.client,
            interventions=interventions_of(body, model),
        )
        for index, prompt in enumerate(prompts)
        for number in range(body.n)
    ]


async def _echoed(call: Call, prompts: list[str | tuple[int, ...]]) -> list[str]:
    """Return what stands before each prompt's answers."""
    if not call.body.echo:
        return [""] * len(prompts)
    service = call.service
    return await call.in_thread(
        lambda _: [p if isinstance(p, str) else service.detokenize(p) for p in prompts]
    )


def _choice(
    index: int, delta: Delta, echoed: str, body: CompletionRequest, choice: Choice, offset: int = 0
) -> TextChoice:
    """Return more of a choice; its reasons are None until it is over."""
    found = None
    if body.logprobs is not None:
        found = likelihoods.of_completion(delta.tokens, body.logprobs, offset)
    return TextChoice(
        index=index,
        text=echoed + delta.text,
        logprobs=found,
        finish_reason=_finish_reason(choice),
        stop_reason=choice.stop_reason,
    )


def _finish_reason(choice: Choice) -> Literal["stop", "length"] | None:
    if choice.finished is None:
        return None
    return "length" if choice.is_cut else "stop"


class TextStream:
    def __init__(
        self, head: AnswerHead, body: CompletionRequest, choices: list[Choice], echoed: list[str]
    ) -> None:
        self._body, self._choices = body, choices
        self._before = [echoed[i // body.n] for i in range(len(choices))]  # still to be written
        self._prompts = len(echoed)
        self._written = [0] * len(choices)  # characters
        self._head = to_builtins(head)
        options = body.stream_options
        self._wants_usage = bool(options and options.include_usage)

    async def pieces(
        self, call: Call, answers: Answers, head: list[IndexedEvent]
    ) -> AsyncIterator[bytes]:
        try:
            async for events in events_of(call, answers, head):
                yield self._chunks(events) or (b"" if events else COMMENT)
        except ApiError as error:
            yield failure_event(error)
            return
        if self._wants_usage:
            counted = usage(self._choices, self._prompts)
            yield _event({**self._head, "choices": [], "usage": counted})
        yield DONE

    def _chunks(self, events: list[IndexedEvent]) -> bytes:
        for index, one in events:
            self._choices[index].feed(one)
        return b"".join(self._changes(index) for index in sorted({index for index, _ in events}))

    def _changes(self, index: int) -> bytes:
        choice = self._choices[index]
        delta, is_over = choice.delta(), choice.finished is not None
        if not delta and not is_over:
            return b""
        before, self._before[index] = self._before[index], ""
        made = _choice(index, delta, before, self._body, choice, self._written[index])
        self._written[index] += len(made.text)
        more: dict[str, Any] = {"usage": None} if self._wants_usage else {}
        if is_over:
            more["timings"] = timings(choice)
        return _event({**self._head, "choices": [made], **more})


def _event(value: dict[str, Any]) -> bytes:
    return event(json_text(value))
