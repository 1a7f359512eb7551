"""The thread that saves: one connection, short transactions, and what happens when they fail."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

from msgspec import Struct

from llm_lite.core.errors import FileError
from llm_lite.core.history.database import connection as connections
from llm_lite.core.history.database import salvage, schema
from llm_lite.core.history.database.changes import (
    Change,
    ContinueAnswer,
    FinishAnswer,
    Purge,
    WriteAnswer,
)
from llm_lite.core.history.events import (
    HistoryChangedElsewhere,
    HistoryEvent,
    HistoryOpened,
    HistoryRefused,
    HistoryRepaired,
    HistorySaved,
    HistorySavedAgain,
    HistoryUnsaved,
)
from llm_lite.core.system_errors import sentence


class Waiting(Struct):
    change: Change
    taken: bool = False  # by a transaction that is not through yet


class PendingChanges:
    """The changes to be saved: filled by callers, emptied by the writer. `changed` is the one lock
    and condition of both."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.urgent = False  # something waits that is more than the next words of an answer
        self.since: float | None = None  # when the oldest came, by the monotonic clock
        self._waiting: list[Waiting] = []
        self._answers: dict[int, Waiting] = {}  # the newest words of each answer

    def add(self, change: Change) -> None:
        with self.changed:
            if isinstance(change, WriteAnswer):
                before = self._answers.get(change.message)
                if before is not None and not before.taken:
                    before.change = change
                    return
            waiting = Waiting(change)
            self._waiting.append(waiting)
            if isinstance(change, WriteAnswer):
                self._answers[change.message] = waiting
            else:
                self.urgent = True
                self._forget(change)
            if self.since is None:
                self.since = time.monotonic()
            self.changed.notify_all()

    def _forget(self, change: Change) -> None:
        """Forget the last written words of an answer that ends or begins anew: words behind that
        must not take the place of those before it."""
        if isinstance(change, FinishAnswer):
            self._answers.pop(change.answer.message, None)
        elif isinstance(change, ContinueAnswer):
            self._answers.pop(change.message, None)

    def __len__(self) -> int:
        return len(self._waiting)

    def all(self) -> tuple[Change, ...]:
        """Return all changes, the oldest first, also those that are being written."""
        with self.changed:
            return tuple(waiting.change for waiting in self._waiting)

    def take(self) -> list[Waiting]:
        """Return all changes, to be written; they stay here until `done`."""
        with self.changed:
            for waiting in self._waiting:
                waiting.taken = True
            self.urgent = False
            return list(self._waiting)

    def done(self, count: int) -> None:
        """Drop the first `count` changes, which are in the file. The others wait again."""
        with self.changed:
            gone = {id(waiting) for waiting in self._waiting[:count]}
            del self._waiting[:count]
            for number in [n for n, waiting in self._answers.items() if id(waiting) in gone]:
                del self._answers[number]
            for waiting in self._waiting:
                waiting.taken = False
            self.urgent = any(not isinstance(w.change, WriteAnswer) for w in self._waiting)
            self.since = time.monotonic() if self._waiting else None
            self.changed.notify_all()


_PAGES = 500  # of the index that one step merges, and of the file that one frees


class Sweep:
    """Tidies the database in steps of some ten milliseconds each, so that nothing waits long for
    the next one.

    A deleted message is a mark in the index until its parts are merged, which they are into one.
    """

    def __init__(self) -> None:
        self._begun = False
        self._merged = False

    def step(self, connection: sqlite3.Connection) -> bool:
        """Do one step and return True if there is more to do. sqlite3.Error."""
        if not self._merged:
            self._merged = not self._merge(connection)
            return True
        free = connection.execute("PRAGMA freelist_count").fetchone()[0]
        if free:
            connection.execute(f"PRAGMA incremental_vacuum({_PAGES})").fetchall()
            if connection.execute("PRAGMA freelist_count").fetchone()[0] < free:
                return True
        # What the log holds of the pages before is cut off, unless somebody still reads them.
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        return False

    def _merge(self, connection: sqlite3.Connection) -> bool:
        """Merge the index as https://www.sqlite.org/fts5.html#the_merge_command describes: the
        first time with a negative number, then until hardly a row changes. Returns True if there is
        more to do."""
        if not schema.is_indexed(connection):
            return False
        before, pages = connection.total_changes, _PAGES if self._begun else -_PAGES
        with schema.transaction(connection):
            connection.execute(
                "INSERT INTO message_index (message_index, rank) VALUES ('merge', ?)", (pages,)
            )
        self._begun = True
        return connection.total_changes - before >= 2


