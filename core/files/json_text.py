"""JSON from untrusted files: bounded, no key twice, every failure one sentence."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from llm_lite.core.errors import FileError
from llm_lite.core.files.git_lfs import refuse_pointer
from llm_lite.core.files.regular import open_regular, unreadable
from llm_lite.core.plain_text import quote

HALF_PAIR = "half of a surrogate pair"
MAX_BYTES = 32 << 20
MAX_TOKENIZER_BYTES = 128 << 20
_MOST_DIGITS = 400  # of a whole number; a float has at most 309


def parse_json(raw: bytes, path: Path, what: str, *, any_number: bool = False) -> Any:
    """Return the JSON value in `raw`, which may have half surrogate pairs in it; `what` names it in
    errors ("the header"). Raises FileError.

    any_number: NaN, infinities and numbers that no float holds are values, as floats that are not
    finite, for a reader that refuses them field by field.
    """
    read: Callable[[str], float] = float if any_number else _number
    whole: Callable[[str], float] = _whole if any_number else int
    try:
        return json.loads(
            raw.decode(),
            object_pairs_hook=_unique,
            parse_float=read,
            parse_constant=read,
            parse_int=whole,
        )
    except UnicodeDecodeError as error:
        raise FileError(path, f"{what} is not valid UTF-8 at byte {error.start}") from None
    except RecursionError:
        raise FileError(path, f"{what} nests too deep") from None
    except ValueError as error:  # JSONDecodeError, a key twice, a number of thousands of digits
        raise FileError(path, f"{what} is not valid JSON: {str(error)[:200]}") from None


def parse_object(raw: bytes, path: Path, what: str) -> dict[str, Any]:
    """Return the JSON object in `raw`, all its strings whole characters. Raises FileError."""
    value = parse_json(raw, path, what)
    if not isinstance(value, dict):
        raise FileError(path, f"{what} is {found(value)}, expected a JSON object")
    if _LONE_SURROGATE.search(raw):
        _refuse_lone_surrogates(value, path, what)
    return value


def read_object(path: Path, *, limit: int = MAX_BYTES, private: bool = False) -> dict[str, Any]:
    """Return the JSON object in a file of at most `limit` bytes. Raises FileError."""
    return parse_object(read_bytes(path, limit, private=private), path, "the file")


def read_bytes(path: Path, limit: int, *, private: bool = False) -> bytes:
    """Read a regular file of at most `limit` bytes, as `open_regular` does; FileError if it has
    more."""
    with open_regular(path, private=private) as stream:
        try:
            raw = stream.read(min(os.fstat(stream.fileno()).st_size, limit) + 1)
        except OSError as error:
            raise unreadable(path, error) from error
    if len(raw) > limit:
        raise FileError(path, f"has more than {limit} bytes, which is too much for this file")
    refuse_pointer(path, raw, len(raw))
    return raw


def found(value: object) -> str:
    """Return a value of a file, from JSON or GGUF, as a message shows it."""
    if isinstance(value, str):
        return quote(value)
    if isinstance(value, bytes):
        return f"{len(value)} bytes"
    if isinstance(value, Mapping):
        return f"an object of {len(value)}"
    if isinstance(value, Sequence):
        return f"a list of {len(value)}"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return str(value)[:40]


def finite(value: object) -> float | None:
    """Return the float of a JSON number; None for what is no number, and for one that no float is
    as large as: an integer may have hundreds of digits, for which `float` and `math.isfinite` raise
    OverflowError."""
    if type(value) not in (int, float):
        return None
    try:
        number = float(value)  # type: ignore[arg-type]
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def check_depth(value: Any, most: int) -> None:
    """Raise ValueError where objects and lists are nested deeper than `most`: Python's writer is
    recursive."""
    level = [value]
    for _ in range(most):
        inner = [v.values() if isinstance(v, dict) else v for v in level]
        level = [v for values in inner for v in values if isinstance(v, dict | list)]
        if not level:
            return
    raise ValueError(f"more than {most} levels of objects and lists")


# Half of an escaped pair; also found, and then checked, where the backslash itself is escaped.
_LONE_SURROGATE = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])"
    rb"|(?<!\\u[dD][89abAB][0-9a-fA-F]{2})\\u[dD][c-fC-F]"
)


def lone_surrogate(value: Any) -> tuple[str, str] | None:
    """Return a text of a JSON value with a lone surrogate in it, which is no character: no encoder
    and no screen takes it. Before it, its place: "a.b[2]", or "" if it is a key."""
    waiting: list[tuple[str, Any]] = [("", value)]
    while waiting:
        key, item = waiting.pop()
        if isinstance(item, str) and any("\ud800" <= char <= "\udfff" for char in item):
            return key, item
        if isinstance(item, dict):
            waiting += (("", name) for name in item)
            waiting += ((f"{key}.{name}" if key else name, inner) for name, inner in item.items())
        elif isinstance(item, list | tuple):
            waiting += ((f"{key}[{number}]", inner) for number, inner in enumerate(item))
    return None


def _refuse_lone_surrogates(value: Any, path: Path, what: str) -> None:
    if (half := lone_surrogate(value)) is not None:
        key, text = half
        where = f"under {quote(key)}" if key else "in a key"
        raise FileError(path, f"{what} is not valid Unicode: {HALF_PAIR} {where}: {quote(text)}")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise ValueError(f"key {quote(twice)} appears twice")
    return result


def _whole(text: str) -> float:
    """Return an integer, or a float for one of more digits than Python reads (4300)."""
    return int(text) if len(text) <= _MOST_DIGITS else float(text)


def _number(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"the number {text[:20]} is not finite")
    return value
