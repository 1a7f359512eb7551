"""The events of a history, which `History.poll` returns.

Messages are sentences for a person.
"""

from __future__ import annotations

from llm_lite.core.records import dataclass


@dataclass(frozen=True, slots=True)
class HistoryOpened:
    """Sent when the history can be read, and is saved to from now on. `message` is "" or what it
    cannot do: write, as a newer program made the file, or search fast."""

    message: str = ""


@dataclass(frozen=True, slots=True)
class HistorySaved:
    """Sent when these conversations changed in the file, by this program."""

    conversations: frozenset[int]


@dataclass(frozen=True, slots=True)
class HistoryChangedElsewhere:
    """Another process changed the file: what was read of it may be old."""


@dataclass(frozen=True, slots=True)
class HistoryUnsaved:
    """Sent when changes are kept in memory and tried again; once, until they are saved."""

    message: str


@dataclass(frozen=True, slots=True)
class HistorySavedAgain:
    message: str


@dataclass(frozen=True, slots=True)
class HistoryRefused:
    """A change has no place any more: its conversation was purged by another process."""

    message: str
    conversations: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class HistoryRepaired:
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
