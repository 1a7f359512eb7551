"""What is asked of /v1/responses, by its table."""

from __future__ import annotations

import secrets
from typing import Any

from llm_lite.core.messages import (
    MOST_ALTERNATIVES,
    AnswerRequest,
    ChatMessage,
    ModelInfo,
    Role,
    ToolCall,
)
from llm_lite.server.call import Call
from llm_lite.server.openai.chat_request import EFFORTS, MOST_TOKENS, ChatPlan, form_of, formatted
from llm_lite.server.openai.messages import CONTENT, MOST_MESSAGES, text_of
from llm_lite.server.openai.running import MODEL, USER, WITHOUT_EFFECT
from llm_lite.server.openai.sampling import GRAMMAR, JSON_SCHEMA, SAMPLING, sampling_of
from llm_lite.server.openai.tools import MOST_TOOLS, ToolPlan, plan_of, specs_of
from llm_lite.server.tables.kinds import (
    AnyObject,
    Anything,
    FieldProblem,
    Flag,
    ListOf,
    OneOf,
    Text,
    Whole,
)
from llm_lite.server.tables.records import Field, Record, request_body
from llm_lite.server.tables.unsupported import OF_ALL, without

_INCLUDED = ("message.output_text.logprobs", "reasoning.encrypted_content")
_KINDS = ("message", "function_call", "function_call_output", "reasoning")
_ITEM = Record(
    "InputItem",
    (
        Field("type", Text(choices=_KINDS), default="message"),
        Field("role", Text(choices=("system", "developer", "user", "assistant"))),
        Field("content", CONTENT),
        Field("call_id", Text(least=1, most=256), "Of a call, and of its output."),
        Field("name", Text(least=1, most=64), "Of a call: the function."),
        Field("arguments", Text(), "Of a call: an object of JSON, as a text."),
        Field("output", CONTENT, "Of a call: what the function gave."),
    ),
    open=True,
)
_TOOL = Record(
    "ResponseTool",
    (
        Field("type", Text(choices=("function",)), "Nothing else is run here.", True),
        Field("name", Text(least=1, most=64), required=True),
        Field("description", Text(most=4000)),
        Field("parameters", AnyObject(), "A JSON schema of an object."),
    ),
    open=True,
)
_CHOSEN = Record(
    "ResponseToolChosen",
    (
        Field("type", Text(choices=("function",)), required=True),
        Field("name", Text(least=1, most=64), required=True),
    ),
    open=True,
)
_FORMAT = Record(
    "TextFormat",
    (
        Field("type", Text(choices=("text", "json_object", "json_schema")), required=True),
        Field("name", Text(most=256)),
        Field("schema", AnyObject(), "The answer is JSON of this schema."),
    ),
    open=True,
)
_KEPT = "Responses are not kept: expected none."
RESPONSE_REQUEST = request_body(
    "ResponseRequest",
    (
        MODEL,
        Field(
            "input",
            OneOf((Text(least=1), ListOf(_ITEM, least=1, most=MOST_MESSAGES))),
            "A text, or a conversation.",
            True,
        ),
        Field("instructions", Text(), "Stand before the conversation."),
        Field("max_output_tokens", MOST_TOKENS, "Without it, up to the context's end."),
        Field("stream", Flag(), "Server-sent events as it is written.", default=False),
        Field("stream_options", AnyObject(), "Has no effect here."),
        Field("text", Record("TextOptions", (Field("format", _FORMAT),), open=True)),
        Field("tools", ListOf(_TOOL, most=MOST_TOOLS)),
        Field("tool_choice", OneOf((Text(choices=("none", "auto", "required")), _CHOSEN))),
        Field("parallel_tool_calls", Flag(), "false: one call at most.", default=True),
        Field("reasoning", Record("Reasoning", (Field("effort", Text(choices=EFFORTS)),), True)),
        Field("include", ListOf(Text(choices=_INCLUDED)), "Likelihoods of tokens, if asked."),
        Field("top_logprobs", Whole(0, MOST_ALTERNATIVES)),
        *SAMPLING,
        GRAMMAR,
        JSON_SCHEMA,
        USER,
        *WITHOUT_EFFECT,
        Field("previous_response_id", Text(), _KEPT),
        Field("conversation", OneOf((Text(), AnyObject())), _KEPT),
        Field("background", Flag(), "Answers are made at once: expected none, or false."),
        Field("truncation", Text(choices=("disabled", "auto")), "Nothing is left out."),
        Field("max_tool_calls", Anything(), "Has no effect here: no function is run."),
        *OF_ALL,
        *without({}, "prompt"),
        Field("response_format", Anything(), "Of chats: here it is text.format."),
    ),
)


