"""Notes at fields of records, and functions over records that mypy follows: msgspec has neither.

A record is `class X(Struct, frozen=True)`, which msgspec declares without compiling methods: a
window declares 700 before its first frame, and as dataclasses they would take most of a second.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:  # mypy knows which fields a record has, and of what types
    from dataclasses import replace as replace
else:
    from msgspec.structs import replace as replace


def about(description: str) -> msgspec.Meta:
    """Return a note that says what a field is, for documents and lists of parameters."""
    return msgspec.Meta(description=description)


def asdict(record: msgspec.Struct) -> dict[str, Any]:
    """Return the fields by name, of the records in them too: lists, numbers and texts, as JSON."""
    return msgspec.to_builtins(record, enc_hook=_plain)


def _plain(value: object) -> object:
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} is nothing that JSON has")


def repr_without(*hidden: str) -> Callable[[Any], str]:
    """Return a `__repr__` that leaves out fields which are secret, or too long for a line."""

    def representation(self: msgspec.Struct) -> str:
        shown = (name for name in self.__struct_fields__ if name not in hidden)
        pairs = ", ".join(f"{name}={getattr(self, name)!r}" for name in shown)
        return f"{type(self).__name__}({pairs})"

    return representation


class FieldWithNotes:
    """Stands in the place of a field's default: the default, with notes by their names.

    default: as `msgspec.field` takes it; without one the field is required.
    """

    def __init__(self, notes: Mapping[str, Any], **default: Any) -> None:
        self.notes, self.default = notes, default


class FieldNotesMeta(msgspec.StructMeta):
    """The class of records whose fields may have notes: `notes` has them by the fields' names."""

    notes: Mapping[str, Mapping[str, Any]]

    def __new__(
        mcls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **options: Any
    ) -> FieldNotesMeta:
        noted = {
            key: value for key, value in namespace.items() if isinstance(value, FieldWithNotes)
        }
        for key, value in noted.items():
            del namespace[key]
            if value.default:
                namespace[key] = msgspec.field(**value.default)
        record = super().__new__(mcls, name, bases, namespace, **options)
        # A field without notes replaces one that has them.
        new = namespace.get("__annotations__", {})
        inherited = getattr(record, "notes", {}).items()
        kept = {key: notes for key, notes in inherited if key in noted or key not in new}
        record.notes = {**kept, **{key: value.notes for key, value in noted.items()}}
        return record
