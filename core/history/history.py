"""The history: conversations in one database, written as they happen, read at any time."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from llm_lite.core.attached_text import Attachment, ConversationExtras
from llm_lite.core.errors import FileError
from llm_lite.core.files.places import user_folder
from llm_lite.core.history.database import changes as change
from llm_lite.core.history.database import connection as connections
from llm_lite.core.history.database import overlay, reading
from llm_lite.core.history.database.reader import Reader
from llm_lite.core.history.database.search import search
from llm_lite.core.history.database.writer import HistoryWriter
from llm_lite.core.history.events import HistoryEvent
from llm_lite.core.history.ids import new_id
from llm_lite.core.history.records import (
    AnswerEnd,
    ConversationPage,
    ConversationSummary,
    PageCursor,
    SavedCache,
    SearchResults,
    StoredConversation,
    StoredMessage,
    StoredRole,
    TitleSource,
)
from llm_lite.core.history.titles import title_of
from llm_lite.core.history.tree import Identified
from llm_lite.core.messages import AnswerRun
from llm_lite.core.records import replace

_PURGED_AT_ONCE = 5  # conversations of one transaction
_CLOSING = 10.0  # seconds; a full disk is not waited for


def history_path() -> Path:
    return user_folder("data") / "history.db"


class History:
    """The history. Changes return at once: a thread saves them, within half a second while an
    answer comes and at once otherwise. Readings see them before they are saved.

    Readings raise FileError where the file cannot be read. All may be called from any thread.
    """

    def __init__(self, path: Path | None = None, wake: Callable[[], None] = lambda: None) -> None:
        """Open the history. `wake` is called from the saving thread, when `poll` has something."""
        self.path = path or history_path()
        self._writer = HistoryWriter(self.path, wake)
        self._local = threading.local()
        self._readers: list[Reader] = []
        self._closed = False
        self._lock = threading.Lock()

    def poll(self) -> list[HistoryEvent]:
        """Return what happened since the last call."""
        return self._writer.events()

    @property
    def read_only(self) -> bool:
        """Return True if a newer program made the file: changes are seen here, and not saved."""
        return self._writer.read_only

    @property
    def unsaved(self) -> int:
        """Return how many changes are not in the file yet."""
        return len(self._writer.pending)

    def wait_until_open(self, timeout: float = 30.0) -> bool:
        return self._writer.opened.wait(timeout)

    def flush(self, timeout: float = 30.0) -> bool:
        """Wait until all is saved, and return whether it is."""
        return self._writer.flush(timeout)

    def close(self, timeout: float = _CLOSING) -> bool:
        """Save and end; False where changes could not be saved, which are lost then."""
        with self._lock:  # first: the last to close clears the log, and readers may not
            self._closed, readers = True, self._readers
            self._readers = []
        for reader in readers:
            reader.close()
        return self._writer.close(timeout)

    def submit(self, what: change.Change) -> None:
        self._writer.add(what)

    # What is said

    def begin(self, *, title: str = "", system_prompt: str = "") -> ConversationSummary:
        """Begin a conversation without messages."""
        now = time.time()
        source: TitleSource = "person" if title else "none"
        summary = ConversationSummary(
            new_id(), title, source, now, now, system_prompt=system_prompt
        )
        self.submit(change.AddConversation(StoredConversation(summary)))
        return summary

    def add(self, conversation: StoredConversation) -> ConversationSummary:
        """Add a whole conversation, from another program or file, under new ids."""
        renewed = renumbered(conversation)
        self.submit(change.AddConversation(renewed))
        return renewed.summary

    def add_message(
        self,
        conversation: int,
        parent: int | None,
        text: str,
        *,
        role: StoredRole = "user",
        attachments: Sequence[Attachment] = (),
        based_on: Identified | None = None,
        run: AnswerRun | None = None,
        end: AnswerEnd | None = None,
        number: int | None = None,
    ) -> StoredMessage:
        """Add a whole message behind `parent` (None: at the beginning). It is shown from now on;
        its siblings stay as other versions. The first message's first sentence is the title.
        `number` is its id, where it has one already, by `new_id`."""
        message = StoredMessage(
            number or new_id(parent or 0),
            conversation,
            parent,
            role,
            text,
            created=time.time(),
            based_on=based_on.id if based_on else None,
            run=run,
            end=end,
            attachments=tuple(attachments),
        )
        names = (attached.name for attached in attachments)
        title = (
            title_of(text or next(names, "")) if parent is None and role in ("user", "text") else ""
        )
        self.submit(change.AddMessage(message, title))
        return message

    def edit(self, message: StoredMessage, text: str) -> StoredMessage:
        """Add another version of a person's or a model's message."""
        return self.add_message(
            message.conversation,
            message.parent,
            text,
            role=message.role,
            attachments=message.attachments,
            based_on=message,
        )

    def begin_answer(
        self,
        conversation: int,
        parent: int | None,
        run: AnswerRun,
        *,
        fork_of: Identified | None = None,
        text: str = "",
        thought: str = "",
        tokens: tuple[int, ...] = (),
        number: int | None = None,
    ) -> StoredMessage:
        """Begin an answer that is to be written; it is another version besides others of `parent`.

        A fork begins with tokens of another version, and with what these say.
        """
        message = StoredMessage(
            number or new_id(parent or 0),
            conversation,
            parent,
            "assistant",
            text,
            thought,
            tokens,
            created=time.time(),
            finished=False,
            based_on=fork_of.id if fork_of else None,
            kept_tokens=len(tokens) if fork_of else 0,
            run=run,
        )
        self.submit(change.AddMessage(message))
        return message

    def write_answer(
        self,
        answer: StoredMessage,
        text: str,
        thought: str = "",
        tokens: tuple[int, ...] = (),
        likelihoods: tuple[float, ...] = (),
    ) -> None:
        """Save all that an answer has so far. It may be called any number of times."""
        content = (text, thought, tokens, likelihoods)
        self.submit(change.WriteAnswer(answer.conversation, answer.id, *content))

    def set_run(self, answer: StoredMessage, run: AnswerRun) -> None:
        """Save how an answer is made, where that has changed since it began."""
        self.submit(change.SetRun(answer.conversation, answer.id, run))

    def finish_answer(
        self,
        answer: StoredMessage,
        text: str,
        thought: str = "",
        tokens: tuple[int, ...] = (),
        end: AnswerEnd = AnswerEnd(),  # noqa: B008 - frozen
        likelihoods: tuple[float, ...] = (),
    ) -> None:
        """Save all of an answer, and how it ended."""
        content = (text, thought, tokens, likelihoods)
        written = change.WriteAnswer(answer.conversation, answer.id, *content)
        self.submit(change.FinishAnswer(written, end, time.time()))

    def continue_answer(self, answer: StoredMessage) -> None:
        """Continue an answer where it ended: `write_answer` with all of it follows."""
        self.submit(change.ContinueAnswer(answer.conversation, answer.id))

    def select(self, conversation: int, parent: int | None, child: int) -> None:
        """Select the version shown behind `parent` (None: at the beginning)."""
        self.submit(change.SelectVersion(conversation, parent, child))

    def show(self, path: Sequence[StoredMessage]) -> None:
        """Show the versions on the path to a message, as `ConversationTree.path_to` returns it for
        one that a search has found."""
        for message in path:
            self.select(message.conversation, message.parent, message.id)

    # Conversations as a whole

    def set_title(self, conversation: int, title: str, source: TitleSource = "person") -> None:
        """Set the title; one that a model made never replaces a person's."""
        self.submit(change.SetTitle(conversation, title, source, source == "model"))

    def set_pinned(self, conversation: int, pinned: bool) -> None:
        self.submit(change.SetPinned(conversation, pinned))

    def set_system_prompt(self, conversation: int, text: str) -> None:
        self.submit(change.SetSystemPrompt(conversation, text))

    def set_extras(
        self, conversation: int, extras: ConversationExtras, before: ConversationExtras
    ) -> None:
        """Save interventions and draft, as far as they differ from `before`."""
        for one in change.of_extras(conversation, extras, before):
            self.submit(one)

    def delete(self, conversations: Collection[int]) -> None:
        """Delete conversations, which can be restored until they are purged."""
        self.submit(change.SetDeleted(tuple(conversations), time.time()))

    def restore(self, conversations: Collection[int]) -> None:
        self.submit(change.SetDeleted(tuple(conversations), None))

    def delete_all(self) -> tuple[int, ...]:
        """Delete all conversations, archived ones too, and return their ids. FileError."""
        numbers = self.all_ids()
        self.delete(numbers)
        return numbers

    def purge(self, deleted_before: float | None = None) -> int:
        """Delete for good what was deleted before a time (None: all that was); how many. What
        stood there is overwritten, also in the index of words, and the space is freed, a moment
        after all is saved. FileError."""
        gone = [
            summary.id
            for summary in self.deleted()
            if deleted_before is None or (summary.deleted or 0.0) < deleted_before
        ]
        for first in range(0, len(gone), _PURGED_AT_ONCE):
            self.submit(change.Purge(tuple(gone[first : first + _PURGED_AT_ONCE])))
        return len(gone)

    # Readings

    def page(
        self, after: PageCursor | None = None, *, limit: int = 100, archived: bool = False
    ) -> ConversationPage:
        """Return the next page of the list: pinned conversations first, then by last message."""
        pending = self._writer.pending.all()
        with self._reading() as connection:
            found = overlay.listed(
                connection, pending, archived=archived, after=after, limit=limit + 1
            )
        if len(found) <= limit:
            return ConversationPage(tuple(found))
        last = found[limit - 1]
        cursor = PageCursor(last.pinned, last.updated, last.id)
        return ConversationPage(tuple(found[:limit]), cursor)

    def deleted(self) -> tuple[ConversationSummary, ...]:
        """Return the conversations that can still be restored, the last deleted first."""
        pending = self._writer.pending.all()
        with self._reading() as connection:
            return tuple(overlay.deleted(connection, pending))

    def all_ids(self) -> tuple[int, ...]:
        """Return the ids of all conversations that are not deleted, archived ones too."""
        pending = self._writer.pending.all()
        with self._reading() as connection:
            return tuple(overlay.all_ids(connection, pending))

    def summary(self, conversation: int) -> ConversationSummary | None:
        """Return the summary of a conversation; None if there is none."""
        pending = self._writer.pending.all()
        with self._reading() as connection:
            found = overlay.summaries(connection, pending, [conversation])
        return found[0] if found else None

    def conversation(self, number: int) -> StoredConversation | None:
        """Return a conversation with all versions of all messages; None if there is none."""
        pending = self._writer.pending.all()
        with self._reading() as connection:
            return overlay.conversation(connection, pending, number)

    def search(self, query: str, *, limit: int = 50, seconds: float = 0.04) -> SearchResults:
        """Return where all words of the query occur in what is saved, as far as it is found within
        `seconds`: ask again with more if the result is not complete and nobody types."""
        with self._reading() as connection:
            return search(connection, query, limit=limit, seconds=seconds)

    def saved_caches(self) -> tuple[SavedCache, ...]:
        """Return the caches in the file; `CacheCatalogue` manages them."""
        with self._reading() as connection:
            return tuple(reading.caches(connection))

    def check(self) -> str:
        """Read all of the file and return what is wrong with it; "" if nothing is. A damaged file
        is then repaired, which `poll` reports. For a thread that may wait."""
        epoch = self._writer.epoch
        try:
            found = connections.integrity(self.path)
        except sqlite3.Error as error:
            if not connections.is_damage(error):
                return f"{self.path}: cannot be checked: {error}"
            found = str(error)
        if found:
            self._writer.damage_found(epoch)
        return found and f"{self.path}: is damaged: {found}"

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        """Yield this thread's connection, with one state of the file for all that is read through
        it. FileError for whatever SQLite raises."""
        epoch = self._writer.epoch
        try:
            with self._reader().reading() as connection:
                yield connection
        except sqlite3.Error as error:
            if connections.is_damage(error):
                index = connections.is_index_damage(error)
                self._writer.damage_found(epoch, index=index)
                raise FileError(self.path, "is damaged; what can be read of it is saved") from error
            raise FileError(self.path, f"cannot be read: {error}") from error

    def _reader(self) -> Reader:
        """Return this thread's reader of the current file, or of an empty one in memory until there
        is one."""
        epoch = self._writer.epoch
        known: Reader | None = getattr(self._local, "reader", None)
        if known is not None and known.epoch == epoch:
            return known
        if known is not None:
            known.close()
        opened = self._writer.opened.is_set() and self.path.is_file()
        fresh = connections.connect_older(self.path) if opened else connections.connect_memory()
        self._local.reader = reader = Reader(fresh, epoch)
        with self._lock:
            self._readers = [one for one in self._readers if one is not known]
            if self._closed:
                reader.close()
            else:
                self._readers.append(reader)
        return reader


def renumbered(conversation: StoredConversation) -> StoredConversation:
    """Return the same tree under new ids, so that it can be stored besides its original."""
    number = new_id()
    ids = {message.id: new_id() for message in conversation.messages}
    messages = tuple(
        replace(
            message,
            id=ids[message.id],
            conversation=number,
            parent=ids[message.parent] if message.parent is not None else None,
            selected=ids.get(message.selected) if message.selected is not None else None,
            based_on=ids.get(message.based_on) if message.based_on is not None else None,
        )
        for message in conversation.messages
    )
    chosen = conversation.summary.selected
    selected = ids.get(chosen) if chosen is not None else None
    summary = replace(conversation.summary, id=number, selected=selected)
    return StoredConversation(summary, messages, conversation.extras)
