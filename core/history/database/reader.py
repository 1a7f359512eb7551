"""One thread's connection for reading, which another thread may close."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_LONGEST = 1.0  # seconds that closing waits for a reading that was interrupted


class Reader:
    """A connection for reading.

    It must not be closed while another thread is within a call of it: the process would crash. So a
    reading holds a lock, and closing interrupts it and waits.
    """

    def __init__(self, connection: sqlite3.Connection, epoch: int) -> None:
        """Wrap a connection. `epoch`: that of the writer whose file it reads."""
        self.epoch = epoch
        self._connection, self._lock = connection, threading.Lock()

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Yield the connection within one state of the file. sqlite3.Error, also once closed."""
        with self._lock:
            connection = self._connection
            connection.execute("BEGIN")
            try:
                yield connection
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")

    def close(self) -> None:
        """Close the connection, unless a reading does not end in time."""
        with suppress(sqlite3.Error):
            self._connection.interrupt()
        if self._lock.acquire(timeout=_LONGEST):
            with suppress(sqlite3.Error):
                self._connection.close()
            self._lock.release()
