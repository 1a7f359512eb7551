"""Fields of a config.json: a bad one becomes a sentence that names it."""

from __future__ import annotations

from collections.abc import Mapping, Set
from pathlib import Path
from typing import Any

from llm_lite.core.errors import FileError, UnsupportedError
from llm_lite.core.files.json_text import found
from llm_lite.core.formats.ranges import (
    LARGEST_VOCABULARY,
    LARGEST_WIDTH,
    ROPE_BASE,
    Range,
    text_of,
)

# Fields whose null is a value: no window, no cap, heads as others make them. Elsewhere it is as if
# the field were left out (the configurations of transformers).
_SAID_BY_NULL = frozenset(
    (
        *("sliding_window", "attn_logit_softcapping", "final_logit_softcapping"),
        *("num_key_value_heads", "head_dim"),
    )
)
_OTHER_NAMES = {"rope_parameters": "rope_scaling"}  # of fields that have a default


class CheckpointConfig:
    """A config.json; `prefix` says where in the file the object is ("text_config.")."""

    def __init__(self, values: Mapping[str, Any], path: Path, prefix: str = "") -> None:
        self._values, self.path, self._prefix = values, path, prefix

    def get(self, key: str) -> Any:
        return self._values.get(key)

    def has(self, key: str) -> bool:
        return key in self._values

    def keys(self) -> Set[str]:
        return self._values.keys()

    def with_defaults(self, defaults: Mapping[str, Any]) -> CheckpointConfig:
        """Return the config with `defaults` in place of fields that are missing, or null where that
        says nothing."""
        lacking = {
            key: value
            for key, value in defaults.items()
            if self.get(key) is None
            and not (key in _SAID_BY_NULL and self.has(key))
            and not self.get(_OTHER_NAMES.get(key, key))
        }
        return CheckpointConfig({**self._values, **lacking}, self.path, self._prefix)

    def part(self, key: str) -> CheckpointConfig:
        """Return the object under `key`; the config itself if there is none."""
        value = self.get(key)
        if value is None:
            return self
        if not isinstance(value, dict):
            raise self.error(key, "an object", value)
        return CheckpointConfig(value, self.path, f"{self._prefix}{key}.")

    def text(self, key: str, default: str | None = None) -> str:
        value = self._value(key, default)
        if not isinstance(value, str):
            raise self.error(key, "a string", value)
        return value

    def integer(
        self,
        key: str,
        default: int | None = None,
        *,
        at_least: int = 1,
        at_most: int = LARGEST_WIDTH,
    ) -> int:
        value = self._value(key, default)
        if type(value) is not int:
            raise self.error(key, "an integer", value)
        if not at_least <= value <= at_most:
            raise self.error(key, f"{at_least} to {at_most}", value)
        return value

    def number(self, key: str, default: float | None = None, *, within: Range) -> float:
        value = self._value(key, default)
        if type(value) not in (int, float):
            raise self.error(key, "a number", value)
        if not within[0] <= value <= within[1]:
            raise self.error(key, text_of(within), value)
        return float(value)

    def rows(self, key: str, tensor: str, rows: int) -> None:
        """Raise FileError if the field is there and is not the number of a tensor's rows."""
        if self.get(key) is not None and self.integer(key, at_most=LARGEST_VOCABULARY) != rows:
            raise self.error(key, f"{rows}, as many as {tensor} has rows", self.get(key))

    def flag(self, key: str, default: bool) -> bool:
        value = self._value(key, default)
        if not isinstance(value, bool):
            raise self.error(key, "true or false", value)
        return value

    def list_of(self, key: str, kinds: tuple[type, ...], length: int, default: Any = None) -> Any:
        """Return a list of `length` values of these types."""
        value = self._value(key, default)
        if not isinstance(value, list) or not all(type(item) in kinds for item in value):
            names = " or ".join(kind.__name__ for kind in kinds)
            raise self.error(key, f"a list of {names}", value)
        if len(value) != length:
            raise self.error(key, f"{length} values", value)
        return value

    def must_be(self, key: str, expected: object, what: str) -> None:
        """Raise UnsupportedError if the field is there with another value."""
        value = self.get(key)
        if value is not None and value != expected:
            raise UnsupportedError(
                f"{self.path}: {self._prefix}{key} is {found(value)}: {what} not known here"
            )

    def rope(self) -> tuple[CheckpointConfig, float | None]:
        """Return the rotary fields, `rope_scaling` or else `rope_parameters`, and theta where the
        file has it; where kinds of layers have their own, those of full attention."""
        for key in ("rope_scaling", "rope_parameters"):
            if self.get(key):
                part = self.part(key)
                part = part.part("full_attention")
                break
        else:
            part = CheckpointConfig({}, self.path, f"{self._prefix}rope_parameters.")
        owner = part if part.get("rope_theta") is not None else self
        known = owner.get("rope_theta") is not None
        theta = owner.number("rope_theta", within=ROPE_BASE) if known else None
        return part, theta

    def error(self, key: str, expected: str, value: object) -> FileError:
        return FileError(self.path, f"{self._prefix}{key} is {found(value)}, expected {expected}")

    def missing(self, key: str) -> FileError:
        return FileError(self.path, f"{self._prefix}{key} is missing")

    def _value(self, key: str, default: object) -> Any:
        value = self.get(key)
        if value is None and default is None:
            raise self.missing(key)
        return default if value is None else value
