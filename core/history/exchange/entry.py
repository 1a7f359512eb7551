"""A value in another program's JSON, and its place: errors name both in one sentence."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from msgspec import Struct

from llm_lite.core.errors import FileError
from llm_lite.core.files.json_text import finite, found
from llm_lite.core.history.database.rows import storable
from llm_lite.core.plain_text import shortened

_LATEST = 1e11  # seconds since the epoch, some 3,000 years; later times are in milliseconds


class JsonEntry(Struct, frozen=True):
    path: Path
    name: str  # "messages[3].role"; "" for the whole file
    value: Any

    def get(self, key: str) -> JsonEntry:
        """Return a field; null if there is none. FileError if this is no object."""
        return JsonEntry(
            self.path, f"{self.name}.{key}" if self.name else key, self.object().get(key)
        )

    def __contains__(self, key: str) -> bool:
        return isinstance(self.value, dict) and key in self.value

    @property
    def is_null(self) -> bool:
        return self.value is None

    def object(self) -> dict[str, Any]:
        if not isinstance(self.value, dict):
            raise self.refused("an object")
        return self.value

    def items(self) -> Iterator[JsonEntry]:
        """Yield the entries of a list."""
        if not isinstance(self.value, list):
            raise self.refused("a list")
        for number, item in enumerate(self.value):
            yield JsonEntry(self.path, f"{self.name}[{number}]", item)

    def fields(self) -> Iterator[tuple[str, JsonEntry]]:
        for key in self.object():
            yield key, self.get(key)

    def text(self, default: str | None = None) -> str:
        """Return a text. Half surrogate pairs, which some programs write, become replacement
        characters."""
        if self.value is None and default is not None:
            return default
        if not isinstance(self.value, str):
            raise self.refused("a text")
        return storable(self.value)

    def number(self, default: float | None = None) -> float:
        if self.value is None and default is not None:
            return default
        number = finite(self.value)
        if number is None:
            raise self.refused("a number")
        return number

    def whole(self, most: int, default: int | None = None) -> int:
        """Return a whole number from 0 to `most`."""
        if self.value is None and default is not None:
            return default
        if type(self.value) is not int or not 0 <= self.value <= most:
            raise self.refused(f"a whole number from 0 to {most}")
        return self.value

    def time(self, default: float) -> float:
        """Return a time in seconds since the epoch; a larger number is taken as milliseconds."""
        seconds = self.number(default)
        seconds = seconds / 1000 if seconds > _LATEST else seconds
        if not 0 <= seconds <= _LATEST:
            raise self.refused("a time in seconds since 1970")
        return seconds

    def flag(self, default: bool = False) -> bool:
        if self.value is None:
            return default
        if not isinstance(self.value, bool):
            raise self.refused("true or false")
        return self.value

    def refused(self, expected: str) -> FileError:
        where = shortened(self.name, 200) or "the file"
        return FileError(self.path, f"{where}: expected {expected}, found {found(self.value)}")
