"""Reads of the database: pages of the list, and whole conversations."""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Collection, Iterator
from typing import Any

from llm_lite.core.attached_text import Attachment, ConversationExtras
from llm_lite.core.history.database import rows
from llm_lite.core.history.records import (
    AnswerEnd,
    ConversationSummary,
    PageCursor,
    SavedCache,
    StoredConversation,
    StoredMessage,
)
from llm_lite.core.messages import AnswerRun

_AT_ONCE = 500
_NEWEST = "ORDER BY pinned DESC, updated DESC, id DESC"


def listed(
    connection: sqlite3.Connection, *, archived: bool, after: PageCursor | None, limit: int
) -> list[ConversationSummary]:
    """Return conversations that are not deleted: pinned ones first, then by last message."""
    where, values = "", []
    if after is not None:
        where = "AND (pinned, updated, id) < (?, ?, ?) "
        values = [after.pinned, after.updated, after.id]
    found = connection.execute(
        f"SELECT {rows.SUMMARY} FROM conversations WHERE deleted IS NULL AND archived = ? "
        f"{where}{_NEWEST} LIMIT ?",
        (archived, *values, limit),
    )
    return [rows.summary_of(row) for row in found]


def deleted(connection: sqlite3.Connection) -> list[ConversationSummary]:
    """Return the conversations that can still be restored, the last deleted first."""
    found = connection.execute(
        f"SELECT {rows.SUMMARY} FROM conversations WHERE deleted IS NOT NULL "
        "ORDER BY deleted DESC, id DESC"
    )
    return [rows.summary_of(row) for row in found]


def all_ids(connection: sqlite3.Connection) -> list[int]:
    """Return the ids of all conversations that are not deleted, archived ones too."""
    return [
        row[0] for row in connection.execute("SELECT id FROM conversations WHERE deleted IS NULL")
    ]


def summaries(connection: sqlite3.Connection, ids: Collection[int]) -> list[ConversationSummary]:
    """Return summaries of those of the conversations that exist, in no order."""
    found = []
    for some, places in _in_hundreds(ids):
        rows_of = connection.execute(
            f"SELECT {rows.SUMMARY} FROM conversations WHERE id IN ({places})", some
        )
        found += [rows.summary_of(row) for row in rows_of]
    return found


def conversation(connection: sqlite3.Connection, number: int) -> StoredConversation | None:
    """Return a conversation with all versions of its messages; None if there is none."""
    found = summaries(connection, [number])
    if not found:
        return None
    below = "FROM {0} JOIN messages ON messages.id = {0}.message WHERE messages.conversation = ?"
    runs: dict[int, tuple[AnswerRun | None, AnswerEnd | None]] = {}
    kept: defaultdict[int, list[Attachment]] = defaultdict(list)
    columns = _of("answers", rows.ANSWER)
    for row in connection.execute(f"SELECT {columns} {below.format('answers')}", (number,)):
        runs[row[0]] = rows.answer_of(row)
    columns = _of("attachments", rows.attachment_columns(connection))
    for row in connection.execute(
        f"SELECT {columns} {below.format('attachments')} ORDER BY message, place", (number,)
    ):
        kept[row[0]].append(rows.attachment_of(row))
    messages = []
    for row in connection.execute(
        f"SELECT {rows.MESSAGE} FROM messages WHERE conversation = ? ORDER BY id", (number,)
    ):
        run, end = runs.get(row[0], (None, None))
        attached = tuple(kept.get(row[0], ()))
        messages.append(rows.message_of(row, run=run, end=end, attachments=attached))
    return StoredConversation(found[0], parents_first(messages), _extras(connection, number))


def _extras(connection: sqlite3.Connection, number: int) -> ConversationExtras:
    row = connection.execute(
        f"SELECT {rows.EXTRAS} FROM extras WHERE conversation = ?", (number,)
    ).fetchone()
    return rows.extras_of(row) if row is not None else ConversationExtras()


def parents_first(messages: list[StoredMessage]) -> tuple[StoredMessage, ...]:
    """Return messages in the order of their ids, which ascend from parent to child in all that we
    write. In a damaged file a message is moved behind its parent, or to the front if that is not
    there."""
    seen: set[int | None] = {None}
    for message in messages:
        if message.parent not in seen:
            break
        seen.add(message.id)
    else:
        return tuple(messages)
    below: defaultdict[int | None, list[StoredMessage]] = defaultdict(list)
    known = {message.id for message in messages}
    for message in messages:
        below[message.parent if message.parent in known else None].append(message)
    ordered, waiting = [], list(reversed(below[None]))
    while waiting:
        message = waiting.pop()
        ordered.append(message)
        waiting += reversed(below[message.id])
    return tuple(ordered)


def caches(connection: sqlite3.Connection) -> list[SavedCache]:
    """Return the saved caches, the next to be removed first: those without a conversation, then the
    least recently used."""
    found = connection.execute(
        f"SELECT {rows.CACHE} FROM caches ORDER BY conversation IS NOT NULL, used, id"
    )
    return [SavedCache(*row) for row in found]


def _of(table: str, columns: str) -> str:
    return ", ".join(f"{table}.{name}" for name in columns.split(", "))


def copy_conversations(
    source: sqlite3.Connection, target: sqlite3.Connection, ids: Collection[int], *, whole: bool
) -> None:
    """Copy rows to the same tables of another database; with `whole` those of messages too."""
    _copy(source, target, "conversations", rows.SUMMARY, "id IN ({0})", ids)
    if whole:
        of_messages = "message IN (SELECT id FROM messages WHERE conversation IN ({0}))"
        _copy(source, target, "messages", rows.MESSAGE, "conversation IN ({0})", ids)
        _copy(source, target, "answers", rows.ANSWER, of_messages, ids)
        _copy(source, target, "attachments", rows.attachment_columns(source), of_messages, ids)
        _copy(source, target, "extras", rows.EXTRAS, "conversation IN ({0})", ids)


def _copy(
    source: sqlite3.Connection,
    target: sqlite3.Connection,
    table: str,
    columns: str,
    where: str,
    ids: Collection[int],
) -> None:
    insert = f"INSERT OR IGNORE INTO {table} ({columns}) VALUES ({rows.marks(columns)})"
    for some, places in _in_hundreds(ids):
        found: list[Any] = source.execute(
            f"SELECT {columns} FROM {table} WHERE {where.format(places)}", some
        ).fetchall()
        target.executemany(insert, found)


def _in_hundreds(ids: Collection[int]) -> Iterator[tuple[list[int], str]]:
    """Yield some ids, and as many question marks: older SQLite takes no more than a thousand."""
    left = list(ids)
    for first in range(0, len(left), _AT_ONCE):
        some = left[first : first + _AT_ONCE]
        yield some, ", ".join("?" * len(some))
