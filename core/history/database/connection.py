"""Opening the database: for the one that writes, for those that read, and in memory."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing, suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

from llm_lite.core.errors import FileError
from llm_lite.core.files.private import FILE, private_folder, tighten
from llm_lite.core.files.regular import open_regular
from llm_lite.core.files.writing import reason
from llm_lite.core.history.database import schema

BUSY_MS = 2000  # how long a lock of another process is waited for before the next try
LOGS = ("-wal", "-shm", "-journal")  # beside a database
MAGIC = b"SQLite format 3\0"
DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_READ_CACHE_KB = 16384


class _Connection(sqlite3.Connection):
    def execute(self, *given: Any) -> sqlite3.Cursor:
        """Python's module cannot say what SQLite says of a schema that holds bytes that are no
        UTF-8: its error about the error would hide that the file is damaged."""
        try:
            return super().execute(*given)
        except UnicodeDecodeError as error:
            damaged = sqlite3.DatabaseError(f"malformed database schema ({error})")
            damaged.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
            raise damaged from None


def connect_writer(path: Path) -> sqlite3.Connection:
    """Connect for writing, with a write-ahead log, which readers need not wait for. sqlite3.Error.
    sqlite3.Error.

    synchronous=FULL: a commit returns when the disk has it. With NORMAL, which SQLite advises for
    this journal, the log is only synced at checkpoints, and a power cut takes all commits since. A
    sync every half second while an answer comes costs a few milliseconds of a thread of its own.
    """
    connection = _connect(path, "rw")
    try:
        connection.execute(f"PRAGMA busy_timeout = {BUSY_MS}")
        if not connection.execute("PRAGMA page_count").fetchone()[0]:
            # Only a new file can have it: what a purge frees is returned to the disk.
            connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("PRAGMA secure_delete = ON")  # what is purged is overwritten
        connection.execute("PRAGMA journal_size_limit = 16777216")  # bytes of the log at rest
    except BaseException:
        connection.close()
        raise
    return connection


def connect_reader(path: Path) -> sqlite3.Connection:
    """Connect for reading only. sqlite3.Error."""
    try:
        connection = _connect(path, "ro")
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except sqlite3.OperationalError as error:
        if not _is_no_room_for_log(error, path):
            raise
        # Beside a database in a folder that may not be written to, SQLite can make neither log
        # nor index of it. Nobody else can then either, so nothing changes while we read.
        connection = _connect(path, "ro&immutable=1")
    connection.execute(f"PRAGMA busy_timeout = {BUSY_MS}")
    connection.execute("PRAGMA query_only = ON")
    connection.execute(f"PRAGMA cache_size = -{_READ_CACHE_KB}")
    return connection


def connect_older(path: Path) -> sqlite3.Connection:
    """Connect for reading, also to a file that lacks what a later version has. sqlite3.Error."""
    connection = connect_reader(path)
    try:
        connection.execute("PRAGMA query_only = OFF")
        if schema.version_of(connection):
            schema.complete(connection)
        connection.execute("PRAGMA query_only = ON")
    except BaseException:
        connection.close()
        raise
    return connection


def connect_memory() -> sqlite3.Connection:
    """Return a database in memory with empty tables of the newest version."""
    connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    schema.migrate(connection)
    return connection


def make_file(path: Path) -> None:
    """Make an empty database that only this user may read, if there is none; one that is there is
    taken from others. FileError.

    SQLite would make it as the umask says, and gives its log the mode of the database.
    """
    private_folder(path.parent, shared=True)
    check_kind(path)
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, FILE))
    except FileExistsError:
        for end in ("", *LOGS):
            tighten(Path(f"{path}{end}"))
    except (OSError, ValueError) as error:
        raise FileError(path, f"cannot be made: {reason(error)}") from None


def check_kind(path: Path) -> None:
    """Raise FileError where a pipe, a device or a folder is in the place of the database or of a
    log beside it: opening a pipe would wait for ever."""
    for end in ("", *LOGS):
        place = Path(f"{path}{end}")
        if _is_no_file(place):
            raise FileError(path, f"{place.name} is no regular file, expected one of a database")


def _is_no_file(path: Path) -> bool:
    """Return True for a pipe, a device or a folder; False, too, where nobody may look."""
    return os.path.exists(path) and not os.path.isfile(path)  # noqa: PTH110, PTH113  never raise


def is_other_file(path: Path) -> bool:
    """Return True if there is a file that never was a database of SQLite."""
    with suppress(OSError, FileError), open_regular(path) as file:
        begin = file.read(len(MAGIC))
        return bool(begin) and begin != MAGIC
    return False


def is_damage(error: BaseException) -> bool:
    """Return True if SQLite says that the file itself is damaged."""
    code = getattr(error, "sqlite_errorcode", None)
    return isinstance(error, sqlite3.DatabaseError) and code is not None and code & 0xFF in DAMAGED


def is_index_damage(error: BaseException) -> bool:
    """Return True if only the index of words is damaged, which can be made again."""
    return getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_CORRUPT_VTAB


def integrity(path: Path) -> str:
    """Return what SQLite finds wrong with all of a file; "" if nothing is. sqlite3.Error."""
    with closing(connect_reader(path)) as connection:
        found = [row[0] for row in connection.execute("PRAGMA integrity_check(5)")]
        found += [
            f"foreign key of {row[0]}" for row in connection.execute("PRAGMA foreign_key_check")
        ]
    return "" if found == ["ok"] else "; ".join(found)


def _connect(path: Path, mode: str) -> sqlite3.Connection:
    """Autocommit: transactions are begun by us. Readers are handed from thread to thread. A pipe,
    at which SQLite would wait, cannot be opened."""
    if _is_no_file(path):
        error = sqlite3.OperationalError("unable to open database file: it is no regular file")
        error.sqlite_errorcode = sqlite3.SQLITE_CANTOPEN
        raise error
    place = f"file:{quote(os.fspath(path.absolute()))}?mode={mode}"
    return sqlite3.connect(
        place, uri=True, isolation_level=None, check_same_thread=False, factory=_Connection
    )


def _is_no_room_for_log(error: sqlite3.OperationalError, path: Path) -> bool:
    code = error.sqlite_errorcode & 0xFF
    refused = code in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY)
    return refused and path.is_file() and not os.access(path.parent, os.W_OK)
