"""JSON from models, people and servers: bounded in size and nesting, every failure one sentence."""

from __future__ import annotations

import json
import math
from typing import Any

import msgspec

MOST_CHARS = 256 << 10
MOST_LEVELS = 128


class JsonProblem(ValueError):  # noqa: N818 - a sentence for a person, not a defect
    """Raised for invalid JSON, with the line."""


def read_json(text: str, most: int = MOST_CHARS) -> Any:
    """Parse a JSON value. JsonProblem."""
    if len(text) > most:
        raise JsonProblem(f"it has {len(text):,} characters, at most {most:,} are read")
    try:
        value = msgspec.json.decode(text)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        value = _explained(text)
    if levels_of(value) > MOST_LEVELS:
        raise JsonProblem(f"it nests deeper than {MOST_LEVELS} levels")
    return value


def _explained(text: str) -> Any:
    """Return what Python's slower reader makes of a text that msgspec refuses, or its reasons."""
    try:
        value = json.loads(text, parse_constant=_refuse, parse_float=_finite)
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise JsonProblem(f"{where}: {_small(error.msg)}") from None
    except RecursionError:
        raise JsonProblem("it nests too deep") from None
    except ValueError as error:
        raise JsonProblem(str(error)[:200]) from None
    if not _can_be_encoded(text, value):
        raise JsonProblem("it has half a character: a surrogate without the other one")
    return value


def _can_be_encoded(text: str, value: Any) -> bool:
    """Return False for a lone surrogate, which no file, server or tokenizer accepts."""
    try:
        text.encode()
        if "\\u" in text:  # as an escape
            written(value).encode()
    except UnicodeEncodeError:
        return False
    return True


def levels_of(value: Any) -> int:
    """Return how deep lists and objects are nested."""
    deepest, level = 0, [value] if isinstance(value, dict | list) else []
    while level:
        deepest += 1
        inner = (item.values() if type(item) is dict else item for item in level)
        level = [one for items in inner for one in items if type(one) is dict or type(one) is list]
    return deepest


def written(value: Any, indent: int | None = None) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent)


def pretty(text: str) -> str:
    """Return JSON with a line for each member; text that is no JSON is unchanged."""
    try:
        return written(read_json(text), indent=2)
    except JsonProblem:
        return text


def kind_of(value: Any) -> str:
    """Return what a value is, as a sentence names it."""
    if value is None:
        return "null"
    for types, name in _NAMES:
        if isinstance(value, types):
            return name
    return type(value).__name__


_NAMES: tuple[tuple[type | tuple[type, ...], str], ...] = (
    (bool, "true or false"),
    ((int, float), "a number"),
    (str, "a text"),
    (list, "a list"),
    (dict, "an object"),
)


def _small(words: str) -> str:
    return words[:1].lower() + words[1:]


def _refuse(name: str) -> float:
    raise ValueError(f"{name} is no JSON")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"the number {text[:20]} is too large")
    return value
