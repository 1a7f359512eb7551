"""Search over titles and all messages.

Words are found anywhere, also within words, in any case and any script: the index holds each run of
three characters. All words of a query must stand in a message; what a person types is quoted, so
none of it is the index' own syntax. Words of one or two characters are in no index: newest messages
are read one by one, as many as the time allows.
"""

from __future__ import annotations

import re
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from llm_lite.core.history.database import schema
from llm_lite.core.history.records import STORED_ROLES, FoundMessage, SearchResults

MOST_WORDS = 16
LONGEST_WORD = 200  # characters
_TRIGRAM = 3
_BEFORE, _AFTER = 40, 120  # characters of a snippet around the first word
_MARKS = 20  # words marked in a snippet
_STEPS = 500  # of SQLite's machine between two checks of the clock, some 0.05 ms

_SAID = (
    "SELECT messages.conversation, conversations.title, messages.id, messages.role, "
    "messages.created, messages.text FROM {source} "
    "JOIN conversations ON conversations.id = messages.conversation "
    "WHERE conversations.deleted IS NULL AND {where} ORDER BY messages.id DESC LIMIT ?"
)


def search(
    connection: sqlite3.Connection, query: str, *, limit: int, seconds: float
) -> SearchResults:
    """Return at most `limit` places, titles first, then the newest messages. It takes at most
    `seconds`, or a little more; `complete` says whether that sufficed. sqlite3.Error."""
    words = words_of(query)
    if not words:
        return SearchResults()
    found: list[FoundMessage] = []
    complete = True
    with _at_most(connection, seconds):
        try:
            found += _titles(connection, words, limit + 1)
            for statement, values in _statements(connection, words):
                if len(found) > limit:
                    break
                rows = connection.execute(statement, (*values, limit + 1 - len(found)))
                found += (_found_message(row, words) for row in rows)
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_INTERRUPT:
                raise
            complete = False
    return SearchResults(tuple(found[:limit]), complete and len(found) <= limit)


def words_of(query: str) -> tuple[str, ...]:
    """Return the words of a query; () if there are none."""
    fit = "".join(
        char if char.isprintable() else " " for char in query[: MOST_WORDS * LONGEST_WORD]
    )
    words = dict.fromkeys(word[:LONGEST_WORD] for word in fit.split())
    return tuple(words)[:MOST_WORDS]


def _statements(
    connection: sqlite3.Connection, words: Sequence[str]
) -> Iterator[tuple[str, list[str]]]:
    """Yield the statements that search unfinished answers, which are in no index, and all other
    messages."""
    likes = " AND ".join(["messages.text LIKE ? ESCAPE '\\'"] * len(words))
    patterns = [_pattern(word) for word in words]
    yield (
        _SAID.format(
            source="messages INDEXED BY messages_unfinished",
            where=f"NOT messages.finished AND {likes}",
        ),
        patterns,
    )
    long = [word for word in words if len(word) >= _TRIGRAM]
    if not long or not schema.is_indexed(connection):
        yield _SAID.format(source="messages", where=f"messages.finished AND {likes}"), patterns
        return
    short = [word for word in words if len(word) < _TRIGRAM]
    where = " AND ".join(
        ["message_index MATCH ?"] + ["messages.text LIKE ? ESCAPE '\\'"] * len(short)
    )
    source = "message_index CROSS JOIN messages ON messages.id = message_index.rowid"
    statement = _SAID.format(source=source, where=where)
    # In the order of the index, which can then stop at the limit.
    statement = statement.replace("ORDER BY messages.id", "ORDER BY message_index.rowid")
    match = " AND ".join('"' + word.replace('"', '""') + '"' for word in long)
    yield statement, [match, *map(_pattern, short)]


def _titles(connection: sqlite3.Connection, words: Sequence[str], limit: int) -> list[FoundMessage]:
    """Search titles: SQLite's LIKE knows the case of ASCII only, so that words of other scripts are
    compared here, with all titles."""
    folded = [word.casefold() for word in words]
    patterns = [_pattern(word) for word in words if word.isascii() or word.lower() == word.upper()]
    likes = "AND title LIKE ? ESCAPE '\\' " * len(patterns)
    found = []
    for number, title, updated in connection.execute(
        f"SELECT id, title, updated FROM conversations WHERE deleted IS NULL {likes}"
        "ORDER BY pinned DESC, updated DESC",
        patterns,
    ):
        lower = title.casefold()
        if all(word in lower for word in folded):
            snippet, marks = snippet_of(title, words)
            found.append(FoundMessage(number, title, None, None, updated, snippet, marks))
            if len(found) >= limit:
                break
    return found


def _found_message(
    row: tuple[int, str, int, str, float, str], words: Sequence[str]
) -> FoundMessage:
    talk, title, number, role, created, text = row
    known = next((name for name in STORED_ROLES if name == role), None)
    return FoundMessage(talk, title, number, known, created, *snippet_of(text, words))


def snippet_of(text: str, words: Sequence[str]) -> tuple[str, tuple[tuple[int, int], ...]]:
    """Return the text around the first of the words, as one line, and where in it the words are."""
    pattern = re.compile(
        "|".join(map(re.escape, sorted(words, key=len, reverse=True))), re.IGNORECASE
    )
    first = pattern.search(text)
    at = first.start() if first else 0
    begin, end = max(0, at - _BEFORE), min(len(text), at + _AFTER)
    line = "".join(char if char.isprintable() else " " for char in text[begin:end])
    line = ("…" if begin else "") + line + ("…" if end < len(text) else "")
    marks = [match.span() for match in pattern.finditer(line)]
    return line, tuple(marks[:_MARKS])


def _pattern(word: str) -> str:
    escaped = word.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return f"%{escaped}%"


@contextmanager
def _at_most(connection: sqlite3.Connection, seconds: float) -> Iterator[None]:
    """Have statements end with SQLITE_INTERRUPT when the time is over."""
    until = time.monotonic() + seconds
    connection.set_progress_handler(lambda: time.monotonic() > until, _STEPS)
    try:
        yield
    finally:
        with suppress(sqlite3.ProgrammingError):
            connection.set_progress_handler(None, 0)
