"""Reads calls in the form of Python, `[name(key="text", other=[1, True]), ...]`, of LFM2.

Names, keyword arguments and literals are read and nothing is run; anything else is a sentence.
"""

from __future__ import annotations

import math
import re
from typing import Any, ClassVar

from msgspec import Struct

from llm_lite.core.tools.json_values import MOST_CHARS, MOST_LEVELS, JsonProblem

_TOKEN = re.compile(
    r"""\s*(?:(?P<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')"""
    r"""|(?P<number>[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)"""
    r"""|(?P<name>[^\W\d][\w.-]*)|(?P<sign>[\[\](){},:=]))""",
    re.DOTALL | re.ASCII,
)
_CONSTANTS = {"True": True, "False": False, "None": None}
_CONSTANTS |= {"true": True, "false": False, "null": None}  # as JSON has them
_SOMETHING = re.compile(r"\S")
PYTHON_QUOTES = re.compile(r"""\\.|["']""", re.DOTALL)
_ESCAPE = re.compile(r"\\(x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|.)", re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "\n": ""}
_CLOSING = {"[": "]", "(": ")", "{": "}"}
_MOST_DIGITS = 308


def read_python_calls(body: str, most: int) -> list[tuple[str, dict[str, Any]]]:
    """Return the first `most` calls, by name and arguments. JsonProblem."""
    if len(body) > MOST_CHARS:
        raise JsonProblem(f"it has {len(body):,} characters, at most {MOST_CHARS:,} are read")
    reader, found = _PythonReader(body.strip()), list[tuple[str, dict[str, Any]]]()
    bracketed = reader.takes("[")
    while len(found) < most and not reader.at_end and not (bracketed and reader.takes("]")):
        found.append(reader.call())
        if not reader.takes(","):
            if bracketed:
                reader.expect("]")
            break
    if len(found) < most and not reader.at_end:
        raise reader.problem("the end of the calls")
    return found


class TokenReader(Struct):
    """Reads a call from left to right. tokens: finds the next, with groups `name` and `sign`."""

    text: str
    at: int = 0
    tokens: ClassVar[re.Pattern[str]]

    @property
    def at_end(self) -> bool:
        return _SOMETHING.search(self.text, self.at) is None

    def problem(self, expected: str) -> JsonProblem:
        begin = _SOMETHING.search(self.text, self.at)
        found = self.text[begin.start() : begin.start() + 20] if begin else ""
        return JsonProblem(f"expected {expected}, found {found!r}" if found else "it has no end")

    def takes(self, sign: str) -> bool:
        """Go on behind a sign, if it comes next."""
        found = self.tokens.match(self.text, self.at)
        if found is None or found["sign"] != sign:
            return False
        self.at = found.end()
        return True

    def expect(self, sign: str) -> None:
        if not self.takes(sign):
            raise self.problem(repr(sign))

    def name(self, expected: str) -> str:
        found = self.tokens.match(self.text, self.at)
        if found is None or found["name"] is None:
            raise self.problem(expected)
        self.at = found.end()
        return found["name"]


class _PythonReader(TokenReader):
    tokens = _TOKEN

    def call(self) -> tuple[str, dict[str, Any]]:
        name, arguments = self.name("the name of a function"), dict[str, Any]()
        self.expect("(")
        while not self.takes(")"):
            key = self.name("an argument by its name")
            self.expect("=")
            arguments[key] = self.value(1)
            if not self.takes(","):
                self.expect(")")
                break
        return name, arguments

    def value(self, level: int) -> Any:
        if level > MOST_LEVELS:
            raise JsonProblem(f"it nests deeper than {MOST_LEVELS} levels")
        found = _TOKEN.match(self.text, self.at)
        if found is None:
            raise self.problem("a value")
        if (sign := found["sign"]) is not None:
            if sign not in _CLOSING:
                raise self.problem("a value")
            self.at = found.end()
            return self._members(level, sign)
        if (name := found["name"]) is not None and name not in _CONSTANTS:
            raise self.problem("a value")
        self.at = found.end()
        if name is not None:
            return _CONSTANTS[name]
        return number_of(found["number"]) if found["text"] is None else _unquoted(found["text"])

    def _members(self, level: int, opening: str) -> Any:
        """Return the list or the object behind a bracket."""
        keys, values = list[str](), list[Any]()
        while not self.takes(_CLOSING[opening]):
            one = self.value(level + 1)
            if opening == "{":
                if not isinstance(one, str):
                    raise self.problem("a text as the key before")
                self.expect(":")
                keys.append(one)
                one = self.value(level + 1)
            values.append(one)
            if not self.takes(","):
                self.expect(_CLOSING[opening])
                break
        return dict(zip(keys, values, strict=True)) if opening == "{" else values


def number_of(text: str) -> float | int:
    """Return a number of decimal digits. JsonProblem for one beyond all floats."""
    if text.lstrip("+-").isdigit() and len(text) <= _MOST_DIGITS:
        return int(text)
    value = float(text)
    if not math.isfinite(value):
        raise JsonProblem(f"the number {text[:20]} is too large")
    return value


def _unquoted(text: str) -> str:
    """Return what a text in quotes stands for."""

    def meant(found: re.Match[str]) -> str:
        escape = found[1]
        if len(escape) > 1:
            code = int(escape[1:], 16)
            if code > 0x10FFFF or 0xD800 <= code < 0xE000:
                raise JsonProblem(f"\\{escape} is no character")
            return chr(code)
        return _ESCAPES.get(escape, escape)

    return _ESCAPE.sub(meant, text[1:-1])
