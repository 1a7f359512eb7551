"""A damaged database: moved aside, and what can be read of it read into a new one, row by row."""

from __future__ import annotations

import heapq
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from msgspec import Struct

from llm_lite.core.errors import FileError
from llm_lite.core.files.leftovers import temporary
from llm_lite.core.files.private import tighten
from llm_lite.core.files.renaming import rename_free, rename_new
from llm_lite.core.files.writing import reason, sync_folder
from llm_lite.core.history.database import connection as connections
from llm_lite.core.history.database import rows, schema
from llm_lite.core.history.records import STORED_ROLES, TITLE_SOURCES

_PROBES = 2000  # readings that begin within a damaged stretch of a table
_RECOVERED = "Recovered conversation"
Row = tuple[Any, ...]


class Repaired(Struct, frozen=True):
    kept_as: Path
    conversations: int
    messages: int
    message: str


def repair(path: Path) -> Repaired | None:
    """Read the file into a new one, move it aside and put the new one in its place; return None if
    another process has done so.

    FileError or sqlite3.Error where there is no room for the new one, or files cannot be renamed:
    the damaged one then stays where it is, or lies beside.
    """
    with temporary(path) as part:
        connections.make_file(part)
        with closing(connections.connect_writer(part)) as new:
            schema.migrate(new)
            with schema.transaction(new):
                conversations, messages = _copy(path, new)
            schema.bring_index(new, possible=schema.has_trigrams(new))
        kept_as = _moved_aside(path)
        if kept_as is None:
            return None
        _put_in_place(part, path)
    read = (
        f"{conversations} conversations with {messages} messages could be read and are kept"
        if conversations
        else "nothing in it could be read"
    )
    sentence = f"{path}: was damaged and lies at {kept_as.name} beside it now; {read}"
    return Repaired(kept_as, conversations, messages, sentence)


def _put_in_place(part: Path, path: Path) -> None:
    """Move the repaired file to its place; if another process has begun a history meanwhile, the
    rows are added to that."""
    try:
        rename_new(part, path)
    except FileExistsError:
        with closing(connections.connect_writer(path)) as there:
            schema.migrate(there)
            with schema.transaction(there):
                _copy(part, there)
    except OSError as error:
        raise FileError(path, f"cannot be made: {reason(error)}") from None
    sync_folder(path.parent)


def _moved_aside(path: Path) -> Path | None:
    """Move the damaged file aside with its log: SQLite would write what that holds over the next
    file."""
    stamp = time.strftime("%Y-%m-%d-%H%M%S")
    try:
        kept_as = rename_free(path, path.with_name(f"{path.stem}-damaged-{stamp}{path.suffix}"))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise FileError(path, f"is damaged and cannot be moved aside: {reason(error)}") from None
    for end in ("-wal", "-shm"):
        with suppress(OSError):
            rename_new(Path(f"{path}{end}"), Path(f"{kept_as}{end}"))
    for end in ("", "-wal", "-shm"):
        tighten(Path(f"{kept_as}{end}"))
    return kept_as


def _copy(source: Path, new: sqlite3.Connection) -> tuple[int, int]:
    """Copy what can be read and return how many conversations and messages that is."""
    try:
        with closing(_open_damaged(source)) as old:
            talks = {row[0]: row for row in _conversations(old)}
            messages = {row[0]: row for row in _messages(old)}
            answers = list(_answers(old))
            columns = rows.attachment_columns(old)
            attachments = list(_table(old, "attachments", columns, "rowid"))
            caches = list(_table(old, "caches", rows.CACHE, "id"))
            extras = list(_table(old, "extras", rows.EXTRAS, "conversation"))
    except sqlite3.Error:
        return 0, 0
    for row in messages.values():
        if row[1] not in talks:
            now = time.time()
            talks[row[1]] = (row[1], _RECOVERED, "person", now, now, 0, 0, None, "", None)
    _insert(new, "conversations", rows.SUMMARY, _selecting(talks, messages))
    for row in _parents_first(messages):
        _insert(new, "messages", rows.MESSAGE, [row])
    _insert(new, "answers", rows.ANSWER, [row for row in answers if row[0] in messages])
    _insert(new, "attachments", columns, [r for r in attachments if r[0] in messages])
    texts = [(r[0], *map(_text, r[1:])) for r in extras if r[0] in talks]
    _insert(new, "extras", rows.EXTRAS, texts)
    _insert(
        new, "caches", rows.CACHE, [r for r in caches if {r[1], r[2]} <= {None, *talks, *messages}]
    )
    return len(talks), len(messages)


def _open_damaged(path: Path) -> sqlite3.Connection:
    """Open a damaged file. sqlite3.Error if not even the list of tables can be read."""
    old = connections.connect_reader(path)
    old.text_factory = lambda raw: raw.decode("utf-8", "replace")
    try:
        old.execute("PRAGMA cell_size_check = ON")
        old.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except BaseException:
        old.close()
        raise
    return old


