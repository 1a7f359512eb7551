"""Rows of fields: an attribute's names in GGUF and in config.json, and its range.

A config is a record whose attributes carry a row each. The rows read it from either file; from
them comes the translation of one into the other too. Rows are read in order, so that a row may say
its default or its range by what was read before it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, cast

from msgspec import Struct

from llm_lite.core.errors import FileError
from llm_lite.core.files.json_text import found
from llm_lite.core.formats.huggingface_config import CheckpointConfig
from llm_lite.core.formats.ranges import LARGEST_WIDTH, Range, text_of
from llm_lite.core.records import FieldNotesMeta, FieldWithNotes

Known = Mapping[str, Any]  # attributes that were read, by name
Check = Callable[[Any, Known], Any]  # a value as the file has it -> the attribute; UnfitError
FromCheckpoint = Callable[[CheckpointConfig, Known], object]  # None: the config does not say
_UNSAID = object()
REQUIRED = object()


class UnfitError(Exception):
    """Raised for a value that a row does not allow. `attribute`: another row's that is to blame."""

    def __init__(self, expected: str, value: object, attribute: str = "") -> None:
        super().__init__(expected)
        self.expected, self.value, self.attribute = expected, value, attribute


class FieldRow(Struct, frozen=True):
    """A row of a field. gguf: the key behind "<architecture>.", or a whole one that begins with
    "tokenizer.". checkpoint: the key in config.json, or what finds the value there; None: it has no
    such field. A default is a value, or made of what is known; `assumed` is the default of a
    config.json, which is then as good as said. older: GGUF's
    key of old files."""

    gguf: str
    checkpoint: str | FromCheckpoint | None
    check: Check
    default: Any = REQUIRED
    assumed: Any = None
    older: str = ""

    def key(self, prefix: str) -> str:
        """Return the whole key in GGUF; `prefix` is the architecture's ("llama.")."""
        return self.gguf if self.gguf.startswith("tokenizer.") else prefix + self.gguf


def row(of: FieldRow) -> Any:
    """Return an attribute of a config that is read by this row."""
    return FieldWithNotes({"row": of})


def rows_of(config: type[Any]) -> Mapping[str, FieldRow]:
    notes = cast(FieldNotesMeta, config).notes
    return {name: known["row"] for name, known in notes.items()}


class FieldSource(Protocol):
    """A file's fields, and errors in its own words."""

    def value(self, row: FieldRow, known: Known) -> object: ...
    def error(self, row: FieldRow, expected: str, value: object) -> FileError: ...
    def missing(self, row: FieldRow) -> FileError: ...


def read_rows(config: type[Any], source: FieldSource) -> tuple[dict[str, Any], frozenset[str]]:
    """Read every attribute that has a row, and return the names of those that the source has.
    FileError."""
    rows = rows_of(config)
    known: dict[str, Any] = {}
    in_config = set()
    for name, one in rows.items():
        try:
            value = source.value(one, known)
            if value is not _UNSAID:
                in_config.add(name)
                known[name] = one.check(value, known)
            elif one.default is REQUIRED:
                raise source.missing(one)
            else:
                known[name] = one.default(known) if callable(one.default) else one.default
        except UnfitError as unfit:
            blamed = rows[unfit.attribute or name]
            raise source.error(blamed, unfit.expected, unfit.value) from None
    return known, frozenset(in_config)


class GgufFields:
    """The metadata of a GGUF file or a variant; `prefix` is the architecture's ("llama.")."""

    def __init__(self, metadata: Mapping[str, object], path: Path, prefix: str) -> None:
        self._metadata, self._path, self._prefix = metadata, path, prefix

    def value(self, row: FieldRow, known: Known) -> object:
        value = self._metadata.get(row.key(self._prefix), _UNSAID)
        if value is _UNSAID and row.older:
            return self._metadata.get(self._prefix + row.older, _UNSAID)
        return value

    def error(self, row: FieldRow, expected: str, value: object) -> FileError:
        problem = f"{row.key(self._prefix)}: expected {expected}, found {found(value)}"
        return FileError(self._path, problem)

    def missing(self, row: FieldRow) -> FileError:
        return FileError(self._path, f"{row.key(self._prefix)}: the field is missing")


