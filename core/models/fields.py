"""Reads a model's hyperparameters with checks: a bad field becomes one sentence that names it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from llm_lite.core.errors import FileError, UnsupportedError
from llm_lite.core.files.json_text import found
from llm_lite.core.formats.ranges import LARGEST_WIDTH, Range, text_of
from llm_lite.core.plan.builder import WeightSpec

_REQUIRED = object()


@dataclass(frozen=True, slots=True)
class KnownShape:
    """A weight of a model that is not there: a checkpoint that is to be made."""

    name: str
    dtype: str
    shape: tuple[int, ...]


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
        at_most: int = LARGEST_WIDTH,
    ) -> int:
        value = self._get(key, _REQUIRED if default is None else default)
        if isinstance(value, bool) or not isinstance(value, int):
            raise self.error(key, f"expected an integer, found {found(value)}")
        if not at_least <= value <= at_most:
            raise self.error(key, f"expected {at_least} to {at_most}, found {found(value)}")
        return value

    def number(self, key: str, default: float | None = None, *, within: Range) -> float:
        value = self._get(key, _REQUIRED if default is None else default)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise self.error(key, f"expected a number, found {found(value)}")
        if not within[0] <= value <= within[1]:  # NaN fails too
            raise self.error(key, f"expected {text_of(within)}, found {found(value)}")
        return float(value)

    def number_or_zero(self, key: str, default: float, *, within: Range) -> float:
        """0 where what the number is for is off."""
        zero = self._get(key, default) == 0
        return self.number(key, default, within=(0, 0) if zero else within)

    def text(self, key: str, default: str) -> str:
        value = self._get(key, default)
        if not isinstance(value, str):
            raise self.error(key, f"expected a string, found {found(value)}")
        return value

    def flags(self, key: str, count: int) -> tuple[bool, ...]:
        """One for each layer."""
        values = self._list(key, count, _REQUIRED)
        if not all(isinstance(value, bool) for value in values):
            raise self.error(key, "expected true or false for each layer")
        return tuple(bool(value) for value in values)

    def has(self, key: str) -> bool:
        return self._prefix + key in self._metadata

    def integers(
        self, key: str, count: int, *, at_least: int = 1, at_most: int = LARGEST_WIDTH
    ) -> tuple[int, ...]:
        """One for each layer, or one for all."""
        values = self._list(key, count, _REQUIRED)
        for value in values:
            if type(value) is not int or not at_least <= value <= at_most:
                expected = f"expected integers from {at_least} to {at_most}"
                raise self.error(key, f"{expected}, found {found(value)}")
        return tuple(int(value) for value in values)  # type: ignore[call-overload]

    def numbers(self, key: str, count: int, default: float, *, within: Range) -> tuple[float, ...]:
        """One for each layer, or one for all; -inf is a number here."""
        values = self._list(key, count, default)
        for value in values:
            if type(value) not in (int, float) or not (
                value == -math.inf or within[0] <= value <= within[1]  # type: ignore[operator]
            ):
                problem = f"expected -inf or {text_of(within)}, found {found(value)}"
                raise self.error(key, problem)
        return tuple(float(value) for value in values)  # type: ignore[arg-type]

    def _list(self, key: str, count: int, default: object) -> list[object]:
        value = self._get(key, default)
        if isinstance(value, (str, bytes)) or not isinstance(value, Sequence):
            return [value] * count
        if len(value) != count:
            raise self.error(key, f"expected {count} values, one a layer, found {len(value)}")
        return list(value)

    def flag(self, key: str, default: bool) -> bool:
        value = self._get(key, default)
        if not isinstance(value, bool):
            raise self.error(key, f"expected true or false, found {found(value)}")
        return value

    def error(self, key: str, problem: str) -> FileError:
        return FileError(self._path, f"{self._prefix}{key}: {problem}")

    def _get(self, key: str, default: object) -> object:
        value = self._metadata.get(self._prefix + key, default)
        if value is _REQUIRED:
            raise self.error(key, "the field is missing")
        return value


def check_shapes(
    family: str,
    expected: Sequence[tuple[str, tuple[int, ...]]],
    weights: Mapping[str, WeightSpec],
    path: Path,
) -> None:
    """Every tensor is there, has the shape that the fields imply, and none is left over."""
    shapes = dict(expected)
    for name, shape in shapes.items():
        if name not in weights:
            raise FileError(path, f"tensor {name} is missing")
        if weights[name].shape != shape:
            own = weights[name].shape
            raise FileError(path, f"tensor {name}: expected shape {shape}, found {own}")
    for name in weights:
        if name not in shapes:
            raise UnsupportedError(f"{path}: tensor {name[:80]!r} has no place in a {family} model")