def _conversations(old: sqlite3.Connection) -> Iterator[Row]:
    now = time.time()
    for row in _table(old, "conversations", rows.SUMMARY, "id"):
        number, title, source, created, updated, pinned, archived, deleted, prompt, selected = row
        known = source if source in TITLE_SOURCES else "none"
        when = _real(created, now), _real(updated, now)
        flags = int(pinned == 1), int(archived == 1), deleted if type(deleted) is float else None
        yield (number, _text(title), known, *when, *flags, _text(prompt), _number(selected))


def _messages(old: sqlite3.Connection) -> Iterator[Row]:
    """Yield messages whose conversation is known; other columns that cannot be read fall back to
    neutral values."""
    now = time.time()
    for row in _table(old, "messages", rows.MESSAGE, "id"):
        number, talk, parent, role, text, thought, tokens, created, finished, *rest = row
        if type(talk) is not int:
            continue
        selected, based_on, kept, odds = rest
        content = _text(text), _text(thought), tokens if isinstance(tokens, bytes) else b""
        known = role if role in STORED_ROLES else "user"
        likely = odds if isinstance(odds, bytes) else b""
        rest = [_number(selected), _number(based_on), _number(kept) or 0, likely]
        whole = _real(created, now), int(finished == 1)
        yield (number, talk, _number(parent), known, *content, *whole, *rest)


def _answers(old: sqlite3.Connection) -> Iterator[Row]:
    for row in _table(old, "answers", rows.ANSWER, "message"):
        number, name, path, size, modified, fingerprint, run, stop, problem, seconds, stats = row
        model = _text(name), _text(path), _number(size) or 0, _real(modified, 0.0)
        made = _text(fingerprint), run if isinstance(run, str) else None
        ended = rows.stop_reason(stop), _text(problem), _real(seconds, 0.0)
        yield (number, *model, *made, *ended, stats if isinstance(stats, str) else None)


def _selecting(talks: dict[int, Row], messages: dict[int, Row]) -> list[Row]:
    """Return the conversations; one whose first message is lost shows the newest message that
    begins a version."""
    first: dict[int, int] = {}
    for row in messages.values():
        if row[2] not in messages:
            first[row[1]] = max(row[0], first.get(row[1], row[0]))
    return [
        row if row[-1] in messages else (*row[:-1], first.get(number))
        for number, row in talks.items()
    ]


def _parents_first(messages: dict[int, Row]) -> Iterator[Row]:
    """A message whose parent is lost, or lies elsewhere, begins another version."""
    below: dict[int | None, list[int]] = {}
    for number, row in messages.items():
        parent = messages.get(row[2])
        at = row[2] if parent is not None and parent[1] == row[1] and row[2] < number else None
        below.setdefault(at, []).append(number)
    waiting: list[tuple[int | None, int]] = [(None, number) for number in below.get(None, [])]
    while waiting:
        parent_id, number = waiting.pop()
        row = messages[number]
        yield (*row[:2], parent_id, *row[3:])
        waiting += ((number, child) for child in below.get(number, []))


def _insert(new: sqlite3.Connection, table: str, columns: str, found: list[Row]) -> None:
    """Insert rows without those that a damaged file holds twice, or with impossible values."""
    new.executemany(
        f"INSERT OR IGNORE INTO {table} ({columns}) VALUES ({rows.marks(columns)})", found
    )


def _table(old: sqlite3.Connection, table: str, columns: str, key: str) -> Iterator[Row]:
    """Yield all rows that can be reached: from the first up to the damage, from the last down to
    it, and between from many places, as a damaged page hides some hundred rows and no more."""
    known = {row[1] for row in old.execute(f"PRAGMA table_info({table})")}
    # What an older file has no column for is not there.
    names = ", ".join(["rowid", *(n if n in known else "NULL" for n in columns.split(", "))])
    select = f"SELECT {names} FROM {table} WHERE {key} BETWEEN ? AND ? ORDER BY {key}"
    least, most = -(1 << 63), (1 << 63) - 1
    stretches = [(least - most, least, most)]  # the widest first
    seen: set[int] = set()
    for _ in range(_PROBES):
        if not stretches:
            return
        _, first, last = heapq.heappop(stretches)
        for order in ("ASC", "DESC"):
            try:
                for row in old.execute(f"{select} {order}", (first, last)):
                    first, last = (row[0] + 1, last) if order == "ASC" else (first, row[0] - 1)
                    if row[0] not in seen:
                        seen.add(row[0])
                        yield row[1:]
                break  # all of it
            except sqlite3.Error:
                continue
        else:
            if first < last:
                middle = (first + last) // 2
                heapq.heappush(stretches, (first - middle, first, middle))
                heapq.heappush(stretches, (middle + 1 - last, middle + 1, last))


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _real(value: object, otherwise: float) -> float:
    return value if type(value) is float and abs(value) < 1e12 else otherwise


def _number(value: object) -> int | None:
    return value if type(value) is int else None
