"""Undo and redo of what a person does to conversations: pairs of changes, kept in memory."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence

from msgspec import Struct

from llm_lite.core.history.database.changes import (
    Change,
    SetArchived,
    SetDeleted,
    SetPinned,
    SetTitle,
)
from llm_lite.core.history.history import History
from llm_lite.core.history.records import StoredConversation
from llm_lite.core.records import replace

MOST = 200  # entries


class JournalEntry(Struct, frozen=True):
    """`label` is what was done, for a menu: "Rename"."""

    label: str
    done: tuple[Change, ...]
    inverse: tuple[Change, ...]
    number: int = 0
    source: int | None = None  # of a fork: the conversation that it was made of

    def gone(self, *, back: bool) -> frozenset[int]:
        """Conversations that leave the list when it is taken back, or done again."""
        changes = self.inverse if back else self.done
        deleted = (c for c in changes if isinstance(c, SetDeleted) and c.at is not None)
        return frozenset(number for change in deleted for number in change.conversations)


class Journal:
    """Does things to a history and remembers how to take them back, until the program ends.

    Each method reads what is there first, so that it can be restored: FileError where that cannot
    be read; nothing is changed then. What is not there, or is so already, is no entry.
    """

    def __init__(self, history: History) -> None:
        self._history = history
        self._undo: list[JournalEntry] = []
        self._redo: list[JournalEntry] = []
        self._count = 0

    @property
    def newest(self) -> JournalEntry | None:
        """What `undo` would take back."""
        return self._undo[-1] if self._undo else None

    @property
    def last(self) -> int:
        """The number of the last entry that there ever was."""
        return self._count

    @property
    def numbers(self) -> frozenset[int]:
        """Of all that can be taken back or done again."""
        return frozenset(entry.number for entry in (*self._undo, *self._redo))

    def rename(self, conversation: int, title: str) -> None:
        before = self._history.summary(conversation)
        if before is not None and before.title != title:
            old = SetTitle(conversation, before.title, before.title_source)
            self._do("Rename", SetTitle(conversation, title, "person"), old)

    def pin(self, conversation: int, pinned: bool = True) -> None:
        before = self._history.summary(conversation)
        if before is not None and before.pinned != pinned:
            label = "Pin" if pinned else "Unpin"
            self._do(label, SetPinned(conversation, pinned), SetPinned(conversation, not pinned))

    def archive(self, conversation: int, archived: bool = True) -> None:
        before = self._history.summary(conversation)
        if before is not None and before.archived != archived:
            label = "Archive" if archived else "Unarchive"
            done, old = SetArchived(conversation, archived), SetArchived(conversation, not archived)
            self._do(label, done, old)

    def delete(self, conversations: Collection[int]) -> None:
        found = [self._history.summary(number) for number in conversations]
        there = tuple(s.id for s in found if s is not None and s.deleted is None)
        if there:
            self._do("Delete", SetDeleted(there, time.time()), SetDeleted(there, None))

    def restore(self, conversations: Collection[int]) -> None:
        """Out of what was deleted. Undo deletes them at the time at which they were."""
        found = [self._history.summary(number) for number in conversations]
        gone = [s for s in found if s is not None and s.deleted is not None]
        if gone:
            old = tuple(SetDeleted((s.id,), s.deleted) for s in gone)
            entry = JournalEntry("Restore", (SetDeleted(tuple(s.id for s in gone), None),), old)
            self._begin(entry)

    def delete_all(self) -> int:
        """How many there were."""
        numbers = self._history.all_ids()
        if numbers:
            self._do("Delete all", SetDeleted(numbers, time.time()), SetDeleted(numbers, None))
        return len(numbers)

    def add(self, conversations: Sequence[StoredConversation], label: str = "Import") -> list[int]:
        """Whole ones, under new ids; which."""
        numbers = tuple(self._history.add(one).id for one in conversations)
        if numbers:
            self._do(label, SetDeleted(numbers, None), SetDeleted(numbers, time.time()))
        return list(numbers)

    def fork(self, path: StoredConversation) -> int:
        """A conversation of the path of another one; its number."""
        number = self._history.add(path).id
        done, old = SetDeleted((number,), None), SetDeleted((number,), time.time())
        self._begin(JournalEntry("Fork", (done,), (old,), source=path.summary.id))
        return number

    def undo(self) -> JournalEntry | None:
        """Take back the last thing; None where there is none."""
        return self._move(self._undo, self._redo, back=True)

    def redo(self) -> JournalEntry | None:
        """Do again what was taken back last."""
        return self._move(self._redo, self._undo, back=False)

    def forget(self, purged: Collection[int]) -> None:
        """Entries that only concern conversations that are gone for good."""
        gone = set(purged)
        for entries in (self._undo, self._redo):
            entries[:] = [
                e for e in entries if not all(gone.issuperset(c.conversations) for c in e.done)
            ]

    def _do(self, label: str, done: Change, inverse: Change) -> None:
        self._begin(JournalEntry(label, (done,), (inverse,)))

    def _begin(self, entry: JournalEntry) -> None:
        for change in entry.done:
            self._history.submit(change)
        self._count += 1
        self._undo.append(replace(entry, number=self._count))
        del self._undo[:-MOST]
        self._redo.clear()

    def _move(
        self, source: list[JournalEntry], target: list[JournalEntry], *, back: bool
    ) -> JournalEntry | None:
        if not source:
            return None
        entry = source.pop()
        for change in entry.inverse if back else entry.done:
            self._history.submit(change)
        target.append(entry)
        return entry
