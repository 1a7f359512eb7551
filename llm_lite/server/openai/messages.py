"""A conversation as OpenAI's protocol has it, as the engine's messages."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from llm_lite.core.messages import ChatMessage, ToolCall
from llm_lite.core.plain_text import quote
from llm_lite.server.tables.kinds import Anything, FieldProblem, ListOf, OneOf, Text
from llm_lite.server.tables.records import Field, Record

ROLES = ("system", "developer", "user", "assistant", "tool", "function")
TEXT_PARTS = ("text", "input_text", "output_text")
MOST_MESSAGES = 4096

PART = Record(
    "ContentPart",
    (
        Field("type", Text(), "text: nothing else is read by models of this server.", True),
        Field("text", Text()),
    ),
    open=True,
)
CONTENT = OneOf((Text(), ListOf(PART)))
_FUNCTION = Record(
    "CalledFunction",
    (
        Field("name", Text(least=1, most=64), required=True),
        Field("arguments", Text(), "An object of JSON, as a text.", True),
    ),
    open=True,
)
_CALL = Record(
    "ToolCallGiven",
    (
        Field("id", Text(least=1, most=256), required=True),
        Field("type", Text(choices=("function",)), default="function"),
        Field("function", _FUNCTION, required=True),
    ),
    open=True,
)
MESSAGE = Record(
    "Message",
    (
        Field("role", Text(choices=ROLES), required=True),
        Field("content", CONTENT, "Of an assistant that calls functions it may be missing."),
        Field("name", Text(), "Of a function's result: the function."),
        Field("tool_calls", ListOf(_CALL, most=128), "Of an assistant."),
        Field("tool_call_id", Text(), "Of a tool: which call it answers."),
        Field("reasoning_content", Text(), "Of an assistant: what it thought."),
        Field("refusal", Anything()),
    ),
    open=True,
)


def messages_of(given: list[dict[str, Any]]) -> tuple[ChatMessage, ...]:
    """FieldProblem. Results of functions are put into the order of their calls."""
    messages: list[ChatMessage] = []
    open_calls: dict[str, tuple[int, str]] = {}  # id -> place among the calls, function
    results: list[tuple[int, ChatMessage]] = []
    for index, message in enumerate(given):
        at = f"messages[{index}]"
        if message["role"] in ("tool", "function"):
            results.append(_result(message, at, open_calls, len(results)))
            continue
        messages += _in_order(results)
        results = []
        messages.append(_message(message, at))
        calls = message["tool_calls"] or ()
        open_calls = {c["id"]: (n, c["function"]["name"]) for n, c in enumerate(calls)}
    return (*messages, *_in_order(results))


def text_of(content: Any, at: str) -> str:
    """Of a text, or of parts that are texts."""
    if content is None or isinstance(content, str):
        return content or ""
    for index, part in enumerate(content):
        if part["type"] == "refusal":
            continue
        if part["type"] not in TEXT_PARTS:
            found = f"found a part of type {quote(part['type'])}"
            raise FieldProblem(f"{at}[{index}]", f"models of this server read text only; {found}")
        if part["text"] is None:
            raise FieldProblem(f"{at}[{index}].text", "is missing: expected a text")
    return "".join(part["text"] for part in content if part["type"] in TEXT_PARTS)


def _message(message: dict[str, Any], at: str) -> ChatMessage:
    role, calls = message["role"], message["tool_calls"] or ()
    if message["content"] is None and role != "assistant":
        raise FieldProblem(f"{at}.content", "is missing: expected a text")
    content = text_of(message["content"], f"{at}.content")
    if role != "assistant":
        return ChatMessage("system" if role in ("system", "developer") else "user", content)
    said = tuple(ToolCall(c["function"]["name"], c["function"]["arguments"]) for c in calls)
    return ChatMessage("assistant", content, thought=message["reasoning_content"] or "", calls=said)


def _result(
    message: dict[str, Any], at: str, calls: dict[str, tuple[int, str]], place: int
) -> tuple[int, ChatMessage]:
    content = text_of(message["content"], f"{at}.content")
    if message["role"] == "function":
        return place, ChatMessage("tool", content, name=message["name"] or "")
    number = message["tool_call_id"]
    if number is None:
        raise FieldProblem(f"{at}.tool_call_id", "is missing: expected the id of a call")
    if number not in calls:
        problem = f"{quote(number)} is none of the calls of the assistant's message before it"
        raise FieldProblem(f"{at}.tool_call_id", problem)
    place, name = calls[number]
    return place, ChatMessage("tool", content, name=name)


def _in_order(results: Iterable[tuple[int, ChatMessage]]) -> list[ChatMessage]:
    return [message for _, message in sorted(results, key=lambda pair: pair[0])]
