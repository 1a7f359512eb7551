"""Functions, calls and their results as chat templates take them."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from typing import Any

from llm_lite.core.errors import RequestError
from llm_lite.core.messages import ChatMessage, ToolCall, ToolSpec
from llm_lite.core.records import replace
from llm_lite.core.text.chat_template import ChatTemplate, Message
from llm_lite.core.tools.declared import offered
from llm_lite.core.tools.json_values import JsonProblem, read_json

_UNNAMED = "unknown"


def tools_for(
    template: ChatTemplate, tools: Sequence[ToolSpec], control_tokens: Collection[str]
) -> list[dict[str, Any]]:
    """Return the tools as the template expects them; [] if it knows no functions.

    RequestError if one contains a control token: it comes from outside, as a message does, but
    templates write it in too many ways to encode it apart.
    """
    if not template.tools_variable:
        return []
    for spec in tools:
        texts = (spec.description, json.dumps(read_json(spec.parameters), ensure_ascii=False))
        found = (token for token in control_tokens for text in texts if token in text)
        if token := next(found, ""):
            raise RequestError(
                f"the function {spec.name} has {token!r} in its description or parameters, which "
                "this model takes for a control token; switch the function off or change its text"
            )
    return [offered(spec) for spec in tools]


def for_template(
    template: ChatTemplate, turns: Sequence[ChatMessage], *, arguments_as_text: bool = False
) -> list[Message]:
    """Return the messages with their calls. Templates differ in whether they want arguments as an
    object or as its JSON."""
    key, ids = template.thought_key, list[str]()
    messages: list[Message] = []
    for index, turn in enumerate(turns):
        message: dict[str, Any] = {"role": turn.role, "content": turn.content}
        if key and turn.thought:
            message[key] = turn.thought
        if turn.calls:
            ids = [f"{index % 100_000:05d}{n % 10_000:04d}" for n in range(len(turn.calls))]
            pairs = zip(turn.calls, ids, strict=True)
            message["tool_calls"] = [_call(call, name, arguments_as_text) for call, name in pairs]
        if turn.role == "tool":
            message["name"] = turn.name or _UNNAMED
            message["tool_call_id"] = ids.pop(0) if ids else "0" * 9
        messages.append(message)
    return messages


def without_tool_roles(turns: Sequence[ChatMessage]) -> list[ChatMessage]:
    """Return as many messages in roles that all templates know, for those without functions."""
    return [_plain(turn) for turn in turns]


def _plain(turn: ChatMessage) -> ChatMessage:
    if turn.role == "tool" and turn.name:
        return ChatMessage("user", f"Result of {turn.name}:\n{turn.content}")
    if not turn.calls:
        return turn
    calls = "\n".join(f"Call: {call.name}({call.arguments})" for call in turn.calls)
    content = f"{turn.content}\n{calls}" if turn.content else calls
    return replace(turn, content=content, tokens=(), calls=())


def _call(call: ToolCall, number: str, as_text: bool) -> dict[str, Any]:
    arguments = _arguments(call)
    given = json.dumps(arguments, ensure_ascii=False) if as_text else arguments
    function = {"name": call.name or _UNNAMED, "arguments": given}
    return {"id": number, "type": "function", "function": function}


def _arguments(call: ToolCall) -> dict[str, Any]:
    """Return a call's arguments, {} if they could not be read: its result tells the model so."""
    try:
        value = {} if call.problem else read_json(call.arguments)
    except JsonProblem:
        return {}
    return value if isinstance(value, dict) else {}
