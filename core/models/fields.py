"""Reads a model's hyperparameters with checks: a bad field becomes one sentence that names it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

from core.errors import FileError

_REQUIRED = object()


class Fields:
    """The metadata of one file; `prefix` is the architecture's ("llama.")."""

    def __init__(self, metadata: Mapping[str, object], path: Path, prefix: str) -> None:
        self._metadata = metadata
        self._path = path
        self._prefix = prefix

    def integer(
        self,
        key: str,
        default: int | None = None,
        *,
        at_least: int = 1,
        at_most: int = 1 << 24,
    ) -> int:
        value = self._get(key, _REQUIRED if default is None else default)
        if isinstance(value, bool) or not isinstance(value, int):
            raise self.error(key, f"expected an integer, found {_shown(value)}")
        if not at_least <= value <= at_most:
            raise self.error(key, f"expected {at_least} to {at_most}, found {value}")
        return value

    def number(self, key: str, default: float | None = None, *, above: float = 0.0) -> float:
        value = self._get(key, _REQUIRED if default is None else default)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise self.error(key, f"expected a number, found {_shown(value)}")
        if not math.isfinite(value) or value <= above:
            raise self.error(key, f"expected a finite number above {above}, found {value}")
        return float(value)

    def text(self, key: str, default: str) -> str:
        value = self._get(key, default)
        if not isinstance(value, str):
            raise self.error(key, f"expected a string, found {_shown(value)}")
        return value

    def error(self, key: str, problem: str) -> FileError:
        return FileError(self._path, f"{self._prefix}{key}: {problem}")

    def _get(self, key: str, default: object) -> object:
        value = self._metadata.get(self._prefix + key, default)
        if value is _REQUIRED:
            raise self.error(key, "the field is missing")
        return value


def _shown(value: object) -> str:
    text = repr(value) if isinstance(value, (bool, int, float, str)) else type(value).__name__
    return text if len(text) <= 40 else text[:37] + "..."
