"""The outbox of an engine, here or elsewhere: events in order, and how a failed command ends."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable

from llm_lite.core.messages import (
    Command,
    ConversationRead,
    Event,
    Generate,
    GenerationFinished,
    GenerationStats,
    LoadFailed,
    LoadModel,
    Read,
    ServingChanged,
    StartServing,
    TargetFinished,
    Task,
    TaskFinished,
    Translate,
)

MOST_UNREAD = 4096  # events of a server that writes faster than they are read


class Outbox:
    """A queue of messages for any thread. `wake` is called for every event."""

    def __init__(self, wake: Callable[[], None] | None) -> None:
        self._wake = wake
        self._events: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self._read = threading.Condition()  # notified when events were taken

    def emit(self, event: Event) -> None:
        self._events.put(event)
        if self._wake is not None:
            self._wake()

    def wait_for_room(self, is_given_up: Callable[[], bool]) -> None:
        """Return once fewer than MOST_UNREAD events are unread, or soon after `is_given_up`."""
        with self._read:
            while self._events.qsize() >= MOST_UNREAD and not is_given_up():
                self._read.wait(0.1)

    def poll(self) -> list[Event]:
        """Return the events that are there; never waits, and leaves those that come meanwhile."""
        events = []
        try:
            for _ in range(self._events.qsize()):
                events.append(self._events.get_nowait())
        except queue.Empty:  # another thread has taken some
            pass
        with self._read:
            self._read.notify_all()
        return events

    def wait(self, timeout: float) -> list[Event]:
        """Return events as `poll` does, but wait up to `timeout` seconds for the first one."""
        try:
            first = self._events.get(timeout=timeout)
        except queue.Empty:
            return []
        return [first, *self.poll()]


def failure_of(command: Command, message: str) -> Event | None:
    """Return the event with which a command ends after a defect; None for those whose end nobody
    waits for."""
    if isinstance(command, Generate):
        return GenerationFinished(command.request, "error", GenerationStats(), message)
    if isinstance(command, Read):
        return ConversationRead(command.request, (), message)
    if isinstance(command, Translate):
        return TargetFinished(command.request, stop_reason="error", problem=message)
    if isinstance(command, LoadModel):
        return LoadFailed(command.source or "", message)
    if isinstance(command, StartServing):
        return ServingChanged(False, problem=message)
    if isinstance(command, Task):
        return TaskFinished(command.request, message)
    return None
