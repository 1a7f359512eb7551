"""Fields of a config.json: a bad one becomes a sentence that names it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from core.errors import FileError, UnsupportedError
from core.formats.json_text import found


class Config:
    """`prefix` says where in the file the object lies ("text_config.")."""

    def __init__(self, values: Mapping[str, Any], path: Path, prefix: str = "") -> None:
        self._values, self.path, self._prefix = values, path, prefix

    def get(self, key: str) -> Any:
        return self._values.get(key)

    def has(self, key: str) -> bool:
        return key in self._values

    def part(self, key: str) -> Config:
        """The object under `key`; itself where there is none."""
        value = self.get(key)
        if value is None:
            return self
        if not isinstance(value, dict):
            raise self.error(key, "an object", value)
        return Config(value, self.path, f"{self._prefix}{key}.")

    def text(self, key: str, default: str | None = None) -> str:
        value = self._value(key, default)
        if not isinstance(value, str):
            raise self.error(key, "a string", value)
        return value

    def integer(self, key: str, default: int | None = None) -> int:
        value = self._value(key, default)
        if type(value) is not int:
            raise self.error(key, "an integer", value)
        return value

    def number(self, key: str, default: float | None = None) -> float:
        value = self._value(key, default)
        if type(value) not in (int, float) or abs(value) > 1e38:
            raise self.error(key, "a number", value)
        return float(value)

    def flag(self, key: str, default: bool) -> bool:
        value = self._value(key, default)
        if not isinstance(value, bool):
            raise self.error(key, "true or false", value)
        return value

    def list_of(self, key: str, kinds: tuple[type, ...], length: int, default: Any = None) -> Any:
        """A list of so many values of these types."""
        value = self._value(key, default)
        if not isinstance(value, list) or not all(type(item) in kinds for item in value):
            names = " or ".join(kind.__name__ for kind in kinds)
            raise self.error(key, f"a list of {names}", value)
        if len(value) != length:
            raise self.error(key, f"{length} values", value)
        return value

    def must_be(self, key: str, expected: object, what: str) -> None:
        """UnsupportedError where the field is there and says otherwise."""
        value = self.get(key)
        if value is not None and value != expected:
            raise UnsupportedError(
                f"{self.path}: {self._prefix}{key} is {found(value)}: {what} not known here"
            )

    def rope(self) -> tuple[Config, float | None]:
        """The rotary fields, `rope_parameters` or `rope_scaling`, and theta where it is said."""
        for key in ("rope_parameters", "rope_scaling"):
            if self.get(key) is not None:
                part = self.part(key)
                break
        else:
            part = Config({}, self.path, f"{self._prefix}rope_parameters.")
        owner = part if part.get("rope_theta") is not None else self
        theta = None if owner.get("rope_theta") is None else owner.number("rope_theta")
        return part, theta

    def error(self, key: str, expected: str, value: object) -> FileError:
        return FileError(self.path, f"{self._prefix}{key} is {found(value)}, expected {expected}")

    def _value(self, key: str, default: object) -> Any:
        value = self.get(key)
        if value is None and default is None:
            raise FileError(self.path, f"{self._prefix}{key} is missing")
        return default if value is None else value
