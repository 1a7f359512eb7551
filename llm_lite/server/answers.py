"""`Answers` brings the answers to one request from the service to its client.

A client that leaves before their end leaves nothing running behind.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from llm_lite.core.errors import BusyError, LlmLiteError
from llm_lite.core.handles import Handle
from llm_lite.core.messages import AnswerRequest, Ended, Event
from llm_lite.server.call import Call
from llm_lite.server.event_bridge import ClientLeft, IndexedEvent, RequestEvents
from llm_lite.server.failures import of_core

if TYPE_CHECKING:
    from collections.abc import Callable

    _Post = Callable[[RequestEvents, IndexedEvent], None]

# Of many answers to one request, so many times those of a step are queued at once: others get their
# turns, and no step waits for the next.
_TURNS = 2
_AGAIN = 0.1  # seconds, until there may be a place in the queue


class Answers:
    """A request may have several answers, each with its index. `start` queues them, of many the
    first ones, and others as these end; `close` ends those that still run, and has to be called in
    the end."""

    def __init__(self, call: Call, requests: Sequence[AnswerRequest]) -> None:
        self._call, self._shared, self._service = call, call.shared, call.service
        self._requests = tuple(requests)
        self._most = _TURNS * max(1, self._service.status().parallel)  # that are queued at once
        unread = call.shared.config.unread_events * min(len(requests), self._most)
        self._received = RequestEvents(unread, self._give_up)
        self._keeps_a_form = any(
            one.sampling.json_schema or one.sampling.grammar for one in self._requests
        )
        self._next = 0  # the first that is not queued yet
        self._handles: dict[int, Handle] = {}  # by index
        self._ended: set[int] = set()
        self._closed = False
        self._watcher: asyncio.Task[None] | None = None
        self._filler: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Queue the first answers; on RequestError, and where there is no place for one, none of
        them runs."""
        self._shared.ending.add(self.end)
        if (client := self._call.request.client) is not None:
            self._shared.wakers[client.host, client.port] = self._received.wake
        bridge = self._shared.bridge
        try:
            work = partial(self._submit, bridge.post, self._most)
            await self._call.in_thread(lambda _: work(), is_large=self._keeps_a_form)
        except BaseException:
            self.close()
            raise
        self._watcher = asyncio.create_task(self._watch())

    def close(self) -> None:
        self._closed = True
        for task in (self._watcher, self._filler):
            if task is not None:
                task.cancel()
        self._shared.ending.discard(self.end)
        if (client := self._call.request.client) is not None:
            self._shared.wakers.pop((client.host, client.port), None)
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
        if self._room() and (self._filler is None or self._filler.done()):
            self._filler = asyncio.create_task(self._fill())
        return taken

    # In a thread of the pool:

    def _submit(self, post: _Post, most: int) -> None:
        """Submit the next requests, at most so many, as far as there are places in the queue;
        BusyError where there is none for the first of all. On RequestError the caller ends those
        that were queued before."""
        try:
            for index in range(self._next, min(self._next + most, len(self._requests))):
                if self._closed:
                    break
                emit = partial(_deliver, post, self._received, index)
                try:
                    self._handles[index] = self._service.submit(self._requests[index], emit)
                except BusyError:
                    if not index:
                        raise
                    break
                self._next = index + 1
        finally:
            if self._closed:  # meanwhile, when the last one had no handle yet
                self._cancel()

    # In the loop:

    def _room(self) -> int:
        """Return how many more may be queued now."""
        left = len(self._requests) - self._next
        return min(left, self._most - (self._next - len(self._ended)))

    async def _fill(self) -> None:
        """Queue more answers in place of those that have ended; wait where others wait already."""
        post = self._shared.bridge.post
        while (room := self._room()) and not self._received.is_closed:
            before = self._next
            try:
                work = partial(self._submit, post, room)
                await self._shared.in_thread(self._call.client, work, is_large=self._keeps_a_form)
            except LlmLiteError as error:
                self._received.close(of_core(error))
            except Exception as error:  # a defect, for the task that waits for events
                self._received.close(error)
            if self._next == before and not self._received.is_closed:
                await asyncio.sleep(_AGAIN)

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