def response_plan(call: Call) -> ChatPlan:
    """FieldProblem."""
    body, model = call.body, call.service.model
    for name in ("previous_response_id", "conversation"):
        if body[name] is not None:
            raise FieldProblem(name, "responses are not kept: send the conversation itself")
    if (body["response_format"] or {"type": "text"}) != {"type": "text"}:
        raise FieldProblem("response_format", "is of chats: expected text.format")
    if body["background"]:
        raise FieldProblem("background", "answers are made at once: expected false")
    tools = _tools(body, model)
    sampling = sampling_of(body, body["max_output_tokens"], model)
    top = body["top_logprobs"]
    if top is None and _INCLUDED[0] in (body["include"] or ()):
        top = 0
    request = AnswerRequest(
        response=f"resp_{secrets.token_hex(16)}",
        messages=tools.told(_messages(body)),
        sampling=formatted(sampling, form_of(body, "text.format", _format(body)), tools),
        tools=tools.offered,
        thinking=(body["reasoning"] or {}).get("effort") not in ("none", "minimal"),
        alternatives=top or 0,
        client=call.client,
    )
    return ChatPlan(request, 1, tools, top)


def _tools(body: dict[str, Any], model: ModelInfo) -> ToolPlan:
    chosen = body["tool_choice"]
    choice = f"={chosen['name']}" if isinstance(chosen, dict) else chosen
    return plan_of(specs_of(body["tools"]), choice, model, parallel=body["parallel_tool_calls"])


def _format(body: dict[str, Any]) -> dict[str, Any] | None:
    """As chats have it."""
    form = (body["text"] or {}).get("format")
    if form is None:
        return None
    if form["type"] == "json_schema" and form["schema"] is None:
        raise FieldProblem("text.format.schema", "is missing: expected an object")
    schema = form["schema"] if form["type"] == "json_schema" else None
    return {"type": form["type"], "json_schema": None, "schema": schema}


def _messages(body: dict[str, Any]) -> tuple[ChatMessage, ...]:
    lead = (ChatMessage("system", body["instructions"]),) if body["instructions"] else ()
    if isinstance(body["input"], str):
        return (*lead, ChatMessage("user", body["input"]))
    told = _Told()
    for index, item in enumerate(body["input"]):
        told.add(item, f"input[{index}]")
    messages = told.messages()
    if not messages:
        raise FieldProblem("input", "has no message and no call")
    return (*lead, *messages)


class _Told:
    """Items become messages: calls that follow each other are one assistant's, and results stand
    in the order of their calls."""

    def __init__(self) -> None:
        self._messages: list[ChatMessage] = []
        self._calls: list[tuple[str, ToolCall]] = []
        self._results: dict[str, str] = {}

    def messages(self) -> list[ChatMessage]:
        self._close()
        return self._messages

    def add(self, item: dict[str, Any], at: str) -> None:
        match item["type"]:
            case "function_call":
                self._add_call(item, at)
            case "function_call_output":
                self._add_result(item, at)
            case "message":
                self._add_message(item, at)

    def _add_call(self, item: dict[str, Any], at: str) -> None:
        for name in ("call_id", "name", "arguments"):
            if item[name] is None:
                raise FieldProblem(f"{at}.{name}", "is missing: expected a text")
        if self._results:
            self._close()
        self._calls.append((item["call_id"], ToolCall(item["name"], item["arguments"])))

    def _add_result(self, item: dict[str, Any], at: str) -> None:
        number = item["call_id"]
        if number not in {known for known, _ in self._calls}:
            raise FieldProblem(f"{at}.call_id", "is none of the calls before it")
        self._results[number] = text_of(item["output"], f"{at}.output")

    def _add_message(self, item: dict[str, Any], at: str) -> None:
        role = item["role"]
        if role is None or item["content"] is None:
            missing = "role" if role is None else "content"
            raise FieldProblem(f"{at}.{missing}", "is missing: expected a text")
        self._close()
        text = text_of(item["content"], f"{at}.content")
        known: Role = "system" if role == "developer" else role
        self._messages.append(ChatMessage(known, text))

    def _close(self) -> None:
        """The calls so far are a message, and so is each result."""
        if not self._calls:
            return
        calls = tuple(call for _, call in self._calls)
        last = self._messages[-1] if self._messages else None
        if last is not None and last.role == "assistant" and not last.calls:
            self._messages[-1] = ChatMessage("assistant", last.content, calls=calls)
        else:
            self._messages.append(ChatMessage("assistant", "", calls=calls))
        for number, call in self._calls:
            if number in self._results:
                text = self._results[number]
                self._messages.append(ChatMessage("tool", text, name=call.name))
        self._calls, self._results = [], {}
