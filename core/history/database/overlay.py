"""Readings with the pending changes applied, as they will be once these are saved.

Rows of the conversations that change are copied to a database in memory, and the changes applied to
them there by the very statements that will write them. Nobody waits for the disk so, and while it
is full nothing that was said is out of sight.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterator, Sequence
from contextlib import closing, contextmanager

from llm_lite.core.history.database import reading
from llm_lite.core.history.database.changes import AddConversation, AddMessage, Change
from llm_lite.core.history.database.connection import connect_memory
from llm_lite.core.history.records import (
    ConversationSummary,
    PageCursor,
    StoredConversation,
)


def conversation(
    connection: sqlite3.Connection, pending: Sequence[Change], number: int
) -> StoredConversation | None:
    changes = [change for change in pending if number in change.conversations]
    if not changes:
        return reading.conversation(connection, number)
    with _changed(connection, changes, {number}, whole=True) as memory:
        return reading.conversation(memory, number)


def summaries(
    connection: sqlite3.Connection, pending: Sequence[Change], numbers: Collection[int]
) -> list[ConversationSummary]:
    """Return summaries of those of the conversations that exist, in no order."""
    wanted = set(numbers)
    changes = [change for change in pending if not wanted.isdisjoint(change.conversations)]
    if not changes:
        return reading.summaries(connection, wanted)
    with _changed(connection, changes, wanted, whole=False) as memory:
        return reading.summaries(memory, wanted)


def listed(
    connection: sqlite3.Connection,
    pending: Sequence[Change],
    *,
    archived: bool,
    after: PageCursor | None,
    limit: int,
) -> list[ConversationSummary]:
    """Return a page of conversations as `reading.listed` does. Conversations with pending changes
    are taken out of what the file has, and inserted where they belong now."""
    changing = {number for change in pending for number in change.conversations}
    kept: list[ConversationSummary] = []
    start, step = after, limit
    while len(kept) < limit:
        more = reading.listed(connection, archived=archived, after=start, limit=step)
        kept += (summary for summary in more if summary.id not in changing)
        if len(more) < step:
            break
        start, step = _cursor(more[-1]), 2 * step
    for summary in summaries(connection, pending, changing) if changing else ():
        here = summary.deleted is None and summary.archived == archived
        if here and (after is None or _key(summary) < (after.pinned, after.updated, after.id)):
            kept.append(summary)
    return sorted(kept, key=_key, reverse=True)[:limit]


def deleted(connection: sqlite3.Connection, pending: Sequence[Change]) -> list[ConversationSummary]:
    changing = {number for change in pending for number in change.conversations}
    found = [s for s in reading.deleted(connection) if s.id not in changing]
    found += [s for s in summaries(connection, pending, changing) if s.deleted is not None]
    return sorted(found, key=lambda s: (s.deleted or 0.0, s.id), reverse=True)


def all_ids(connection: sqlite3.Connection, pending: Sequence[Change]) -> list[int]:
    changing = {number for change in pending for number in change.conversations}
    found = [number for number in reading.all_ids(connection) if number not in changing]
    return found + [s.id for s in summaries(connection, pending, changing) if s.deleted is None]


def _key(summary: ConversationSummary) -> tuple[bool, float, int]:
    return summary.pinned, summary.updated, summary.id


def _cursor(summary: ConversationSummary) -> PageCursor:
    return PageCursor(*_key(summary))


def _without_messages(change: Change) -> Change:
    """Drop messages, as a list needs none, and an import may bring very many."""
    if isinstance(change, AddConversation):
        return AddConversation(StoredConversation(change.conversation.summary))
    return change


@contextmanager
def _changed(
    connection: sqlite3.Connection,
    changes: Sequence[Change],
    numbers: Collection[int],
    *,
    whole: bool,
) -> Iterator[sqlite3.Connection]:
    with closing(connect_memory()) as memory:
        memory.execute("BEGIN")
        reading.copy_conversations(connection, memory, numbers, whole=whole)
        for change in changes if whole else map(_without_messages, changes):
            # What was saved between reading the pending changes and the file is there
            # already. All changes set what they change, so that doing them again in their order
            # comes to the same; only a second row of one id is refused.
            try:
                change.apply(memory)
            except sqlite3.IntegrityError:
                if isinstance(change, AddMessage):
                    change.show(memory)
        yield memory
