"""The changes of a history: frozen records that write themselves to a database.

The writer applies them to the file; a reading applies those that are not saved yet to a copy in
memory, so that both come to the same.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from typing import Literal

from msgspec import Struct

from llm_lite.core.attached_text import ConversationExtras
from llm_lite.core.history.database import rows
from llm_lite.core.history.database.rows import storable
from llm_lite.core.history.records import (
    AnswerEnd,
    SavedCache,
    StoredConversation,
    StoredMessage,
    TitleSource,
)
from llm_lite.core.messages import AnswerRun


class AddConversation(Struct, frozen=True):
    """Adds a conversation with all of its messages, parents before children."""

    conversation: StoredConversation

    @property
    def conversations(self) -> tuple[int, ...]:
        return (self.conversation.summary.id,)

    def apply(self, connection: sqlite3.Connection) -> None:
        row = rows.summary_row(self.conversation.summary)
        connection.execute(
            f"INSERT INTO conversations ({rows.SUMMARY}) VALUES ({rows.marks(rows.SUMMARY)})", row
        )
        for message in self.conversation.messages:
            insert_message(connection, message)
        if self.conversation.extras != ConversationExtras():
            extras = rows.extras_row(self.conversation.summary.id, self.conversation.extras)
            connection.execute(
                f"INSERT INTO extras ({rows.EXTRAS}) VALUES ({rows.marks(rows.EXTRAS)})", extras
            )


class AddMessage(Struct, frozen=True):
    """Adds a message, which becomes the version that is shown. `title` is the conversation's, if it
    has no better."""

    message: StoredMessage
    title: str = ""

    @property
    def conversations(self) -> tuple[int, ...]:
        return (self.message.conversation,)

    def apply(self, connection: sqlite3.Connection) -> None:
        insert_message(connection, self.message)
        self.show(connection)

    def show(self, connection: sqlite3.Connection) -> None:
        """Apply all of the change but the message itself."""
        SelectVersion(self.message.conversation, self.message.parent, self.message.id).apply(
            connection
        )
        _touch(connection, self.message.conversation, self.message.created)
        if self.title:
            connection.execute(
                "UPDATE conversations SET title = ?, title_source = 'message' "
                "WHERE id = ? AND title_source IN ('none', 'message')",
                (storable(self.title), self.message.conversation),
            )


class WriteAnswer(Struct, frozen=True):
    """Saves an answer so far; the newest takes the place of those before."""

    conversation: int
    message: int
    text: str
    thought: str
    tokens: tuple[int, ...]
    likelihoods: tuple[float, ...] = ()

    @property
    def conversations(self) -> tuple[int, ...]:
        return (self.conversation,)

    def apply(self, connection: sqlite3.Connection) -> None:
        content = storable(self.text), storable(self.thought), rows.tokens_to_blob(self.tokens)
        connection.execute(
            "UPDATE messages SET text = ?, thought = ?, tokens = ?, likelihoods = ? "
            "WHERE id = ? AND NOT finished",
            (*content, rows.likelihoods_to_blob(self.likelihoods), self.message),
        )


class SetRun(Struct, frozen=True):
    """Saves how an answer is made, where that has changed since it began."""

    conversation: int
    message: int
    run: AnswerRun

    @property
    def conversations(self) -> tuple[int, ...]:
        return (self.conversation,)

    def apply(self, connection: sqlite3.Connection) -> None:
        connection.execute(
            "UPDATE answers SET run = ? WHERE message = ?",
            (rows.run_to_json(self.run), self.message),
        )


class FinishAnswer(Struct, frozen=True):
    answer: WriteAnswer
    end: AnswerEnd
    at: float

    @property
    def conversations(self) -> tuple[int, ...]:
        return (self.answer.conversation,)

    def apply(self, connection: sqlite3.Connection) -> None:
        self.answer.apply(connection)
        number = self.answer.message
        connection.execute("INSERT OR IGNORE INTO answers (message) VALUES (?)", (number,))
        connection.execute(
            "UPDATE answers SET stop_reason = ?, problem = ?, seconds = ?, stats = ? "
            "WHERE message = ?",
            (*rows.end_row(self.end), number),
        )
        connection.execute("UPDATE messages SET finished = 1 WHERE id = ?", (number,))
        _touch(connection, self.answer.conversation, self.at)


class ContinueAnswer(Struct, frozen=True):
    """Continues an answer where it ended; until it ends again it counts as unfinished."""

    conversation: int
    message: int

    @property
    def conversations(self) -> tuple[int, ...]:
        return (self.conversation,)

    def apply(self, connection: sqlite3.Connection) -> None:
        connection.execute("UPDATE messages SET finished = 0 WHERE id = ?", (self.message,))


class SelectVersion(Struct, frozen=True):
    """Selects the child of `parent` that is shown."""

    conversation: int
    parent: int | None
    child: int

    @property
    def conversations(self) -> tuple[int, ...]:
        return (self.conversation,)

    def apply(self, connection: sqlite3.Connection) -> None:
        table = "conversations" if self.parent is None else "messages"
        at = self.conversation if self.parent is None else self.parent
        connection.execute(f"UPDATE {table} SET selected = ? WHERE id = ?", (self.child, at))


class SetTitle(Struct, frozen=True):
    """Sets a title. With `unless_person`, a title that a person gave stays."""

    conversation: int
    title: str
    source: TitleSource
    unless_person: bool = False

    @property
    def conversations(self) -> tuple[int, ...]:
        return (self.conversation,)

    def apply(self, connection: sqlite3.Connection) -> None:
        connection.execute(
            "UPDATE conversations SET title = ?, title_source = ? "
            "WHERE id = ? AND (title_source != 'person' OR NOT ?)",
            (storable(self.title), self.source, self.conversation, self.unless_person),
        )


class SetPinned(Struct, frozen=True):
    conversation: int
    pinned: bool

    @property
    def conversations(self) -> tuple[int, ...]:
        return (self.conversation,)

    def apply(self, connection: sqlite3.Connection) -> None:
        connection.execute(
            "UPDATE conversations SET pinned = ? WHERE id = ?", (self.pinned, self.conversation)
        )


class SetArchived(Struct, frozen=True):
    conversation: int
    archived: bool

    @property
    def conversations(self) -> tuple[int, ...]:
        return (self.conversation,)

    def apply(self, connection: sqlite3.Connection) -> None:
        connection.execute(
            "UPDATE conversations SET archived = ? WHERE id = ?", (self.archived, self.conversation)
        )


class SetSystemPrompt(Struct, frozen=True):
    conversation: int
    text: str

    @property
    def conversations(self) -> tuple[int, ...]:
        return (self.conversation,)

    def apply(self, connection: sqlite3.Connection) -> None:
        connection.execute(
            "UPDATE conversations SET system_prompt = ? WHERE id = ?",
            (storable(self.text), self.conversation),
        )


class SetExtra(Struct, frozen=True):
    """Sets a column of what is kept with a conversation that is still there."""

    conversation: int
    column: Literal["interventions", "gains", "draft", "files"]
    value: str

    @property
    def conversations(self) -> tuple[int, ...]:
        return (self.conversation,)

    def apply(self, connection: sqlite3.Connection) -> None:
        connection.execute(
            "INSERT OR IGNORE INTO extras (conversation) SELECT id FROM conversations WHERE id = ?",
            (self.conversation,),
        )
        connection.execute(
            f"UPDATE extras SET {self.column} = ? WHERE conversation = ?",
            (self.value, self.conversation),
        )


class SetDeleted(Struct, frozen=True):
    """Sets when conversations were deleted; None restores them."""

    conversations: tuple[int, ...]
    at: float | None

    def apply(self, connection: sqlite3.Connection) -> None:
        connection.executemany(
            "UPDATE conversations SET deleted = ? WHERE id = ?",
            [(self.at, number) for number in self.conversations],
        )


class Purge(Struct, frozen=True):
    """Deletes conversations for good, if they are still deleted: another window may restore."""

    conversations: tuple[int, ...]

    def apply(self, connection: sqlite3.Connection) -> None:
        connection.executemany(
            "DELETE FROM conversations WHERE id = ? AND deleted IS NOT NULL",
            [(number,) for number in self.conversations],
        )


class AddCache(Struct, frozen=True):
    cache: SavedCache

    @property
    def conversations(self) -> tuple[int, ...]:
        return ()

    def apply(self, connection: sqlite3.Connection) -> None:
        """The row of a file that is written again is replaced. What the cache belongs to may have
        been purged meanwhile; the file is then the first to go."""
        c = self.cache
        connection.execute(
            f"INSERT OR REPLACE INTO caches ({rows.CACHE}) VALUES (?, "
            "(SELECT id FROM conversations WHERE id = ?), (SELECT id FROM messages WHERE id = ?), "
            "?, ?, ?, ?, ?)",
            (c.id, c.conversation, c.message, c.file, c.bytes, c.model, c.created, c.used),
        )


class UseCache(Struct, frozen=True):
    cache: int
    at: float

    @property
    def conversations(self) -> tuple[int, ...]:
        return ()

    def apply(self, connection: sqlite3.Connection) -> None:
        connection.execute("UPDATE caches SET used = ? WHERE id = ?", (self.at, self.cache))


class DropCache(Struct, frozen=True):
    cache: int

    @property
    def conversations(self) -> tuple[int, ...]:
        return ()

    def apply(self, connection: sqlite3.Connection) -> None:
        connection.execute("DELETE FROM caches WHERE id = ?", (self.cache,))


Change = (
    AddConversation
    | AddMessage
    | WriteAnswer
    | SetRun
    | FinishAnswer
    | ContinueAnswer
    | SelectVersion
    | SetTitle
    | SetPinned
    | SetArchived
    | SetSystemPrompt
    | SetExtra
    | SetDeleted
    | Purge
    | AddCache
    | UseCache
    | DropCache
)


def insert_message(connection: sqlite3.Connection, message: StoredMessage) -> None:
    """Insert a message with its answer's facts and attachments. sqlite3.IntegrityError if its
    conversation or parent is not there."""
    connection.execute(
        f"INSERT INTO messages ({rows.MESSAGE}) VALUES ({rows.marks(rows.MESSAGE)})",
        rows.message_row(message),
    )
    answer = rows.answer_row(message)
    if answer is not None:
        connection.execute(
            f"INSERT INTO answers ({rows.ANSWER}) VALUES ({rows.marks(rows.ANSWER)})", answer
        )
    connection.executemany(
        f"INSERT INTO attachments ({rows.ATTACHMENT}) VALUES ({rows.marks(rows.ATTACHMENT)})",
        [rows.attachment_row(message.id, place, a) for place, a in enumerate(message.attachments)],
    )


def of_extras(
    conversation: int, extras: ConversationExtras, before: ConversationExtras
) -> Iterator[SetExtra]:
    if extras.interventions != before.interventions:
        kept = rows.interventions_to_json(extras.interventions)
        yield SetExtra(conversation, "interventions", kept)
        yield SetExtra(conversation, "gains", "")  # those of an older row
    if extras.draft != before.draft:
        yield SetExtra(conversation, "draft", storable(extras.draft))
    if extras.files != before.files:
        yield SetExtra(conversation, "files", rows.files_to_json(extras.files))


def _touch(connection: sqlite3.Connection, conversation: int, at: float) -> None:
    connection.execute(
        "UPDATE conversations SET updated = max(updated, ?) WHERE id = ?", (at, conversation)
    )
