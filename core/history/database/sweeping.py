"""What a purge leaves behind: words in the index, pages without rows, the log."""

from __future__ import annotations

import sqlite3

from llm_lite.core.history.database import schema

_PAGES = 500  # of the index that one step merges, and of the file that one gives back


class Sweep:
    """In steps of some ten milliseconds each, so that nothing waits long for the next one.

    A deleted message is a mark in the index until its parts are merged, which they are into one.
    """

    def __init__(self) -> None:
        self._begun = False
        self._merged = False

    def step(self, connection: sqlite3.Connection) -> bool:
        """Whether there is more to do. sqlite3.Error."""
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
        """As https://www.sqlite.org/fts5.html#the_merge_command says: the first time with a
        negative number, then until hardly a row changes. Whether there is more."""
        if not schema.is_indexed(connection):
            return False
        before, pages = connection.total_changes, _PAGES if self._begun else -_PAGES
        with schema.transaction(connection):
            connection.execute(
                "INSERT INTO message_index (message_index, rank) VALUES ('merge', ?)", (pages,)
            )
        self._begun = True
        return connection.total_changes - before >= 2
