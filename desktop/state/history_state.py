"""What is shown of the conversations that are kept: the list, a search, which one is open, and
caches of them on disk.

Times are in seconds since the epoch.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

from llm_lite.core.messages import Unfit

Shelf = Literal["all", "archived", "deleted"]
Panel = Literal["auto", "shown", "hidden"]  # the list; auto: where the window has room for it
WIDE, WIDER = 72.0, 110.0  # text sizes: so wide a window has room; beside two runs
ROWS = 200  # rows of the list that are read at once
LONGEST_QUERY = 400  # characters


@dataclass(frozen=True, slots=True)
class ConversationRow:
    """A conversation in the list."""

    id: int
    title: str
    updated: float  # when something was last said
    pinned: bool = False
    shelf: Shelf = "all"

    @property
    def place(self) -> tuple[bool, float, int]:
        """Rows are in the order of these, the largest first."""
        return (self.pinned, self.updated, self.id)


@dataclass(frozen=True, slots=True)
class FoundRow:
    """A place where the words of a search stand; `marks` are begins and ends in `snippet`."""

    conversation: int
    title: str
    message: int | None  # its number in the history; None: they stand in the title
    created: float
    snippet: str
    marks: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class HistoryState:
    panel: Panel = "auto"
    shelf: Shelf = "all"
    rows: tuple[ConversationRow, ...] = ()
    more: bool = False  # there are more rows, which are read as a person scrolls to them
    read: bool = False  # the rows are those of the file
    open: int | None = None  # the conversation in the chat; None: it has not begun
    opening: int | None = None  # the one that is being read
    reveal: int | None = None  # key of a message that is to be scrolled to
    renaming: int | None = None
    query: str = ""
    found: tuple[FoundRow, ...] = ()
    found_for: str = ""  # the query that was answered
    complete: bool = True  # there is no more to be found
    titles: bool = True  # made by the model when it has nothing else to do
    title_asked: int | None = None  # the conversation whose title was asked for, or found given
    own_prompt: str | None = None  # of new chats, while an opened conversation has another one

    def is_shown(self, width: float, beside_runs: bool = False) -> bool:
        """Whether the list is, in a window so many text sizes wide."""
        least = WIDER if beside_runs else WIDE
        return self.panel == "shown" or (self.panel == "auto" and width >= least)

    @property
    def searching(self) -> bool:
        return bool(self.query.strip())

    def with_rows(self, changed: Iterable[ConversationRow]) -> HistoryState:
        """With rows as they are now, each in its place, those of another shelf left out."""
        changed = tuple(changed)
        known = {row.id: row for row in self.rows}
        if all(known.get(row.id) == row for row in changed if row.shelf == self.shelf) and not any(
            row.id in known for row in changed if row.shelf != self.shelf
        ):
            return self
        numbers = {row.id for row in changed}
        rows = [row for row in self.rows if row.id not in numbers]
        last = rows[-1].place if rows and self.more else None
        rows += [
            row for row in changed if row.shelf == self.shelf and (last is None or row.place > last)
        ]
        rows.sort(key=lambda row: row.place, reverse=True)
        return replace(self, rows=tuple(rows))

    def without(self, numbers: Iterable[int]) -> HistoryState:
        """Without rows of conversations that are gone for good."""
        gone = set(numbers)
        rows = tuple(row for row in self.rows if row.id not in gone)
        return self if len(rows) == len(self.rows) else replace(self, rows=rows)


# Caches that are kept on disk, and what is offered to the conversation in the chat.

ResumeMode = Literal["off", "ask", "always"]
OfferPhase = Literal["waiting", "checking", "ready", "unfit", "resuming", "resumed"]
BUDGET = 2 << 30
RunWith = tuple[str, str, str, str, str]  # model, mode, activations, types of keys and values


@dataclass(frozen=True, slots=True)
class KeptCache:
    """Of a conversation; its title as it was when the list was read."""

    conversation: int
    title: str
    bytes: int
    created: float


@dataclass(frozen=True, slots=True)
class Offer:
    """What a file has for the conversation in the chat."""

    conversation: int
    path: str
    phase: OfferPhase = "waiting"  # for a model
    tokens: int = 0  # that need not be read again
    total: int = 0  # tokens of the conversation
    bytes: int = 0
    unfit: Unfit = ""
    problem: str = ""
    seconds: float = 0.0  # that it took to resume
    request: int = 0
    lead: int = 0  # messages told before those of the conversation
    asked: RunWith | None = None  # what it was checked for


@dataclass(frozen=True, slots=True)
class ResumeState:
    mode: ResumeMode = "ask"
    budget: int = BUDGET
    folder: str = ""  # of the files; "": conversations are not kept at all
    kept: tuple[KeptCache, ...] = ()  # the newest first
    offer: Offer | None = None
    kept_tokens: int = 0  # that were in the cache when it was written last
    dismissed: bool = False  # the strip, for this conversation

    @property
    def used(self) -> int:
        return sum(cache.bytes for cache in self.kept)

    @property
    def keeps(self) -> bool:
        return self.mode != "off" and bool(self.folder) and self.budget > 0


def newest_first(caches: Iterable[KeptCache]) -> tuple[KeptCache, ...]:
    return tuple(sorted(caches, key=lambda cache: cache.created, reverse=True))
