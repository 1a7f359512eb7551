"""/v1/responses answers with items, which are thoughts, a message and calls."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Iterator, Mapping
from functools import partial
from typing import Annotated, Any, Literal

from msgspec import Struct, to_builtins
from msgspec.structs import replace
from starlette.responses import Response as HttpResponse

from llm_lite.core.messages import ModelInfo
from llm_lite.server.answers import Answers
from llm_lite.server.call import Call
from llm_lite.server.event_bridge import IndexedEvent
from llm_lite.server.event_stream import COMMENT, EventStream, event
from llm_lite.server.failures import ApiError, json_response, json_text
from llm_lite.server.openai import likelihoods
from llm_lite.server.openai.chat_request import ChatPlan
from llm_lite.server.openai.choice import CallDelta, Choice, Delta
from llm_lite.server.openai.likelihoods import TokenLikelihood
from llm_lite.server.openai.responses_request import (
    ResponseRequest,
    ResponseTool,
    effort_of,
    response_plan,
)
from llm_lite.server.openai.running import (
    AnswerId,
    NewTokens,
    PromptTokens,
    begin,
    collect,
    events_of,
    model_id,
    now,
    usage,
)
from llm_lite.server.schema import Count, about

Event = dict[str, Any]


class ResponseUsage(Struct, kw_only=True):
    input_tokens: Count
    input_tokens_details: PromptTokens
    output_tokens: Count
    output_tokens_details: NewTokens
    total_tokens: Count


class Response(Struct, kw_only=True):
    """This is an answer as items, with what was asked for it."""

    id: AnswerId
    object: Literal["response"]
    created_at: Count
    completed_at: Annotated[Count | None, about("When it was whole.")]
    status: Annotated[
        Literal["in_progress", "completed", "incomplete", "failed"],
        about("Of a whole answer, completed or incomplete."),
    ]
    error: dict[str, Any] | None
    incomplete_details: dict[str, Any] | None
    model: str
    output: Annotated[list[dict[str, Any]], about("Thoughts, messages and calls of functions.")]
    instructions: str | None
    max_output_tokens: Annotated[int | None, about("null: up to the context's end.")]
    max_tool_calls: None
    temperature: float
    top_p: float
    presence_penalty: float
    frequency_penalty: float
    top_logprobs: Count
    user: str | None
    safety_identifier: str | None
    prompt_cache_key: str | None
    parallel_tool_calls: bool
    previous_response_id: None
    reasoning: dict[str, Any]
    store: bool
    background: bool
    service_tier: str
    text: dict[str, Any]
    tool_choice: str | dict[str, Any]
    tools: Annotated[list[dict[str, Any]], about("The functions that could be called.")]
    truncation: Literal["disabled"]
    metadata: dict[str, Any]
    usage: ResponseUsage | None


async def respond(call: Call) -> HttpResponse:
    model = model_id(call)
    plan, items = await call.prepared(partial(_planned, call, call.service.model, model))
    choice = Choice(plan.tools, keeps_tokens=plan.top_logprobs is not None)
    if call.body.stream:
        answers, head = await begin(call, [plan.request])
        return EventStream(_pieces(call, answers, head, choice, items), answers.close)
    await collect(call, [plan.request], [choice])
    for _ in (*items.take(choice.delta()), *items.end(choice)):
        pass
    return await call.prepared(lambda: json_response(items.finished(choice)))


def _planned(call: Call, info: ModelInfo, model: str) -> tuple[ChatPlan, _Items]:
    plan = response_plan(call, info)
    tools = call.body.tools
    return plan, _Items(plan, _frame(call, model, plan), tools.namespaces() if tools else {})


def _frame(call: Call, model: str, plan: ChatPlan) -> Response:
    """Return what is known of the response before it is made, with the values in use."""
    body: ResponseRequest = call.body
    sampling, most = plan.request.sampling, int(body.max_output_tokens or -1)
    return Response(
        id=plan.request.response,
        object="response",
        created_at=now(),
        completed_at=None,
        status="in_progress",
        error=None,
        incomplete_details=None,
        model=model,
        output=[],
        instructions=body.instructions,
        max_output_tokens=None if most == -1 else most,
        max_tool_calls=None,
        temperature=sampling.temperature,
        top_p=sampling.top_p,
        presence_penalty=sampling.presence_penalty,
        frequency_penalty=sampling.frequency_penalty,
        top_logprobs=plan.top_logprobs or 0,
        user=body.user,
        safety_identifier=body.safety_identifier,
        prompt_cache_key=body.prompt_cache_key,
        parallel_tool_calls=body.parallel_tool_calls,
        previous_response_id=None,
        reasoning={"effort": effort_of(body), "summary": None},
        store=False,
        background=False,
        service_tier="default",
        text={"format": _format(body)},
        tool_choice=to_builtins(body.tool_choice or "auto"),
        tools=_functions(body),
        truncation="disabled",
        metadata=body.metadata or {},
        usage=None,
    )


def _functions(body: ResponseRequest) -> list[dict[str, Any]]:
    tools = body.tools.items if body.tools else ()
    return [to_builtins(tool) for _, tool in tools if isinstance(tool, ResponseTool)]


def _format(body: ResponseRequest) -> dict[str, Any]:
    """Return the form that the text keeps to."""
    form = body.text.format if body.text else None
    schema = form.schema if form else body.json_schema
    if schema is None or (form is not None and form.type != "json_schema"):
        return {"type": form.type if form else "text"}
    return {
        "type": "json_schema",
        "name": (form.name if form else None) or "answer",
        "description": form.description if form else None,
        "schema": schema,
        "strict": True,
    }


async def _pieces(
    call: Call, answers: Answers, head: list[IndexedEvent], choice: Choice, items: _Items
) -> AsyncIterator[bytes]:
    write = _Writer()
    stages = [items.stage("response.created"), items.stage("response.in_progress")]
    yield await call.prepared(partial(write, stages))  # with all that the request declares
    try:
        async for events in events_of(call, answers, head):
            for _, one in events:
                choice.feed(one)
            yield write(items.take(choice.delta())) or (b"" if events else COMMENT)
    except ApiError as error:
        yield write([items.failed(error)])
        return
    whole = write(items.end(choice))
    response = items.finished(choice)
    last = [{"type": f"response.{response.status}", "response": response}]
    yield whole + await call.prepared(partial(write, last))


class _Writer:
    """A writer that numbers its events."""

    def __init__(self) -> None:
        self._count = 0

    def __call__(self, events: Iterator[Event] | list[Event]) -> bytes:
        pieces = []
        for one in events:
            numbered = {**one, "sequence_number": self._count}
            pieces.append(event(json_text(numbered), one["type"]))
            self._count += 1
        return b"".join(pieces)


class _Items:
    """The items of a response grow here; each change is an event."""

    def __init__(
        self, plan: ChatPlan, frame: Response, namespaces: Mapping[str, tuple[str, str]]
    ) -> None:
        self._plan, self._frame, self._namespaces = plan, frame, namespaces
        self._done: list[dict[str, Any]] = []
        self._open: dict[str, Any] | None = None
        self._text: list[str] = []  # of the open item
        self._likely: list[TokenLikelihood] = []

    def take(self, delta: Delta) -> Iterator[Event]:
        if delta.thought:
            yield from self._grow("reasoning", delta.thought, [])
        if delta.text or (delta.tokens and self._is_open("message")):
            yield from self._grow("message", delta.text, self._likelihoods(delta))
        for call in delta.calls:
            yield from self._call(call)

    def end(self, choice: Choice) -> Iterator[Event]:
        """Close the open item, which a limit may have cut."""
        is_call = self._open is not None and self._open["type"] == "function_call"
        is_cut = choice.finish_reason == "length" if is_call else choice.is_cut
        yield from self._close("incomplete" if is_cut else "completed")

    def _close(self, status: str = "completed") -> Iterator[Event]:
        """Finish the open item."""
        item, self._open = self._open, None
        if item is None:
            return
        text, self._text = "".join(self._text), []
        place = {"item_id": item["id"], "output_index": len(self._done)}
        if item["type"] == "function_call":
            item["arguments"] = text
            kind = "response.function_call_arguments.done"
            yield {"type": kind, **place, "name": item["name"], "arguments": text}
        else:
            part = _part(item["type"], text)
            named = "output_text" if item["type"] == "message" else "reasoning_text"
            if item["type"] == "message":
                part["logprobs"] = self._likely
            more = {"logprobs": self._likely} if item["type"] == "message" else {}
            place["content_index"] = 0
            yield {"type": f"response.{named}.done", **place, "text": text, **more}
            yield {"type": "response.content_part.done", **place, "part": part}
            item["content"] = [part]
            del place["content_index"]
        item["status"] = status
        self._done.append(item)
        index = place["output_index"]
        yield {"type": "response.output_item.done", "output_index": index, "item": item}

    def stage(self, name: str) -> Event:
        return {"type": name, "response": self._frame}

    def failed(self, error: ApiError) -> Event:
        problem = {"code": error.code or "server_error", "message": error.message}
        response = replace(self._frame, status="failed", error=problem, output=self._done)
        return {"type": "response.failed", "response": response}

    def finished(self, choice: Choice) -> Response:
        is_whole = not choice.is_cut or self._is_called(choice)
        counted = usage([choice])
        return replace(
            self._frame,
            status="completed" if is_whole else "incomplete",
            completed_at=now() if is_whole else None,
            incomplete_details=None if is_whole else {"reason": "max_output_tokens"},
            output=self._done,
            usage=ResponseUsage(
                input_tokens=counted.prompt_tokens,
                input_tokens_details=counted.prompt_tokens_details,
                output_tokens=counted.completion_tokens,
                output_tokens_details=counted.completion_tokens_details,
                total_tokens=counted.total_tokens,
            ),
        )

    def _is_called(self, choice: Choice) -> bool:
        """Return whether the answer ends with a call that is whole, so that a limit cut nothing
        of it."""
        last = self._done[-1] if self._done else {"type": ""}
        return choice.finish_reason == "tool_calls" and last["type"] == "function_call"

    def _is_open(self, kind: str) -> bool:
        return self._open is not None and self._open["type"] == kind

    def _grow(self, kind: str, text: str, likely: list[TokenLikelihood]) -> Iterator[Event]:
        """Add text to the open message or thoughts, or open new ones."""
        if not self._is_open(kind):
            yield from self._close()
            yield from self._opened(_new_item(kind))
        assert self._open is not None
        self._text.append(text)
        self._likely += likely
        place = {"item_id": self._open["id"], "output_index": len(self._done), "content_index": 0}
        named = "output_text" if kind == "message" else "reasoning_text"
        more = {"logprobs": likely} if kind == "message" else {}
        yield {"type": f"response.{named}.delta", **place, "delta": text, **more}

    def _opened(self, item: dict[str, Any]) -> Iterator[Event]:
        self._open, self._likely = item, []
        index = len(self._done)
        yield {"type": "response.output_item.added", "output_index": index, "item": dict(item)}
        if item["type"] != "function_call":
            place = {"item_id": item["id"], "output_index": index, "content_index": 0}
            part = _part(item["type"], "")
            yield {"type": "response.content_part.added", **place, "part": part}

    def _call(self, call: CallDelta) -> Iterator[Event]:
        if call.name:  # the first of it
            yield from self._close()
            namespace, name = self._namespaces.get(call.name, ("", call.name))
            item = _new_item("function_call") | {"call_id": call.id, "name": name}
            if namespace:
                item["namespace"] = namespace
            yield from self._opened(item)
        assert self._open is not None
        self._text.append(call.arguments)
        place = {"item_id": self._open["id"], "output_index": len(self._done)}
        kind = "response.function_call_arguments.delta"
        yield {"type": kind, **place, "delta": call.arguments}

    def _likelihoods(self, delta: Delta) -> list[TokenLikelihood]:
        if self._plan.top_logprobs is None:
            return []
        found = likelihoods.of_chat(delta.tokens, self._plan.top_logprobs).content
        for one in found:  # which are no null here
            for token in (one, *one.top_logprobs):
                token.bytes = token.bytes or []
        return found


def _new_item(kind: str) -> dict[str, Any]:
    number = secrets.token_hex(12)
    match kind:
        case "message":
            item = {"id": f"msg_{number}", "role": "assistant", "content": []}
        case "reasoning":
            item = {"id": f"rs_{number}", "summary": [], "content": []}
        case _:
            item = {"id": f"fc_{number}", "arguments": ""}
    return {"type": kind, "status": "in_progress", **item}


def _part(kind: str, text: str) -> dict[str, Any]:
    if kind == "message":
        return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
    return {"type": "reasoning_text", "text": text}
