"""Undo and redo of what a person does to conversations: pairs of changes, kept in memory."""

from __future__ import annotations

import time
from collections.abc import Collection
from dataclasses import dataclass

from llm_lite.core.history.database.changes import (
    Change,
    SelectVersion,
    SetArchived,
    SetDeleted,
    SetPinned,
    SetTitle,
)
from llm_lite.core.history.history import History
from llm_lite.core.history.tree import ConversationTree

MOST = 200  # entries


@dataclass(frozen=True, slots=True)
class JournalEntry:
    """`label` is what was done, for a menu: "Rename"."""

    label: str
    done: tuple[Change, ...]
    inverse: tuple[Change, ...]


class Journal:
    """Does things to a history and remembers how to take them back, until the program ends.

    Each method reads what is there first, so that it can be restored: FileError where that cannot
    be read; nothing is changed then. What is not there, or is so already, is no entry.
    """

    def __init__(self, history: History) -> None:
        self._history = history
        self._undo: list[JournalEntry] = []
        self._redo: list[JournalEntry] = []

    @property
    def undo_label(self) -> str:
        """Of what `undo` would take back; "" where there is nothing."""
        return self._undo[-1].label if self._undo else ""

    @property
    def redo_label(self) -> str:
        return self._redo[-1].label if self._redo else ""

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

    def select(self, conversation: int, parent: int | None, child: int | None) -> None:
        """Another version is shown."""
        stored = self._history.conversation(conversation)
        if stored is None:
            return
        if parent is None:
            before = stored.summary.selected
        else:
            message = ConversationTree.of(stored).by_id.get(parent)
            if message is None:
                return
            before = message.selected
        if before != child:
            old = SelectVersion(conversation, parent, before)
            self._do("Show version", SelectVersion(conversation, parent, child), old)

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
        self._undo.append(entry)
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
