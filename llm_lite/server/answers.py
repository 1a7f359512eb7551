"""`Answers` brings the answers to one request from the service to its client.

A client that leaves before their end leaves nothing running behind.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from llm_lite.core.handles import Handle
from llm_lite.core.messages import AnswerRequest, Ended, Event
from llm_lite.server.call import Call
from llm_lite.server.event_bridge import ClientLeft, IndexedEvent, RequestEvents

if TYPE_CHECKING:
    from collections.abc import Callable

    _Post = Callable[[RequestEvents, IndexedEvent], None]


class Answers:
    """A request may have several answers, each with its index. `start` queues them; `close` ends
    those that still run, and has to be called in the end."""

    def __init__(self, call: Call, requests: Sequence[AnswerRequest]) -> None:
        self._call, self._shared, self._service = call, call.shared, call.service
        self._requests = tuple(requests)
        self._received = RequestEvents(
            call.shared.config.unread_events * len(requests), self._give_up
        )
        self._handles: dict[int, Handle] = {}  # by index
        self._ended: set[int] = set()
        self._closed = False
        self._watcher: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Queue the answers; on RequestError or BusyError none of them runs."""
        self._shared.ending.add(self.end)
        bridge = self._shared.bridge
        try:
            keeps_a_form = any(
                one.sampling.json_schema or one.sampling.grammar for one in self._requests
            )
            await self._call.in_thread(lambda _: self._submit(bridge.post), is_large=keeps_a_form)
        except BaseException:
            self.close()
            raise
        self._watcher = asyncio.create_task(self._watch())

    def close(self) -> None:
        self._closed = True
        if self._watcher is not None:
            self._watcher.cancel()
        self._shared.ending.discard(self.end)
        self._received.close(ClientLeft("the answer is over"))
        self._cancel()

    def end(self, reason: Exception) -> None:
        """Raise this error for the task that waits for events."""
        self._received.close(reason)

    @property
    def are_over(self) -> bool:
        return len(self._ended) == len(self._requests)

    async def events(self, timeout: float) -> list[IndexedEvent]:
        """Return the events since the last call, as (index, event); wait for some. Raises
        ClientLeft, and ApiError where the server ends."""
        taken = await self._received.take(timeout)
        for index, event in taken:
            if isinstance(event, Ended):
                self._ended.add(index)
        return taken

    # In a thread of the pool:

    def _submit(self, post: _Post) -> None:
        """Submit each request. On RequestError and BusyError, the caller ends those that were
        queued before."""
        try:
            for index, request in enumerate(self._requests):
                if self._closed:
                    break
                emit = partial(_deliver, post, self._received, index)
                self._handles[index] = self._service.submit(request, emit)
        finally:
            if self._closed:  # meanwhile, when the last one had no handle yet
                self._cancel()

    # In the loop:

    async def _watch(self) -> None:
        await self._call.left()
        self._received.close(ClientLeft("the client has left"))

    def _give_up(self) -> None:
        """Cancel the answers of a client that does not read: the task that writes to it still
        waits, and is not waited for."""
        self._shared.unread += 1
        self._cancel()

    def _cancel(self) -> None:
        for index, handle in tuple(self._handles.items()):
            if index not in self._ended:
                handle.cancel()


def _deliver(post: _Post, events: RequestEvents, index: int, event: Event) -> None:
    """Post an event from the engine's thread."""
    post(events, (index, event))
