"""Events of answers come from the engine's thread to the event loop, and neither waits.

All events of one step wake the loop once. A request whose client does not read gets no more than
`most` events; then it ends, and no other request is slower for it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress

from llm_lite.core.messages import Event

IndexedEvent = tuple[int, Event]  # the index of an answer, and its event


class ClientLeft(Exception):  # noqa: N818 - nothing failed
    """The client no longer waits for this answer."""


class RequestEvents:
    """The events of one request that are not taken yet. `when_full` is called once, in the loop, if
    they are too many."""

    def __init__(self, most: int, when_full: Callable[[], None]) -> None:
        self._most, self._when_full = most, when_full
        self._events: list[IndexedEvent] = []
        self._waiter: asyncio.Future[None] | None = None
        self._closed: Exception | None = None  # why no more events are taken

    @property
    def is_closed(self) -> bool:
        return self._closed is not None

    def put(self, event: IndexedEvent) -> None:
        if self._closed is not None:
            return
        self._events.append(event)
        if len(self._events) > self._most:
            self.close(ClientLeft("the client does not read its answer"))
            self._when_full()
        self.wake()

    def close(self, reason: Exception) -> None:
        """Raise `reason` for the task that takes next."""
        self._closed = self._closed or reason
        self._events.clear()
        self.wake()

    async def take(self, timeout: float) -> list[IndexedEvent]:
        """Return all events since the last call; wait for one up to `timeout` seconds. Raises
        the reason for which this was closed."""
        if not self._events and self._closed is None:
            loop = asyncio.get_running_loop()
            self._waiter = loop.create_future()
            timer = loop.call_later(timeout, self.wake)
            try:
                await self._waiter
            finally:
                timer.cancel()
                self._waiter = None
        if self._closed is not None:
            raise self._closed
        taken, self._events = self._events, []
        return taken

    def wake(self) -> None:
        """Let the task that takes go on, whether there are events or not."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class EventBridge:
    """One bridge brings the events of all requests of a loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._posted: deque[tuple[RequestEvents, IndexedEvent]] = deque()
        self._is_woken = False  # the loop was woken and has not delivered yet

    def post(self, events: RequestEvents, event: IndexedEvent) -> None:
        """Deliver an event; any thread may call it, and it never waits."""
        self._posted.append((events, event))
        if not self._is_woken:
            self._is_woken = True
            self.call(self._deliver)

    def call(self, work: Callable[[], None]) -> None:
        """Call `work` in the loop, soon; any thread may call it."""
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            self._loop.call_soon_threadsafe(work)

    def _deliver(self) -> None:
        self._is_woken = False  # first, so that what comes from here on wakes the loop again
        while self._posted:
            events, event = self._posted.popleft()
            events.put(event)
