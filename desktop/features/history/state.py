"""The list of kept conversations, a search of them, and the one that is open.

Times are in seconds since the epoch.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from msgspec import Struct

from llm_lite.core.records import replace

HistoryPart = Literal["all", "archived", "deleted"]
ROWS = 200  # rows of the list that are read at once
LONGEST_QUERY = 400  # characters


class ConversationRow(Struct, frozen=True):
    """A conversation in the list."""

    id: int
    title: str
    updated: float  # when a message last changed
    pinned: bool = False
    part: HistoryPart = "all"

    @property
    def place(self) -> tuple[bool, float, int]:
        """Rows are in the order of these, the largest first."""
        return (self.pinned, self.updated, self.id)


class FoundRow(Struct, frozen=True):
    """A place with the words of a search; `marks` are begins and ends in `snippet`."""

    conversation: int
    title: str
    message: int | None  # its number in the history; None: they stand in the title
    created: float
    snippet: str
    marks: tuple[tuple[int, int], ...] = ()


class HistoryState(Struct, frozen=True):
    part: HistoryPart = "all"
    rows: tuple[ConversationRow, ...] = ()
    more: bool = False  # there are more rows, which are read as a person scrolls to them
    read: bool = False  # the rows are those of the file
    open: int | None = None  # the conversation in the chat; None: it has not begun
    opening: int | None = None  # the one that is being read
    reveal: int | None = None  # id of a message that is to be scrolled to
    renaming: int | None = None
    query: str = ""
    found: tuple[FoundRow, ...] = ()
    found_for: str = ""  # the query that was answered
    complete: bool = True  # there is no more to be found
    titles: bool = True  # made by the model when it has nothing else to do
    title_asked: int | None = None  # the conversation whose title was requested, or exists
    # The one in the chat was opened with a model that shows no conversations: it is said so.
    unshown: bool = False
    own_prompt: str | None = None  # of new chats, while an opened conversation has another one

    def of_next_conversation(self) -> HistoryState:
        return replace(self, open=None, opening=None, reveal=None, unshown=False, own_prompt=None)

    def of_next_model(self) -> HistoryState:
        return replace(self, unshown=False) if self.unshown else self

    @property
    def searching(self) -> bool:
        return bool(self.query.strip())

    def with_rows(self, changed: Iterable[ConversationRow]) -> HistoryState:
        """Put changed rows in their places, as far as rows are read, and remove those of another
        part."""
        changed = tuple(changed)
        known = {row.id: row for row in self.rows}
        if all(known.get(row.id) == row for row in changed if row.part == self.part) and not any(
            row.id in known for row in changed if row.part != self.part
        ):
            return self
        last = self.rows[-1].place if self.rows and self.more else None
        numbers = {row.id for row in changed}
        rows = [row for row in self.rows if row.id not in numbers]
        rows += [
            row for row in changed if row.part == self.part and (last is None or row.place >= last)
        ]
        rows.sort(key=lambda row: row.place, reverse=True)
        return replace(self, rows=tuple(rows))

    def without(self, numbers: Iterable[int]) -> HistoryState:
        """Remove rows of conversations that are gone for good."""
        gone = set(numbers)
        rows = tuple(row for row in self.rows if row.id not in gone)
        return self if len(rows) == len(self.rows) else replace(self, rows=rows)
