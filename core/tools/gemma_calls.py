"""Reads calls as Gemma 4 writes them: `call:name{key:<|"|>text<|"|>,other:[1,true],more:{a:null}}`.

Keys are bare or texts; a text has no escapes, and ends at the next mark. Anything else is a
sentence.
"""

from __future__ import annotations

import re
from typing import Any

from llm_lite.core.tools.json_values import MOST_CHARS, MOST_LEVELS, JsonProblem, read_json
from llm_lite.core.tools.python_calls import TokenReader, number_of

GEMMA_QUOTES = re.compile(re.escape('<|"|>'))
# A number gives nothing back: what is taken of it in parts would be tried in all ways to part it.
_TOKEN = re.compile(
    r"""\s*(?:<\|"\|>(?P<text>.*?)<\|"\|>|(?P<json>"(?:[^"\\]|\\.)*")"""
    r"""|(?P<number>[-+]?(?:\d++\.?+\d*+|\.\d++)(?:[eE][-+]?\d++)?+)(?![\w.-])"""
    r"""|(?P<name>[\w$][\w.$-]*)|(?P<sign>[\[\]{},:]))""",
    re.DOTALL | re.ASCII,
)
_CONSTANTS = {"true": True, "false": False, "null": None, "None": None}
_CLOSING = {"[": "]", "{": "}"}


def read_gemma_call(body: str) -> tuple[str, dict[str, Any]]:
    """Return a call by its name and arguments. JsonProblem."""
    if len(body) > MOST_CHARS:
        raise JsonProblem(f"it has {len(body):,} characters, at most {MOST_CHARS:,} are read")
    reader = _GemmaReader(body.strip().removeprefix("call:"))
    name = reader.name("the name of a function")
    reader.expect("{")
    arguments = reader.members(1)
    if not reader.at_end:
        raise reader.problem("the end of the call")
    return name, arguments


class _GemmaReader(TokenReader):
    tokens = _TOKEN

    def key(self) -> str:
        found = _TOKEN.match(self.text, self.at)
        if found is None or (key := found["text"] or found["name"] or found["json"]) is None:
            raise self.problem("an argument by its name")
        self.at = found.end()
        return str(read_json(key)) if found["json"] is not None else key

    def members(self, level: int) -> dict[str, Any]:
        """Return the object behind its bracket."""
        found: dict[str, Any] = {}
        while not self.takes("}"):
            key = self.key()
            self.expect(":")
            found[key] = self.value(level)
            if not self.takes(","):
                self.expect("}")
                break
        return found

    def value(self, level: int) -> Any:
        if level > MOST_LEVELS:
            raise JsonProblem(f"it nests deeper than {MOST_LEVELS} levels")
        found = _TOKEN.match(self.text, self.at)
        if found is None or found["sign"] not in (None, *_CLOSING):
            raise self.problem("a value")
        if (name := found["name"]) is not None and name not in _CONSTANTS:
            raise self.problem("a value")
        self.at = found.end()
        if found["sign"] == "{":
            return self.members(level + 1)
        if found["sign"] == "[":
            return self._items(level + 1)
        if name is not None:
            return _CONSTANTS[name]
        if found["number"] is not None:
            return number_of(found["number"])
        return found["text"] if found["text"] is not None else read_json(found["json"])

    def _items(self, level: int) -> list[Any]:
        found: list[Any] = []
        while not self.takes("]"):
            found.append(self.value(level))
            if not self.takes(","):
                self.expect("]")
                break
        return found
