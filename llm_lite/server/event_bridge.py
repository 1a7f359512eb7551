"""From the engine's thread to the event loop: what becomes of answers, without either waiting.

Whatever the engine tells in one step wakes the loop once. A request whose client does not read gets
no more than `most` events; then it is said to be too slow, and nobody else has noticed.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress

from llm_lite.core.serving.service import AnswerEvent

IndexedEvent = tuple[int, AnswerEvent]  # which of a request's answers, and what becomes of it


class ClientLeft(Exception):  # noqa: N818 - nothing failed
    """Nobody waits for this answer any more."""


class RequestEvents:
    """Of one request: what was told and is not yet taken. `when_full` is called once, in the loop,
    where that is too much."""

    def __init__(self, most: int, when_full: Callable[[], None]) -> None:
        self._most, self._when_full = most, when_full
        self._events: list[IndexedEvent] = []
        self._waiter: asyncio.Future[None] | None = None
        self._closed: Exception | None = None  # why nothing more is heard

    def put(self, told: IndexedEvent) -> None:
        if self._closed is not None:
            return
        self._events.append(told)
        if len(self._events) > self._most:
            self.close(ClientLeft("the client does not read its answer"))
            self._when_full()
        self._wake()

    def close(self, reason: Exception) -> None:
        """Whoever takes next gets this."""
        self._closed = self._closed or reason
        self._events.clear()
        self._wake()

    async def take(self, timeout: float) -> list[IndexedEvent]:
        """All that was told since; waits for something up to `timeout` seconds. What it was closed
        with is raised."""
        if not self._events and self._closed is None:
            loop = asyncio.get_running_loop()
            self._waiter = loop.create_future()
            timer = loop.call_later(timeout, self._wake)
            try:
                await self._waiter
            finally:
                timer.cancel()
                self._waiter = None
        if self._closed is not None:
            raise self._closed
        taken, self._events = self._events, []
        return taken

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class EventBridge:
    """All inboxes of a loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._sorted: deque[tuple[RequestEvents, IndexedEvent]] = deque()
        self._coming = False  # the loop was woken and has not delivered yet

    def post(self, events: RequestEvents, told: IndexedEvent) -> None:
        """From any thread; never waits."""
        self._sorted.append((events, told))
        if not self._coming:
            self._coming = True
            self.call(self._deliver)

    def call(self, work: Callable[[], None]) -> None:
        """In the loop, soon; from any thread."""
        with suppress(RuntimeError):  # the loop is closed: nobody is there to be told
            self._loop.call_soon_threadsafe(work)

    def _deliver(self) -> None:
        self._coming = False  # first, so that what comes from here on wakes the loop again
        while self._sorted:
            events, told = self._sorted.popleft()
            events.put(told)