class CheckpointFields:
    """The fields of a config.json; null counts as left out."""

    def __init__(self, config: CheckpointConfig) -> None:
        self._config = config

    def value(self, row: FieldRow, known: Known) -> object:
        value: object = None
        if callable(row.checkpoint):
            value = row.checkpoint(self._config, known)
        elif row.checkpoint is not None:
            value = self._config.get(row.checkpoint)
        if value is None:
            value = row.assumed(known) if callable(row.assumed) else row.assumed
        return _UNSAID if value is None else value

    def error(self, row: FieldRow, expected: str, value: object) -> FileError:
        return self._config.error(self._key(row), expected, value)

    def missing(self, row: FieldRow) -> FileError:
        return self._config.missing(self._key(row))

    def _key(self, row: FieldRow) -> str:
        return row.checkpoint if isinstance(row.checkpoint, str) else row.gguf


def integer(least: int = 1, most: int | str = LARGEST_WIDTH, *, even: bool = False) -> Check:
    """Return a check for integers. `most`: a number, or the name of an attribute."""

    def check(value: Any, known: Known) -> int:
        if type(value) is not int:
            raise UnfitError("an integer", value)
        limit = known[most] if isinstance(most, str) else most
        if not least <= value <= limit:
            raise UnfitError(f"{least} to {limit}", value)
        if even and value % 2:
            raise UnfitError("an even number", value)
        return value

    return check


def number(within: Range, *, or_zero: bool = False) -> Check:
    """Return a check for floats. `or_zero`: 0 is allowed and switches off its subject."""

    def check(value: Any, known: Known) -> float:
        if type(value) not in (int, float):
            raise UnfitError("a number", value)
        if not within[0] <= value <= within[1] and not (or_zero and value == 0):  # NaN fails too
            raise UnfitError(text_of(within), value)
        return float(value)

    return check


def flag(value: Any, known: Known) -> bool:
    if not isinstance(value, bool):
        raise UnfitError("true or false", value)
    return value


def choice(*names: str) -> Check:
    def check(value: Any, known: Known) -> str:
        if not isinstance(value, str):
            raise UnfitError("a string", value)
        if value not in names:
            raise UnfitError(f"{', '.join(names[:-1])} or {names[-1]}", value[:40])
        return value

    return check


def per_layer(one: Check, expected: str, *, alone: bool = True) -> Check:
    """Return a check for a tuple of a value for each layer; `alone`: one for all will do."""

    def check(value: Any, known: Known) -> tuple[Any, ...]:
        layers = known["layers"]
        if isinstance(value, (str, bytes)) or not isinstance(value, Sequence):
            if not alone:
                raise UnfitError(f"{layers} values, one a layer", value)
            return (one(value, known),) * layers
        if len(value) != layers:
            raise UnfitError(f"{layers} values, one a layer", value)
        for item in value:
            try:
                one(item, known)
            except UnfitError:
                raise UnfitError(expected, item) from None
        return tuple(one(item, known) for item in value)

    return check


def integers(least: int = 1, most: int = LARGEST_WIDTH) -> Check:
    return per_layer(integer(least, most), f"integers from {least} to {most}")


def flags(value: Any, known: Known) -> tuple[bool, ...]:
    return per_layer(flag, "true or false for each layer", alone=False)(value, known)


def numbers_or_none(within: Range) -> Check:
    """Return a check for numbers; -inf is one here."""
    checked = number(within)

    def one(value: Any, known: Known) -> float:
        return value if value == -math.inf else checked(value, known)

    return per_layer(one, f"-inf or {text_of(within)}")
