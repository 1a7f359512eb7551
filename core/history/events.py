"""The events of a history, which `History.poll` returns.

Messages are sentences for a person.
"""

from __future__ import annotations

from msgspec import Struct


class HistoryOpened(Struct, frozen=True):
    """Sent when the history can be read, and is saved to from now on. `message` is "" or what it
    cannot do: write, as a newer program made the file, or search fast."""

    message: str = ""


class HistorySaved(Struct, frozen=True):
    """Sent when these conversations changed in the file, by this program."""

    conversations: frozenset[int]


class HistoryChangedElsewhere(Struct, frozen=True):
    """Another process changed the file: what was read of it may be old."""


class HistoryUnsaved(Struct, frozen=True):
    """Sent when changes are kept in memory and tried again; once, until they are saved."""

    message: str


class HistorySavedAgain(Struct, frozen=True):
    message: str


class HistoryRefused(Struct, frozen=True):
    """A change has no place any more: its conversation was purged by another process."""

    message: str
    conversations: tuple[int, ...] = ()


class HistoryRepaired(Struct, frozen=True):
    """Sent when the file was damaged: it is at `kept_as` now, what could be read in a new one."""

    message: str
    kept_as: str


HistoryEvent = (
    HistoryOpened
    | HistorySaved
    | HistoryChangedElsewhere
    | HistoryUnsaved
    | HistorySavedAgain
    | HistoryRefused
    | HistoryRepaired
)
