"""Kinds of JSON values: each reads a value that came from outside, and describes itself.

`read` gives the value, checked, or FieldProblem with the place and a sentence; `schema` is the same
as a JSON schema. What is said of a field is said here once.
"""

from __future__ import annotations

import math
import re
from typing import Any, Protocol

from msgspec import Struct

from llm_lite.core.files.json_text import finite
from llm_lite.core.plain_text import quote
from llm_lite.core.tools.json_values import kind_of

Schema = dict[str, Any]


class FieldProblem(Exception):  # noqa: N818 - a sentence for who asked
    """What is wrong with a field; `at` is its path, "" of the whole."""

    def __init__(self, at: str, sentence: str) -> None:
        super().__init__(f"{at}: {sentence}" if at else sentence)
        self.at = at


class Kind(Protocol):
    @property
    def words(self) -> str:
        """What it is, as a sentence names it."""
        ...

    def fits(self, value: Any) -> bool:
        """Whether a value is of this kind at first sight."""
        ...

    def read(self, value: Any, at: str) -> Any: ...

    def schema(self) -> Schema: ...


def expect(kind: Kind, value: Any, at: str) -> None:
    if not kind.fits(value):
        raise FieldProblem(at, f"expected {kind.words}, found {kind_of(value)}")


class Text(Struct, frozen=True):
    """Lengths are of characters."""

    least: int = 0
    most: int = 0  # 0: as long as the body may be
    choices: tuple[str, ...] = ()
    pattern: str = ""
    example: str = ""

    @property
    def words(self) -> str:
        if self.choices:
            return " or ".join(f'"{choice}"' for choice in self.choices)
        return "a text"

    def fits(self, value: Any) -> bool:
        return isinstance(value, str)

    def read(self, value: Any, at: str) -> str:
        expect(self, value, at)
        if self.choices and value not in self.choices:
            raise FieldProblem(at, f"expected {self.words}, found {quote(value)}")
        if len(value) < self.least or (self.most and len(value) > self.most):
            most = f" to {self.most:,}" if self.most else " or more"
            found = f"found {len(value):,}"
            raise FieldProblem(at, f"expected {self.least}{most} characters, {found}")
        if self.pattern and not re.fullmatch(self.pattern, value):
            raise FieldProblem(at, f"expected a text like {self.example}, found {quote(value)}")
        return str(value)

    def schema(self) -> Schema:
        schema: Schema = {"type": "string"}
        if self.choices:
            schema["enum"] = list(self.choices)
        if self.least:
            schema["minLength"] = self.least
        if self.most:
            schema["maxLength"] = self.most
        if self.pattern:
            schema["pattern"] = f"^(?:{self.pattern})$"
        return schema


class Number(Struct, frozen=True):
    low: float = -math.inf
    high: float = math.inf

    @property
    def words(self) -> str:
        return "a number" + _range(self.low, self.high)

    def fits(self, value: Any) -> bool:
        return isinstance(value, int | float) and not isinstance(value, bool)

    def read(self, value: Any, at: str) -> float:
        expect(self, value, at)
        number = finite(value)
        if number is None or not self.low <= value <= self.high:
            raise FieldProblem(at, f"expected {self.words}, found {_shown(value)}")
        return number

    def schema(self) -> Schema:
        return {"type": "number", **_bounds(self.low, self.high)}


class Whole(Struct, frozen=True):
    low: int
    high: int

    @property
    def words(self) -> str:
        return "a whole number" + _range(self.low, self.high)

    def fits(self, value: Any) -> bool:
        if isinstance(value, float):
            return value.is_integer()
        return isinstance(value, int) and not isinstance(value, bool)

    def read(self, value: Any, at: str) -> int:
        if isinstance(value, float) and not value.is_integer():
            raise FieldProblem(at, f"expected {self.words}, found {_shown(value)}")
        expect(self, value, at)
        if not self.low <= value <= self.high:
            raise FieldProblem(at, f"expected {self.words}, found {_shown(value)}")
        return int(value)

    def schema(self) -> Schema:
        return {"type": "integer", **_bounds(self.low, self.high)}


class Flag(Struct, frozen=True):
    @property
    def words(self) -> str:
        return "true or false"

    def fits(self, value: Any) -> bool:
        return isinstance(value, bool)

    def read(self, value: Any, at: str) -> bool:
        expect(self, value, at)
        return bool(value)

    def schema(self) -> Schema:
        return {"type": "boolean"}


