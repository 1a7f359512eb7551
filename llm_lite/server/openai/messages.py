"""`messages_of` turns a conversation of OpenAI's protocol into the engine's messages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from llm_lite.core.checked import CheckError
from llm_lite.core.messages import ChatMessage, ToolCall
from llm_lite.core.plain_text import quote
from llm_lite.server.openai.request import MOST_LISTED
from llm_lite.server.schema import about

TEXT_PARTS = ("text", "input_text", "output_text")
MADE_HERE = ("assistant", "tool", "function")  # roles whose content no person has chosen
_UNREAD = "[The tool gave {kind}, which cannot be read here.]"

CallId = Annotated[str, Meta(min_length=1)]
NameText = Annotated[str, Meta(min_length=1)]
JsonText = Annotated[str, about("An object of JSON, as a text.")]


class ContentPart(Struct):
    type: Annotated[str, about("text: nothing else is read by models of this server.")]
    text: str | None = None


Content = str | Annotated[list[ContentPart], Meta(max_length=MOST_LISTED)]


class CalledFunction(Struct):
    name: NameText
    arguments: JsonText


class ToolCallGiven(Struct):
    id: CallId
    function: CalledFunction
    type: Literal["function"] | None = "function"


class Message(Struct):
    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: Annotated[
        Content | None, about("Of an assistant that calls functions it may be missing.")
    ] = None
    name: Annotated[str | None, about("Of a function's result: the function.")] = None
    tool_calls: Annotated[list[ToolCallGiven] | None, about("Of an assistant.")] = None
    tool_call_id: Annotated[str | None, about("Of a tool: which call it answers.")] = None
    reasoning_content: Annotated[str | None, about("Of an assistant: what it thought.")] = None
    refusal: Any = None


Messages = Annotated[list[Message], Meta(min_length=1)]


def messages_of(given: Sequence[Message]) -> tuple[ChatMessage, ...]:
    """Return the engine's messages; results of functions stand in the order of their calls.
    Raises CheckError."""
    messages: list[ChatMessage] = []
    open_calls: dict[str, tuple[int, str]] = {}  # id -> place among the calls, function
    results: list[tuple[int, ChatMessage]] = []
    for index, message in enumerate(given):
        at = f"messages[{index}]"
        if message.role in ("tool", "function"):
            results.append(_result(message, at, open_calls, len(results)))
            continue
        messages += _in_order(results)
        results = []
        messages.append(_message(message, at))
        calls = message.tool_calls or ()
        open_calls = {c.id: (n, c.function.name) for n, c in enumerate(calls)}
    return (*messages, *_in_order(results))


def result_of(content: str | list[ContentPart] | None, at: str) -> str:
    """Return the text of what a tool gave. Of a part that is no text, as an image, the model is
    told that there is one: the person did not choose it, and the conversation has to go on."""
    if content is None or isinstance(content, str):
        return content or ""
    parts = [
        part if part.type in TEXT_PARTS else ContentPart("text", _UNREAD.format(kind=part.type))
        for part in content
    ]
    return text_of(parts, at)


def said_of(content: str | list[ContentPart] | None, at: str) -> str:
    """Return the text of what an assistant said. Parts that are no text, as thoughts that another
    server has marked, are left out."""
    if content is None or isinstance(content, str):
        return content or ""
    return text_of([part for part in content if part.type in TEXT_PARTS], at)


def unread_types(content: str | list[ContentPart] | None) -> list[str]:
    """Return the types of parts whose content `result_of` and `said_of` leave out."""
    parts = content if isinstance(content, list) else []
    return [part.type for part in parts if part.type not in (*TEXT_PARTS, "refusal")]


def text_of(content: str | list[ContentPart] | None, at: str) -> str:
    """Return the text of a content, which may come in parts."""
    if content is None or isinstance(content, str):
        return content or ""
    for index, part in enumerate(content):
        if part.type == "refusal":
            continue
        if part.type not in TEXT_PARTS:
            found = f"found a part of type {quote(part.type)}"
            raise CheckError(f"{at}[{index}]", f"models of this server read text only; {found}")
        if part.text is None:
            raise CheckError(f"{at}[{index}].text", "is missing: expected a text")
    return "".join(part.text or "" for part in content if part.type in TEXT_PARTS)


def _message(message: Message, at: str) -> ChatMessage:
    role, calls = message.role, message.tool_calls or ()
    if message.content is None and role != "assistant":
        raise CheckError(f"{at}.content", "is missing: expected a text")
    if role != "assistant":
        content = text_of(message.content, f"{at}.content")
        return ChatMessage("system" if role in ("system", "developer") else "user", content)
    content = said_of(message.content, f"{at}.content")
    made = tuple(ToolCall(c.function.name, c.function.arguments) for c in calls)
    return ChatMessage("assistant", content, thought=message.reasoning_content or "", calls=made)


def _result(
    message: Message, at: str, calls: dict[str, tuple[int, str]], place: int
) -> tuple[int, ChatMessage]:
    content = result_of(message.content, f"{at}.content")
    if message.role == "function":
        return place, ChatMessage("tool", content, name=message.name or "")
    number = message.tool_call_id
    if number is None:
        raise CheckError(f"{at}.tool_call_id", "is missing: expected the id of a call")
    if number not in calls:
        problem = f"{quote(number)} is none of the calls of the assistant's message before it"
        raise CheckError(f"{at}.tool_call_id", problem)
    place, name = calls[number]
    return place, ChatMessage("tool", content, name=name)


def _in_order(results: Iterable[tuple[int, ChatMessage]]) -> list[ChatMessage]:
    return [message for _, message in sorted(results, key=lambda pair: pair[0])]
