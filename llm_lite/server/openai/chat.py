"""/v1/chat/completions goes on with a conversation."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from functools import partial
from typing import Annotated, Any, Literal

from msgspec import UNSET, Struct, UnsetType
from starlette.responses import Response

from llm_lite.server.answers import Answers
from llm_lite.server.call import Call
from llm_lite.server.event_bridge import IndexedEvent
from llm_lite.server.event_stream import COMMENT, DONE, EventStream, event
from llm_lite.server.failures import ApiError, json_response, json_text
from llm_lite.server.openai.chat_request import ChatCompletionRequest, ChatPlan, chat_plan
from llm_lite.server.openai.choice import Choice, Delta, FinishReason, WhyStopped
from llm_lite.server.openai.likelihoods import Likelihoods, of_chat
from llm_lite.server.openai.models import fingerprint
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
    new_id,
    now,
    timings,
    usage,
)
from llm_lite.server.schema import Count, about


class FunctionCall(Struct):
    name: str
    arguments: str


class ToolCall(Struct, kw_only=True):
    id: str
    type: Literal["function"]
    function: FunctionCall


class ChatAnswer(Struct, kw_only=True):
    role: Literal["assistant"]
    content: str | None
    refusal: None
    reasoning_content: Annotated[str | UnsetType, about("What was thought before.")] = UNSET
    tool_calls: list[ToolCall] | UnsetType = UNSET


class ChatChoice(Struct, kw_only=True):
    index: Count
    message: ChatAnswer
    logprobs: Likelihoods | None
    finish_reason: FinishReason
    stop_reason: WhyStopped


class ChatCompletion(AnswerHead, kw_only=True):
    object: Literal["chat.completion"]
    choices: list[ChatChoice]
    usage: Usage
    timings: Timings


async def chat(call: Call) -> Response:
    body: ChatCompletionRequest = call.body
    plan = await call.prepared(partial(chat_plan, call, call.service.model))
    response = new_id("chatcmpl")
    requests = plan.requests(response)
    keeps = plan.top_logprobs is not None
    choices = [Choice(plan.tools, keeps_tokens=keeps) for _ in requests]
    if not body.stream:
        await collect(call, requests, choices)
        return json_response(_whole(call, response, plan, choices))
    answers, begun = await begin(call, requests)
    head = head_of(call, response, "chat.completion.chunk")
    stream = ChatStream(head, plan, choices, _wants_usage(body))
    return EventStream(stream.pieces(call, answers, begun), answers.close)


def _wants_usage(body: ChatCompletionRequest) -> bool:
    return bool(body.stream_options and body.stream_options.include_usage)


def _whole(call: Call, response: str, plan: ChatPlan, choices: list[Choice]) -> ChatCompletion:
    return ChatCompletion(
        id=response,
        object="chat.completion",
        created=now(),
        model=model_id(call),
        system_fingerprint=fingerprint(call.service),
        choices=[_choice(index, one, plan) for index, one in enumerate(choices)],
        usage=usage(choices),
        timings=timings(choices[0]),
    )


def _choice(index: int, choice: Choice, plan: ChatPlan) -> ChatChoice:
    delta = choice.delta()
    message = ChatAnswer(role="assistant", content=delta.text, refusal=None)
    if delta.thought:
        message.reasoning_content = delta.thought
    if delta.calls:
        message.content = delta.text or None
        message.tool_calls = [
            ToolCall(id=call.id, type="function", function=FunctionCall(call.name, call.arguments))
            for call in delta.calls
        ]
    return ChatChoice(
        index=index,
        message=message,
        logprobs=_likelihoods(delta, plan),
        finish_reason=choice.finish_reason,
        stop_reason=choice.stop_reason,
    )


def _likelihoods(delta: Delta, plan: ChatPlan) -> Likelihoods | None:
    if plan.top_logprobs is None:
        return None
    return of_chat(delta.tokens, plan.top_logprobs)


class ChatStream:
    """The writer of chunks of several choices, each with its index."""

    def __init__(
        self, head: AnswerHead, plan: ChatPlan, choices: list[Choice], wants_usage: bool
    ) -> None:
        self._plan, self._choices, self._wants_usage = plan, choices, wants_usage
        self._ended: set[int] = set()
        # What stands before and behind a piece of text, once: pieces are many.
        self._head = json_text(head)[:-1]
        self._usage = ', "usage": null' if wants_usage else ""

    async def pieces(
        self, call: Call, answers: Answers, head: list[IndexedEvent]
    ) -> AsyncIterator[bytes]:
        role = {"role": "assistant", "content": "", "refusal": None}
        yield b"".join(self._chunk(i, json.dumps(role)) for i in range(len(self._choices)))
        try:
            async for events in events_of(call, answers, head):
                yield self._chunks(events) or (b"" if events else COMMENT)
        except ApiError as error:
            yield failure_event(error)
            return
        if self._wants_usage:
            yield self._counted()
        yield DONE

    def _chunks(self, events: list[IndexedEvent]) -> bytes:
        """Return one chunk for each choice that the events changed."""
        for index, one in events:
            self._choices[index].feed(one)
        return b"".join(self._changes(index) for index in sorted({index for index, _ in events}))

    def _changes(self, index: int) -> bytes:
        choice, pieces = self._choices[index], b""
        if delta := choice.delta():
            found = self._likelihoods(delta)
            pieces = b"".join(self._chunk(index, part, found) for part in _parts(delta))
        if choice.finished is not None and index not in self._ended:
            self._ended.add(index)
            more = f', "timings": {json_text(timings(choice))}'
            reason = f'"{choice.finish_reason}", "stop_reason": {json.dumps(choice.stop_reason)}'
            pieces += self._chunk(index, "{}", reason=reason, more=more)
        return pieces

    def _chunk(
        self,
        index: int,
        delta: str,
        likely: str = "null",
        reason: str = "null",
        more: str = "",
    ) -> bytes:
        choice = f'"index": {index}, "delta": {delta}, "logprobs": {likely}'
        return event(
            f'{self._head}, "choices": [{{{choice}, "finish_reason": {reason}}}]'
            f"{self._usage}{more}}}"
        )

    def _likelihoods(self, delta: Delta) -> str:
        found = _likelihoods(delta, self._plan)
        return json_text(found)

    def _counted(self) -> bytes:
        counted = json_text(usage(self._choices))
        return event(f'{self._head}, "choices": [], "usage": {counted}}}')


def _parts(delta: Delta) -> list[str]:
    """Return the JSON of each part of a delta. Likelihoods go with the first; there is always
    one."""
    parts = []
    if delta.thought:
        parts.append(f'{{"reasoning_content": {json.dumps(delta.thought)}}}')
    if delta.text:
        parts.append(f'{{"content": {json.dumps(delta.text)}}}')
    for call in delta.calls:
        function: dict[str, Any] = {"arguments": call.arguments}
        part: dict[str, Any] = {"index": call.index, "function": function}
        if call.name:
            function["name"] = call.name
            part |= {"id": call.id, "type": "function"}
        parts.append(json.dumps({"tool_calls": [part]}))
    return parts or ["{}"]
