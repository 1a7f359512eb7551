"""Destroy later: what a frame in flight may read is closed once the timeline has passed it."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable

from llm_lite.core.errors import DeviceLostError
from llm_lite.core.gpu.queue import Queue

log = logging.getLogger(__name__)


def finish(wait: Callable[[], None]) -> None:
    """Wait before destroying; a lost device has nothing left to wait for, and of one that did not
    finish in time nothing is destroyed (`Queue.wait`)."""
    try:
        wait()
    except DeviceLostError as error:
        log.warning("%s Nothing waits for its objects.", error)


class Retired:
    """Closers, each with the timeline value after which it may run; values never decrease."""

    def __init__(self, queue: Queue) -> None:
        self._queue = queue
        self._waiting: deque[tuple[int, Callable[[], None]]] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, value: int, close: Callable[[], None]) -> None:
        self._waiting.append((value, close))

    def sweep(self) -> None:
        """Close what the device has finished with; never waits."""
        if not self._waiting:
            return
        completed = self._queue.completed()
        while self._waiting and self._waiting[0][0] <= completed:
            self._waiting.popleft()[1]()

    def close(self) -> None:
        """Close everything; the caller has waited for the device or lost it."""
        while self._waiting:
            self._waiting.popleft()[1]()
