"""Work on a thread of its own, while the caller does something else."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Generic, TypeVar

from llm_lite.core.text.sandbox.process import cancelled_by, give_up_when_cancelled

Result = TypeVar("Result")

_POLL_SECONDS = 0.02  # how long a cancellation may go unnoticed


class BackgroundWork(Generic[Result]):
    """Work that begins at once. For any thread; `result` raises what the work raised."""

    def __init__(self, work: Callable[[], Result], name: str) -> None:
        self._work = work
        self._future: Future[Result] = Future()
        self._is_closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def result(self) -> Result:
        """Wait for the result and return it. CancelledError as of `cancelled_by` for the calling
        thread."""
        while not self._future.done():
            self._thread.join(_POLL_SECONDS)
            give_up_when_cancelled()
        return self._future.result()

    def raise_failure(self) -> None:
        """Raise what the work has thrown so far, without waiting."""
        if self._future.done():
            self._future.result()

    def close(self) -> None:
        """End the work, as its result is not needed any more: requests to the sandbox end, and so
        does the thread."""
        self._is_closed.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            with cancelled_by(self._is_closed.is_set):
                self._future.set_result(self._work())
        except BaseException as error:
            self._future.set_exception(error)
