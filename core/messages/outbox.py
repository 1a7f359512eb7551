"""What an engine says, here or elsewhere: events in order, and how a failed command ends."""

from __future__ import annotations

import queue
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


class Outbox:
    """For any thread. `wake` is called for every event."""

    def __init__(self, wake: Callable[[], None] | None) -> None:
        self._wake = wake
        self._events: queue.SimpleQueue[Event] = queue.SimpleQueue()

    def emit(self, event: Event) -> None:
        self._events.put(event)
        if self._wake is not None:
            self._wake()

    def poll(self) -> list[Event]:
        """The events since the last call; never waits."""
        events = []
        while True:
            try:
                events.append(self._events.get_nowait())
            except queue.Empty:
                return events

    def wait(self, timeout: float) -> list[Event]:
        """Like `poll`, but waits up to `timeout` seconds for the first event."""
        try:
            first = self._events.get(timeout=timeout)
        except queue.Empty:
            return []
        return [first, *self.poll()]


def failure_of(command: Command, message: str) -> Event | None:
    """How a command ended that a defect ended; None for those whose end nobody waits for."""
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
