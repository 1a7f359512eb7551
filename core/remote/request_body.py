"""A `Generate` as a request of OpenAI's protocol, in a server's dialect."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct

from llm_lite.core.errors import RequestError
from llm_lite.core.messages import ChatMessage, Generate, SamplingOptions, ToolCall, ToolSpec
from llm_lite.core.messages.answers import EFFORT
from llm_lite.core.messages.sampling_options import OPTIONS
from llm_lite.core.remote.dialects import Dialect

MOST_ALTERNATIVES = 5


class RemoteRequest(Struct, frozen=True):
    path: str
    body: dict[str, Any]
    optional: tuple[str, ...]  # fields that the answer can do without
    begun: str = ""  # what the answer begins with: the server continues it


def build_request(
    command: Generate, model: str, dialect: Dialect, response: str = ""
) -> RemoteRequest:
    """Return the request for a command. RequestError says what the protocol cannot carry."""
    body: dict[str, Any] = {"model": model, "stream": True, **dialect.extras}
    if command.interventions:
        if dialect.name != "llm-lite":
            raise RequestError("interventions: the server is no llm-lite, which takes them")
        body["interventions"] = msgspec.to_builtins(command.interventions)
    optional = [*dialect.extras, *_sampling(command.sampling, dialect, body, command.raw)]
    if command.raw:
        text, begin = continued_text(command)
        body["prompt"] = text + begin
        if dialect.tells_likelihoods:
            body["logprobs"] = MOST_ALTERNATIVES
        return RemoteRequest("/v1/completions", body, (*optional, "logprobs"), begin)
    begun = _beginning(command, dialect)
    sent = command.messages[:-1] if command.continue_last else command.messages
    body["messages"] = written(sent, dialect)
    if dialect.tells_likelihoods:
        body |= {"logprobs": True, "top_logprobs": MOST_ALTERNATIVES}
        optional += ["logprobs", "top_logprobs"]
    if command.tools:
        body["tools"] = [tool_row(spec) for spec in command.tools]
    continues = bool(begun) and dialect.continuing == "prefill"
    values = template_fields(command, dialect, thinking=command.thinking and not continues)
    body |= values
    optional += values
    if begun:
        body["messages"].append({"role": "assistant", "content": begun})
        if dialect.continuing == "field":
            body |= {"continue_final_message": True, "add_generation_prompt": False}
    shown = "" if command.continue_last else begun
    return RemoteRequest("/v1/chat/completions", body, tuple(optional), shown)


def template_fields(command: Generate, dialect: Dialect, *, thinking: bool) -> dict[str, Any]:
    """Return the fields that give values to the variables of the server's chat template."""
    values, fields = dict(command.values), dict[str, Any]()
    if (effort := values.pop(EFFORT, None)) is not None:
        fields[EFFORT] = effort
    if dialect.switches_thinking and not thinking:
        values["enable_thinking"] = False
    if values:
        fields["chat_template_kwargs"] = values
    return fields


def continued_text(command: Generate) -> tuple[str, str]:
    """Return what a raw command continues, and what its answer begins with."""
    begin = command.begin.content if command.begin is not None else ""
    return "".join(message.content for message in command.messages), begin


def _beginning(command: Generate, dialect: Dialect) -> str:
    """Return the text that the answer begins with; "" if it begins afresh."""
    begin = command.messages[-1] if command.continue_last else command.begin
    if command.forced and begin is None:
        raise RequestError("a server takes no tokens to begin with: only text can be continued")
    if begin is None or not (begin.content or begin.thought):
        return ""
    if not dialect.continuing:
        name = dialect.title or "this server"
        raise RequestError(f"{name} has no way to continue an answer: it can only answer anew")
    if not begin.content:
        raise RequestError("a thought cannot be continued on a server: it can only answer anew")
    return begin.content


def _sampling(
    sampling: SamplingOptions, dialect: Dialect, body: dict[str, Any], completes: bool
) -> list[str]:
    """Write what the server knows into `body` and return the fields that are none of OpenAI's."""
    optional = []
    for row in OPTIONS.values():
        name, value = dialect.sampling.get(row.name), getattr(sampling, row.name)
        if name is None or value in ("", (), None):
            continue
        if value == row.default and not row.always_sent:
            continue
        if value == row.minus_one == row.high:  # no limit, which servers know in their own ways
            if not (dialect.takes_minus_one or completes):
                continue  # chats are not limited then
            value = -1 if dialect.takes_minus_one else value
        if row.name == "json_schema":
            value = _schema(value, dialect)
        elif row.kind == "biases":
            value = {str(token): bias for token, bias in value}
        elif row.kind == "texts":
            value = list(value)
        if dialect.name in row.switches:
            switch, on = row.switches[dialect.name]
            body[switch] = on
        body[name] = value
        if row.name not in ("temperature", "top_p", "max_new_tokens"):
            optional.append(name)
    return optional


def _schema(text: str, dialect: Dialect) -> dict[str, Any]:
    try:
        schema = json.loads(text)
    except (ValueError, RecursionError):
        raise RequestError("the JSON schema of the sampling panel is not valid JSON") from None
    if dialect.name == "llama-cpp-python":
        return {"type": "json_object", "schema": schema}
    return {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}}


def tool_row(spec: ToolSpec) -> dict[str, Any]:
    return {
        "type": "function",
        "function": {
            "name": spec.name,
            "description": spec.description,
            "parameters": json.loads(spec.parameters),
        },
    }


def written(messages: Sequence[ChatMessage], dialect: Dialect) -> list[dict[str, Any]]:
    """Return messages in the form of the protocol: results of functions name the calls that they
    answer."""
    found: list[dict[str, Any]] = []
    waiting: list[str] = []  # ids of calls without a result yet
    for message in messages:
        if message.role == "tool":
            answered = waiting.pop(0) if waiting else f"call_{len(found)}"
            found.append({"role": "tool", "tool_call_id": answered, "content": message.content})
            continue
        row: dict[str, Any] = {"role": message.role, "content": message.content}
        if message.role == "assistant":
            if message.thought and dialect.sends_thoughts:
                row["reasoning_content"] = message.thought
            if message.calls:
                waiting = [f"call_{len(found)}_{place}" for place in range(len(message.calls))]
                row["tool_calls"] = [
                    _call(call, number) for call, number in zip(message.calls, waiting, strict=True)
                ]
        found.append(row)
    return found


def _call(call: ToolCall, number: str) -> dict[str, Any]:
    """Return a call in the form of the protocol. Servers read the arguments as JSON: invalid ones
    are sent as a text."""
    try:
        whole = isinstance(json.loads(call.arguments), dict)
    except (ValueError, RecursionError):
        whole = False
    arguments = call.arguments if whole else json.dumps({"invalid": call.arguments})
    name = call.name or "unknown"
    return {"id": number, "type": "function", "function": {"name": name, "arguments": arguments}}
