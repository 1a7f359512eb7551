"""What tool servers and models say of functions: tools with their schemas, lines and results, calls
with arguments, and the file that keeps servers and declarations."""

from __future__ import annotations

import copy
import json
import random
from typing import Any, get_args

from llm_lite.core.errors import RequestError
from llm_lite.core.messages import (
    ServerSpec,
    Thinking,
    ThinkingStyle,
    ToolCall,
    ToolSpec,
    ToolStyle,
)
from llm_lite.core.text.thinking import Split
from llm_lite.core.tools.arguments import coerced, problems_of
from llm_lite.core.tools.calls import CallSplit, read_calls
from llm_lite.core.tools.commands import split_command
from llm_lite.core.tools.declared import checked, offered, read_functions
from llm_lite.core.tools.json_values import JsonProblem
from llm_lite.core.tools.received import MessageReader, result_of
from llm_lite.desktop.features.tools import host as files
from llm_lite.desktop.features.tools.state import approval_of
from tests.fuzz.door import Case, Door, Result, problem_of_sentence
from tests.fuzz.mutations import change_json, mutate_bytes, odd_text, special_file, to_json

_SCHEMA = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "minLength": 1, "enum": ["Oslo", "Rome"]},
        "days": {"type": ["integer", "null"], "minimum": 1, "maximum": 14.5},
        "at": {"type": "array", "items": {"type": "number"}, "maxItems": 3},
    },
    "required": ["city"],
    "additionalProperties": False,
}
TOOL = {"name": "weather", "description": "Of a city.", "inputSchema": _SCHEMA}
ARGUMENTS = {"city": "Oslo", "days": 3, "at": [1.5, 2]}
SERVER = {"name": "s", "command": "a 'b c'", "environment": {"KEY": "x"}, "start_seconds": 10}
LINES = (
    {"jsonrpc": "2.0", "id": 1, "result": {"tools": [TOOL]}},
    {"jsonrpc": "2.0", "id": 2, "error": {"code": -1, "message": "no"}},
    {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"},
    {"id": "3", "result": {"content": [
        {"type": "text", "text": "12"}, {"type": "image", "data": "AAAA", "mimeType": "image/png"},
        {"type": "resource", "resource": {"uri": "a:b", "blob": "AAAA", "mimeType": "text/x"}},
        {"type": "resource_link", "uri": "a:b", "name": "b", "size": 3},
    ], "structuredContent": {"result": 12}, "isError": False}},
    {"level": "info", "msg": "started"},
)  # fmt: skip
SAID = (
    'I look.\n<tool_call>\n{"name": "weather", "arguments": {"city": "Oslo"}}\n</tool_call>',
    "<tool_call><function=weather><parameter=city>Oslo</parameter></function></tool_call>",
    '[TOOL_CALLS][{"name": "weather", "arguments": {"city": "Oslo"}}]',
    '<|tool_call|>[{"name": "weather", "arguments": {}}]<|/tool_call|>',
    """<|tool_call_start|>[weather(city="Oslo", at=[1.5], x={'a': '\\n'})]<|tool_call_end|>.""",
    '{"name": "weather", "parameters": {"city": "Oslo"}}',
    '<|channel|>commentary to=functions.weather <|message|>{"city": "Oslo"}<|call|>',
    """<|tool_call>call:weather{city:<|"|>Oslo<|"|>,at:[1.5e-3,true],x:{a:null}}<tool_call|>""",
)
_THOUGHT = (
    *("<think>", "</think>", "<response>", "</response>", "[THINK]", "[/THINK]", " ", "\n"),
    *("<|channel>thought\n", "<channel|>", "<|channel>final\n", "<|start|>assistant", "a"),
    *("<|channel|>analysis<|message|>", "<|end|>", "<|channel|>final<|message|>", "<thi"),
)
_LONG = (
    *SAID,
    *_THOUGHT,
    '"',
    "\\",
    "1",
    "<tool_call>",
    "</tool_call>",
    "<|channel|>commentary to=",
)
_MOST_LONG = 60_000  # characters: work that is more than linear takes minutes


def use(case: Case) -> Result | None:
    kind = case.rng.random()
    if kind < 0.25:
        return _kept(case)
    if kind < 0.45:
        return _said(case.rng) if kind < 0.38 else _thought(case.rng)
    if kind < 0.6:
        return _heard(case.rng)
    try:
        spec = _declared(case.rng)
    except JsonProblem as problem:
        raise RequestError(str(problem)) from None
    # What was taken can be offered, in a prompt and to a server, and told apart.
    json.dumps(offered(spec), allow_nan=False).encode()
    assert approval_of(ServerSpec("s", "x"), spec) == approval_of(ServerSpec("s", "x"), spec)
    call = ToolCall(spec.name, _mutated(ARGUMENTS, case.rng).decode("utf-8", "replace"))
    for sentence in problems_of(call, spec):
        assert not (wrong := problem_of_sentence(sentence)), f"{wrong}: {sentence!r}"
    coerced(call, spec)
    return None


def _heard(rng: random.Random) -> None:
    """A server's lines become messages and strays; what they say reaches a model as text."""
    raw = b"".join(_mutated(rng.choice(LINES), rng) + b"\n" for _ in range(rng.randint(1, 4)))
    raw = raw.replace(b"\n", rng.choice((b"\n", b"\r\n", b"", b" words ")))
    stray: list[str] = []
    reader = MessageReader(stray.append)
    for line in raw.split(b"\n"):
        for message in reader.read(line):
            assert message["jsonrpc"] == "2.0" and ("method" in message or "id" in message)
            if isinstance(message.get("result"), dict):
                result_of(message["result"])[0].encode()


def _declared(rng: random.Random) -> ToolSpec:
    raw = _mutated(TOOL, rng)
    if rng.random() < 0.3:
        (spec, *_) = read_functions(raw.decode("utf-8", "replace")) or (ToolSpec("a", "", "{}"),)
        return spec
    try:
        tool = json.loads(raw)  # a server's, as its JSON reader lets it through: NaN too
    except (ValueError, RecursionError):
        raise RequestError("the fuzzer's own JSON is none") from None
    told = tool if isinstance(tool, dict) else {}
    return checked(told.get("name"), told.get("description"), told.get("inputSchema"), "tool 1")


def _kept(case: Case) -> None:
    path = case.folder / "tools.json"
    path.write_bytes(_mutated({"functions": json.dumps(TOOL), "servers": [SERVER] * 2}, case.rng))
    if case.rng.random() < 0.03:
        special_file(path, case.rng)
    text, servers = files.read(path)
    again = case.folder / "again.json"
    files.write(again, text, servers)
    assert files.read(again) == (text, servers)
    for server in servers:
        split_command(server.command)


def _said(rng: random.Random) -> None:
    text = rng.choice(SAID)
    for _ in range(rng.choice((1, 2, 5))):
        at = rng.randrange(len(text) + 1)
        part = rng.choice((odd_text(rng), rng.choice(SAID), "", "9" * 400, "NaN", "[" * 500))
        if rng.random() < 0.1:
            part = rng.choice(_LONG)
            part *= _MOST_LONG // len(part)
        text = text[:at] + part + text[at + rng.choice((0, 0, 1, 20)) :]
    style = rng.choice([one for one in get_args(ToolStyle) if one not in ("", "unknown")])
    whole, split, at = read_calls(style, text), CallSplit(style), 0
    while at < len(text):
        at += rng.choice((1, 5, 40)) if len(text) < 9_000 else rng.choice((40, 4_000))
        split = split.up_to(text[:at])
    assert split.ended().calls == whole.calls
    for call in whole.calls:
        assert call.problem or isinstance(json.loads(call.arguments), dict)


def _thought(rng: random.Random) -> None:
    """Thoughts are the same however their text is cut, and none of it is lost or said twice."""
    parts = [
        rng.choice((*_THOUGHT, odd_text(rng))) * rng.choice((1, 1, 1, 9, 1000))
        for _ in range(rng.choice((1, 3, 9)))
    ]
    text = "".join(parts)[:_MOST_LONG]
    style = rng.choice(get_args(ThinkingStyle))
    split = Split.of(Thinking(style, inside=rng.random() < 0.3))
    whole, at = split.fed(text).ended(), 0
    while at < len(text):
        size = rng.choice((1, 5, 40)) if len(text) < 9_000 else rng.choice((40, 4_000))
        split, at = split.fed(text[at : at + size]), at + size
    split = split.ended()
    assert (split.thought, split.visible_text) == (whole.thought, whole.visible_text)
    assert split.raw == text


def _mutated(value: Any, rng: random.Random) -> bytes:
    if rng.random() < 0.15:
        return mutate_bytes(json.dumps(value).encode(), rng)
    value = copy.deepcopy(value)
    for _ in range(rng.choice((0, 1, 1, 2, 4))):
        change_json(value, rng)
    return to_json(value)


DOOR = Door("tools", use)
