"""JSON from untrusted files: bounded, no key twice, every failure one sentence."""

from __future__ import annotations

import json
import math
import os
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from core.errors import FileError
from core.formats.header import quote

MAX_BYTES = 32 << 20
MAX_TOKENIZER_BYTES = 128 << 20


def parse_object(raw: bytes, path: Path, what: str) -> dict[str, Any]:
    """The JSON object in `raw`; `what` names it in errors ("the header"). Raises FileError."""
    try:
        value = json.loads(
            raw.decode(), object_pairs_hook=_unique, parse_float=_number, parse_constant=_number
        )
    except UnicodeDecodeError as error:
        raise FileError(path, f"{what} is not valid UTF-8 at byte {error.start}") from None
    except RecursionError:
        raise FileError(path, f"{what} nests too deep") from None
    except ValueError as error:  # JSONDecodeError, a key twice, a number of thousands of digits
        raise FileError(path, f"{what} is not valid JSON: {str(error)[:200]}") from None
    if not isinstance(value, dict):
        raise FileError(path, f"{what} is {found(value)}, expected a JSON object")
    return value


def read_object(path: Path, *, limit: int = MAX_BYTES) -> dict[str, Any]:
    """The JSON object in a file of at most `limit` bytes. Raises FileError."""
    return parse_object(read_bytes(path, limit), path, "the file")


def read_bytes(path: Path, limit: int) -> bytes:
    try:
        with path.open("rb") as stream:
            status = os.fstat(stream.fileno())
            size = status.st_size if stat.S_ISREG(status.st_mode) else limit
            raw = stream.read(min(size, limit) + 1)
    except FileNotFoundError as error:
        raise FileError(path, "no such file") from error
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise FileError(path, f"cannot be read: {reason}") from error
    if len(raw) > limit:
        raise FileError(path, f"has more than {limit} bytes, which is too much for this file")
    return raw


def found(value: object) -> str:
    """A value of a file, from JSON or GGUF, as a message shows it."""
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


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise ValueError(f"key {quote(twice)} appears twice")
    return result


def _number(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"the number {text[:20]} is not finite")
    return value
