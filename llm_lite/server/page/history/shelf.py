"""The history for the page: opened when it is first asked for, in threads of its own."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from llm_lite.core.history import (
    History,
    HistoryChangedElsewhere,
    HistoryOpened,
    HistoryRefused,
    HistoryRepaired,
    HistorySaved,
    HistorySavedAgain,
    HistoryUnsaved,
)

T = TypeVar("T")
_THREADS = 2  # readings have a connection a thread
_TELLING = 10.0  # seconds, in which every page asks for the status
_OPENING = 3.0  # seconds: then one that cannot be opened is gone on without


class Shelf:
    """One for a server. The window is another writer of the same file: each sees what the other
    has saved."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._history: History | None = None
        self._threads: ThreadPoolExecutor | None = None
        self._lock = threading.Lock()
        self._waited = False
        self.changes = 0  # counts what was saved, by whomever
        self._problem = ""  # a sentence while nothing can be saved
        self._refusal, self._refused_at = "", 0.0  # of a change that had no place any more

    @property
    def problem(self) -> str:
        """A sentence: while nothing can be saved, and for a while on a change that was dropped."""
        is_new = time.monotonic() - self._refused_at < _TELLING
        return self._problem or (self._refusal if is_new else "")

    async def ask(self, work: Callable[[History], T]) -> T:
        """What `work` finds or changes, without holding up other requests."""
        with self._lock:
            if self._threads is None:
                self._threads = ThreadPoolExecutor(_THREADS, "page history")
            threads = self._threads
        return await asyncio.get_running_loop().run_in_executor(threads, self._work, work)

    def _work(self, work: Callable[[History], T]) -> T:
        return work(self._opened())

    def _opened(self) -> History:
        with self._lock:
            if self._history is None:
                self._history = History(self._path)
            history = self._history
        if not self._waited:
            history.wait_until_open(_OPENING)
            self._waited = True
        return history

    def poll(self) -> None:
        """Note what the history tells since the last call."""
        if self._history is None:
            return
        for event in self._history.poll():
            match event:
                case HistorySaved() | HistoryChangedElsewhere():
                    self.changes += 1
                case HistoryRefused(message):
                    self._refusal, self._refused_at = message, time.monotonic()
                case HistoryUnsaved(message):
                    self._problem = message
                case HistoryOpened(message) | HistoryRepaired(message):
                    self._problem = message
                case HistorySavedAgain():
                    self._problem = ""

    def close(self) -> None:
        """Save what is left."""
        with self._lock:
            threads, self._threads = self._threads, None
            history, self._history = self._history, None
        if threads is not None:
            threads.shutdown()
        if history is not None:
            history.close()