class Nothing(Struct, frozen=True):
    """null."""

    @property
    def words(self) -> str:
        return "null"

    def fits(self, value: Any) -> bool:
        return value is None

    def read(self, value: Any, at: str) -> None:
        expect(self, value, at)

    def schema(self) -> Schema:
        return {"type": "null"}


class Anything(Struct, frozen=True):
    """A value that is not looked into, or that is checked elsewhere."""

    @property
    def words(self) -> str:
        return "a value"

    def fits(self, value: Any) -> bool:
        return True

    def read(self, value: Any, at: str) -> Any:
        return value

    def schema(self) -> Schema:
        return {}


class AnyObject(Struct, frozen=True):
    """An object whose members are checked elsewhere, as a JSON schema."""

    @property
    def words(self) -> str:
        return "an object"

    def fits(self, value: Any) -> bool:
        return isinstance(value, dict)

    def read(self, value: Any, at: str) -> dict[str, Any]:
        expect(self, value, at)
        return dict(value)

    def schema(self) -> Schema:
        return {"type": "object"}


class ListOf(Struct, frozen=True):
    kind: Kind
    least: int = 0
    most: int = 1 << 20

    @property
    def words(self) -> str:
        return "a list"

    def fits(self, value: Any) -> bool:
        return isinstance(value, list)

    def read(self, value: Any, at: str) -> list[Any]:
        expect(self, value, at)
        if not self.least <= len(value) <= self.most:
            expected = f"expected {self.least:,} to {self.most:,} items"
            raise FieldProblem(at, f"{expected}, found {len(value):,}")
        return [self.kind.read(item, f"{at}[{index}]") for index, item in enumerate(value)]

    def schema(self) -> Schema:
        schema: Schema = {"type": "array", "items": self.kind.schema()}
        if self.least:
            schema["minItems"] = self.least
        return {**schema, "maxItems": self.most}


class MapOf(Struct, frozen=True):
    """An object of any names."""

    kind: Kind
    most: int
    names: str = ""  # a regular expression that each name is of

    @property
    def words(self) -> str:
        return "an object"

    def fits(self, value: Any) -> bool:
        return isinstance(value, dict)

    def read(self, value: Any, at: str) -> dict[str, Any]:
        expect(self, value, at)
        if len(value) > self.most:
            raise FieldProblem(at, f"expected at most {self.most:,} members, found {len(value):,}")
        for name in value:
            if self.names and not re.fullmatch(self.names, name):
                raise FieldProblem(at, f"a member cannot be called {quote(name)}")
        return {name: self.kind.read(one, f"{at}.{named(name)}") for name, one in value.items()}

    def schema(self) -> Schema:
        schema: Schema = {"type": "object", "additionalProperties": self.kind.schema()}
        if self.names:
            schema["propertyNames"] = {"pattern": f"^(?:{self.names})$"}
        return {**schema, "maxProperties": self.most}


class OneOf(Struct, frozen=True):
    """The first kind that a value seems to be of reads it."""

    kinds: tuple[Kind, ...]

    @property
    def words(self) -> str:
        return ", or ".join(kind.words for kind in self.kinds)

    def fits(self, value: Any) -> bool:
        return any(kind.fits(value) for kind in self.kinds)

    def read(self, value: Any, at: str) -> Any:
        fitting = [kind for kind in self.kinds if kind.fits(value)]
        if not fitting:
            raise FieldProblem(at, f"expected {self.words}, found {kind_of(value)}")
        for kind in fitting[:-1]:
            try:
                return kind.read(value, at)
            except FieldProblem:
                continue
        return fitting[-1].read(value, at)

    def schema(self) -> Schema:
        return {"anyOf": [kind.schema() for kind in self.kinds]}


def _range(low: float, high: float) -> str:
    if math.isfinite(low) and math.isfinite(high):
        return f" from {_shown(low)} to {_shown(high)}"
    if math.isfinite(low):
        return f" of at least {_shown(low)}"
    return ""


def _bounds(low: float, high: float) -> Schema:
    found: Schema = {}
    if math.isfinite(low):
        found["minimum"] = low
    if math.isfinite(high):
        found["maximum"] = high
    return found


def _shown(value: float) -> str:
    """A whole number of JSON may be too large for a float."""
    return f"{value:g}" if isinstance(value, float) else str(value)[:40]


def named(name: str) -> str:
    """A member of an object of a client's, as it stands in a path."""
    return name if re.fullmatch(r"[\w-]{1,64}", name) else quote(name)
