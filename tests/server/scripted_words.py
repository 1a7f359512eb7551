"""What a scripted service says: words for tokens, an answer for a request, values for a schema."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Sequence
from typing import Any

from llm_lite.core.errors import RequestError
from llm_lite.core.messages import AnswerRequest, ToolSpec

_PIECES = re.compile(r"\s?\w+|\s|.", re.DOTALL)
BEGIN, END, TURN = 0, 1, 2


class Words:
    """A vocabulary that grows: a token is a word with the space before it, or a mark."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._texts = ["<s>", "</s>", "\n", *(chr(code) for code in range(32, 127))]
        self._ids = {text: index for index, text in enumerate(self._texts)}

    def encode(self, text: str) -> list[int]:
        with self._lock:
            return [self._id(piece) for piece in _PIECES.findall(text)]

    def text(self, token: int) -> str:
        if not 0 <= token < len(self._texts):
            raise RequestError(f"token {token} is not in 0..{len(self._texts) - 1}")
        return self._texts[token]

    def decode(self, tokens: Sequence[int]) -> str:
        return "".join(self.text(token) for token in tokens if token not in (BEGIN, END))

    def _id(self, piece: str) -> int:
        found = self._ids.get(piece)
        if found is None:
            found = self._ids[piece] = len(self._texts)
            self._texts.append(piece)
        return found


def echo(request: AnswerRequest) -> str:
    """The last thing that was said, as one would repeat it; for a schema a value of it, and a call
    of the first function where one is offered and asked for."""
    if request.sampling.json_schema:
        return json.dumps(value_of(json.loads(request.sampling.json_schema)))
    if request.messages and request.messages[-1].role != "tool" and request.tools:
        return call_of(request.tools[0])
    last = request.messages[-1].content if request.messages else request.text
    return f"You said: {last}"


def call_of(tool: ToolSpec) -> str:
    arguments = value_of(json.loads(tool.parameters))
    body = json.dumps({"name": tool.name, "arguments": arguments})
    return f"<tool_call>\n{body}\n</tool_call>"


def value_of(schema: Any, whole: Any = None) -> Any:
    """Some value that a simple schema allows; references are into `whole`."""
    if not isinstance(schema, dict):
        return {}
    whole = schema if whole is None else whole
    if "$ref" in schema:
        target = whole
        for name in schema["$ref"].split("/")[1:]:
            target = target[name]
        return value_of(target, whole)
    if "const" in schema:
        return schema["const"]
    if schema.get("enum"):
        return schema["enum"][0]
    for several in ("anyOf", "oneOf"):
        if schema.get(several):
            return value_of(schema[several][0], whole)
    match schema.get("type"):
        case "string":
            return "Seoul"
        case "integer":
            return int(schema.get("minimum", 7))
        case "number":
            return 7.5
        case "boolean":
            return True
        case "null":
            return None
        case "array":
            return [value_of(schema.get("items", {"type": "string"}), whole)]
    return {name: value_of(part, whole) for name, part in schema.get("properties", {}).items()}