PERIOD = 0.5  # seconds between two saves of an answer that is being written
LONGEST = 0.05  # seconds of one transaction
PAUSE = 0.02  # seconds between two, so that another process finds the file unlocked
LOOK = 1.0  # seconds between two looks for what other processes changed
_FIRST_RETRY, _LAST_RETRY = 0.5, 8.0  # seconds
_BUSY_TRIES = 2  # a lock is reported after so many, each as long as the busy timeout
# A value that no database takes: tried again it would stand in the way of all behind it.
_UNFIT = (
    *(sqlite3.DataError, sqlite3.InterfaceError, sqlite3.ProgrammingError),
    *(OverflowError, TypeError, ValueError, AttributeError),
)
_REASONS = {
    sqlite3.SQLITE_FULL: "the disk is full",
    sqlite3.SQLITE_READONLY: "the file or its folder is read-only",
    sqlite3.SQLITE_BUSY: "another program has it locked",
    sqlite3.SQLITE_LOCKED: "another program has it locked",
    sqlite3.SQLITE_CANTOPEN: "it cannot be opened",
    sqlite3.SQLITE_PERM: "it may not be written to",
    sqlite3.SQLITE_IOERR: "the disk reports an error",
}


class HistoryWriter:
    """Saves what is `pending` until it is closed. All its methods may be called from any thread,
    and none but `flush` and `close` waits."""

    def __init__(self, path: Path, wake: Callable[[], None]) -> None:
        self.path = path
        self.pending = PendingChanges()
        self.epoch = 0  # counts the files that have been at `path`; readers open theirs again
        self.read_only = False
        self.opened = threading.Event()
        self._wake = wake
        self._events: deque[HistoryEvent] = deque()
        self._connection: sqlite3.Connection | None = None
        self._file: tuple[int, int] | None = None  # device and inode of what is open
        self._elsewhere = 0  # SQLite's count of what others committed
        self._failures = 0
        self._has_reported = False  # that nothing can be saved
        self._retry_at = 0.0
        self._looked_at = 0.0
        self._hurry = False
        self._stop = False
        self._stop_by = 0.0
        self._has_opened = False
        self._damaged = False  # as somebody who read it found
        self._bad_index = False
        self._sweep: Sweep | None = None  # behind a purge
        self._tries = 0  # counts attempts, for `flush`
        self._thread = threading.Thread(target=self._run, name="history", daemon=True)
        self._thread.start()

    def add(self, change: Change) -> None:
        self.pending.add(change)

    def events(self) -> list[HistoryEvent]:
        """Return the events since the last call."""
        found: list[HistoryEvent] = []
        while self._events:
            found.append(self._events.popleft())
        return found

    def damage_found(self, epoch: int, *, index: bool = False) -> None:
        """Report damage that a reader found: the file is moved aside and read as far as it can be;
        an index alone is made again. `epoch` is that of the file that was read: an earlier one is
        repaired already."""
        with self.pending.changed:
            if epoch != self.epoch:
                return
            if index:
                self._bad_index = True
            else:
                self._damaged = True
            self.pending.changed.notify_all()

    def flush(self, timeout: float) -> bool:
        """Save at once and return whether all is in the file. False too as soon as a try has
        failed."""
        pending = self.pending
        with pending.changed:
            tries, self._hurry = self._tries, True
            pending.changed.notify_all()
            pending.changed.wait_for(
                lambda: (
                    not len(pending)
                    or self.read_only
                    or (self._tries > tries and self._has_reported)
                ),
                timeout,
            )
            return not len(pending)

    def close(self, timeout: float) -> bool:
        """Save what can be saved and end; return whether all is in the file."""
        with self.pending.changed:
            self._stop = True
            self._stop_by = time.monotonic() + timeout
            self.pending.changed.notify_all()
        self._thread.join(timeout)
        return not len(self.pending)

    def _run(self) -> None:
        while True:
            stopping = self._wait()
            try:
                self._step()
            except Exception as error:  # a defect too is reported, and the next try may succeed
                waits = self._failed(error)
                if stopping and not (waits and time.monotonic() < self._stop_by):
                    break
            else:
                if stopping and (self.read_only or not len(self.pending)):
                    break
        self._disconnect()

    def _wait(self) -> bool:
        """Wait until there is something to do, and return whether the end has come."""
        with self.pending.changed:
            while not self._stop:
                left = self._due() - time.monotonic()
                if left <= 0:
                    break
                self.pending.changed.wait(left)
            self._hurry = False
            return self._stop

    def _due(self) -> float:
        """Return when the next thing is to be done, by the monotonic clock."""
        if self._failures:
            return 0.0 if self._hurry else self._retry_at
        if self._connection is None or self._damaged or self._bad_index or self._hurry:
            return self._looked_at + LOOK if self.read_only else 0.0
        next_check = self._looked_at + (LOOK if self._sweep is None else PAUSE)
        if self.pending.since is None or self.read_only:
            return next_check
        return 0.0 if self.pending.urgent else min(next_check, self.pending.since + PERIOD)

    def _step(self) -> None:
        if self._damaged and self._file in (None, _identity(self.path)):
            self._repair()
        self._damaged = False  # or another process has repaired it
        connection = self._connected()
        if self._bad_index and connection is not None:
            self._rebuild_index(connection)
        self._looked_at = time.monotonic()
        if connection is None:
            return
        if not self._has_reported:
            self._check_other_writers(connection)
        if len(self.pending):
            self._save(connection)
        else:
            self._succeeded()
            if self._sweep is not None and not self._sweep.step(connection):
                self._sweep = None
        with self.pending.changed:
            self._tries += 1
            self.pending.changed.notify_all()

    def _save(self, connection: sqlite3.Connection) -> None:
        """Save as much as one short transaction takes. sqlite3.Error; nothing is lost then."""
        taken, done = self.pending.take(), 0
        refused: list[tuple[Change, str]] = []
        try:
            began = time.monotonic()
            with schema.transaction(connection):
                for waiting in taken:
                    if problem := _problem_with(waiting.change, connection):
                        refused.append((waiting.change, problem))
                    done += 1
                    if time.monotonic() - began > LONGEST:
                        break
        except BaseException:
            self.pending.done(0)
            raise
        if self._file != _identity(self.path):
            self.pending.done(0)  # deleted meanwhile: all of it is saved in the next file
            return
        if any(isinstance(waiting.change, Purge) for waiting in taken[:done]):
            self._sweep = Sweep()
        changed = frozenset(n for w in taken[:done] for n in w.change.conversations)
        self.pending.done(done)
        self._succeeded()
        self._emit(HistorySaved(changed))
        for change, problem in refused:
            sentence_of = f"A change of a conversation could not be saved: {problem}"
            self._emit(HistoryRefused(sentence_of, change.conversations))
        if len(self.pending):
            time.sleep(PAUSE)

    def _connected(self) -> sqlite3.Connection | None:
        """Return the connection, opened if need be; None if the file is a newer program's."""
        if self._connection is not None and self._file != _identity(self.path):
            self._disconnect()  # it was moved aside or deleted under us
        if self._connection is None and not self.read_only:
            if connections.is_other_file(self.path):
                self._repair()
            try:
                self._open()
            except sqlite3.DatabaseError as error:
                if not connections.is_damage(error):
                    raise
                self._disconnect()
                self._repair()
                self._open()
        return self._connection

    def _open(self) -> None:
        connections.make_file(self.path)
        connection = connections.connect_writer(self.path)
        self._connection, self._file = connection, _identity(self.path)
        version = schema.version_of(connection)
        possible = schema.has_trigrams(connection)
        message = ""
        if version > len(schema.MIGRATIONS):
            self.read_only = True
            message = (
                f"{self.path}: was written by a newer version of this program (its tables are of "
                f"version {version}, this one knows {len(schema.MIGRATIONS)}): conversations can "
                "be read, and new ones are not saved"
            )
            self._disconnect()
        else:
            schema.migrate(connection)
            schema.bring_index(connection, possible=possible)
            self._elsewhere = _data_version(connection)
            if not possible:
                message = (
                    f"SQLite {sqlite3.sqlite_version} has no trigram index: searches read all "
                    "conversations, which takes longer"
                )
        self.epoch += 1
        first = not self._has_opened
        self._has_opened = True
        self.opened.set()
        if first or message:
            self._emit(HistoryOpened(message))

    def _repair(self) -> None:
        self._disconnect()
        repaired = salvage.repair(self.path)
        self._file = None
        with self.pending.changed:
            self._damaged = False
            self.epoch += 1
        if repaired is not None:
            self._emit(HistoryRepaired(repaired.message, str(repaired.kept_as)))

    def _check_other_writers(self, connection: sqlite3.Connection) -> None:
        """Emit HistoryChangedElsewhere if other processes wrote: SQLite counts the commits of all
        other connections, and we have no other that writes."""
        version = _data_version(connection)
        if version != self._elsewhere:
            self._elsewhere = version
            self._emit(HistoryChangedElsewhere())

    def _failed(self, error: Exception) -> bool:
        """Handle a failure, which is reported once; the changes stay, and are tried again after a
        while. Returns True for a lock that will be gone soon."""
        if connections.is_index_damage(error) and not self._bad_index:
            self._bad_index = True
        elif connections.is_damage(error):
            self._damaged, self._bad_index = True, False
        mending = (self._damaged or self._bad_index) and self._failures < 3
        self._failures += 1
        delay = min(_LAST_RETRY, _FIRST_RETRY * 2 ** min(self._failures - 1, 8))
        self._retry_at = time.monotonic() + (0.0 if mending else delay)
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        patient = code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
        if code == sqlite3.SQLITE_CANTOPEN or (not patient and not mending):
            self._disconnect()  # a connection that failed is opened again: a disk may be back
        if not self.opened.is_set() and _is_readable(self.path):
            self.epoch += 1
            self.opened.set()
        if (
            not self._has_reported
            and not mending
            and (not patient or self._failures >= _BUSY_TRIES)
        ):
            self._has_reported = True
            self._emit(HistoryUnsaved(_unsaved(self.path, error, code)))
        with self.pending.changed:
            self._tries += 1
            self.pending.changed.notify_all()
        return patient

    def _rebuild_index(self, connection: sqlite3.Connection) -> None:
        """Make the index again from the words of messages, which are all still in their rows.
        sqlite3.Error; it counts as damage of the whole file if it is the index' again."""
        with schema.transaction(connection):
            connection.execute("INSERT INTO message_index (message_index) VALUES ('rebuild')")
        self._bad_index = False

    def _succeeded(self) -> None:
        self._failures = 0
        if self._has_reported:
            self._has_reported = False
            self._emit(HistorySavedAgain(f"{self.path}: conversations are saved again"))

    def _disconnect(self) -> None:
        if self._connection is not None:
            with suppress(sqlite3.Error):
                self._connection.close()
        self._connection = None

    def _emit(self, event: HistoryEvent) -> None:
        self._events.append(event)
        self._wake()


