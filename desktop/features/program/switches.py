"""Settings of the whole program that are on or off: a field is all that one needs.

Its switch in the panel of the settings, what turns it, and what is kept of it for the next start
follow from the field.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, cast

from msgspec import Struct

from llm_lite.core.records import FieldNotesMeta, FieldWithNotes
from llm_lite.desktop.features.program.scopes import KEY
from llm_lite.desktop.language.translate import mark

_ROW = "switch"


class Switch(Struct, frozen=True):
    title: str
    hint: str


def switch(default: bool, title: str, hint: str) -> bool:
    """Return a field of `Switches` with the texts of its switch in the window."""
    return cast(bool, FieldWithNotes({KEY: "setting", _ROW: Switch(title, hint)}, default=default))


class Switches(Struct, frozen=True, metaclass=FieldNotesMeta):
    """The state and the settings have these fields."""

    less_motion: bool = switch(
        False,
        mark("Reduce motion"),
        mark("Pictures of the lesson that move show how they end at once."),
    )


SWITCHES: Mapping[str, Switch] = MappingProxyType(
    {name: notes[_ROW] for name, notes in Switches.notes.items()}
)


def switched(record: Switches) -> dict[str, Any]:
    """Return the values of the switches by their names."""
    return {name: getattr(record, name) for name in SWITCHES}
