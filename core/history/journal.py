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
    """An entry of the journal. `label` is what was done, for a menu: "Rename"."""

    label: str
    done: tuple[Change, ...]
    inverse: tuple[Change, ...]
    number: int = 0
    source: int | None = None  # of a fork: the conversation that it was made of

    def gone(self, *, back: bool) -> frozenset[int]:
        """Return the conversations that leave the list when the entry is undone, or redone."""
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
        """Return the entry that `undo` would undo."""
        return self._undo[-1] if self._undo else None

    @property
    def last(self) -> int:
        """Return the number of the last entry that there ever was."""
        return self._count

    @property
    def numbers(self) -> frozenset[int]:
        """Return the numbers of all entries that can be undone or redone."""
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
        """Restore deleted conversations. Undo deletes them with their former time of deletion."""
        found = [self._history.summary(number) for number in conversations]
        gone = [s for s in found if s is not None and s.deleted is not None]
        if gone:
            old = tuple(SetDeleted((s.id,), s.deleted) for s in gone)
            entry = JournalEntry("Restore", (SetDeleted(tuple(s.id for s in gone), None),), old)
            self._begin(entry)

    def delete_all(self) -> int:
        """Delete all conversations and return how many there were."""
        numbers = self._history.all_ids()
        if numbers:
            self._do("Delete all", SetDeleted(numbers, time.time()), SetDeleted(numbers, None))
        return len(numbers)

    def add(self, conversations: Sequence[StoredConversation], label: str = "Import") -> list[int]:
        """Add whole conversations under new ids, and return these."""
        numbers = tuple(self._history.add(one).id for one in conversations)
        if numbers:
            self._do(label, SetDeleted(numbers, None), SetDeleted(numbers, time.time()))
        return list(numbers)

    def fork(self, path: StoredConversation) -> int:
        """Add the path of another conversation as one of its own and return its id."""
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
        """Drop entries that only concern conversations that are gone for good."""
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