def _problem_with(change: Change, connection: sqlite3.Connection) -> str:
    """Make a change and return "", or why it never can be made; then it leaves no trace."""
    connection.execute("SAVEPOINT change")
    try:
        change.apply(connection)
    except sqlite3.IntegrityError:
        problem = "what it belongs to was deleted for good by another window"
    except _UNFIT as error:
        problem = f"it does not fit in the database: {error}"
    else:
        connection.execute("RELEASE change")
        return ""
    connection.execute("ROLLBACK TO change")
    connection.execute("RELEASE change")
    return problem


def _unsaved(path: Path, error: Exception, code: int) -> str:
    if isinstance(error, FileError):
        why = f"{error.problem}"
    elif isinstance(error, sqlite3.Error):
        why = _REASONS.get(code, str(error))
    else:
        why = sentence(error) or str(error)
    return (
        f"{path}: conversations cannot be saved: {why}; they are kept in memory, and saved as soon "
        "as that is possible"
    )


def _is_readable(path: Path) -> bool:
    """Return True for a file that may still be read, although it cannot be written to."""
    try:
        with closing(connections.connect_reader(path)) as connection:
            return schema.version_of(connection) > 0
    except (sqlite3.Error, OSError):
        return False


def _data_version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA data_version").fetchone()[0])


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino
