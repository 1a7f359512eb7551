"""The protocol of an engine, here, elsewhere or scripted: it is given commands and returns handles.

A handle's events come in order, the last one is Ended. What an engine reports of itself, without a
command, comes in the same order between them.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterable
from typing import Protocol

from msgspec import Struct

from llm_lite.core.errors import RequestError
from llm_lite.core.messages import Cancel, Command, Ended, Event

CANCELLED = "it was cancelled"
SUPERSEDED = "a newer request has taken its place"
CLOSING = "the program is closing"  # of a command that an engine did not come to
MOST_UNREAD = 4096  # events of a server that writes faster than they are read


class Report(Struct, frozen=True):
    """An event, and the command that it is of; None: it is of the engine itself."""

    event: Event
    command: Command | None = None


class Handle:
    """A command that an engine was given. Any thread may use it."""

    def __init__(self, command: Command, deliver: Callable[[Report], None]) -> None:
        self.command = command
        self.is_cancelled = False
        self.on_cancel: Callable[[], None] = lambda: None  # an engine's; it must not wait
        self.of_tokens: tuple[int, ...] | None = None  # an engine's: as in Ended
        self._deliver = deliver
        self._lock = threading.RLock()  # held from a report to what it changes here
        self._over = threading.Event()
        self._problem = ""
        self._last: Event | None = None

    @property
    def is_over(self) -> bool:
        """Return True if the command has ended: always, once its Ended was read."""
        with self._lock:
            return self._over.is_set()

    def cancel(self) -> None:
        """End the command soon, if it has not ended; what it did until then stays."""
        self.is_cancelled = True
        self.on_cancel()

    def result(self, timeout: float | None = None) -> Event | None:
        """Wait for the end, `timeout` seconds at most, and return the last event before it; None
        where there was none. RequestError with the sentence of a command that could not be carried
        out, and after `timeout`."""
        if not self._over.wait(timeout):
            raise RequestError(f"{type(self.command).__name__} did not end within {timeout} s")
        if self._problem:
            raise RequestError(self._problem)
        return self._last

    # For the engine.

    def emit(self, event: Event) -> None:
        """Deliver an event of the command; behind its end there are none."""
        with self._lock:
            if not self.is_over:
                self._last = event
                self._deliver(Report(event, self.command))

    def finish(self, result: Event) -> None:
        """Deliver the result of the command, which is its last event but Ended."""
        self.emit(result)
        self.end()

    def end(self, problem: str = "", *, unwanted: bool = False, at_fault: bool = False) -> None:
        """End the command, unless it has ended."""
        with self._lock:
            if not self.is_over:
                self._problem = problem
                ended = Ended(problem, unwanted, at_fault, self.of_tokens)
                self._deliver(Report(ended, self.command))
                self._over.set()  # after the report: who waits for the end finds it there


def cancel(handles: Iterable[Handle], command: Cancel) -> None:
    """Cancel the command that a Cancel is meant for, if one of these is its handle."""
    for handle in handles:
        if handle.command is command.command:
            handle.cancel()


class Outbox:
    """A queue of reports for any thread. `wake` is called for every report."""

    def __init__(self, wake: Callable[[], None] | None) -> None:
        self._wake = wake
        self._reports: queue.SimpleQueue[Report] = queue.SimpleQueue()
        self._read = threading.Condition()  # notified when reports were taken

    def put(self, report: Report) -> None:
        self._reports.put(report)
        if self._wake is not None:
            self._wake()

    def emit(self, event: Event) -> None:
        """Report an event of the engine itself."""
        self.put(Report(event))

    def wait_for_room(self, is_given_up: Callable[[], bool]) -> None:
        """Return once fewer than MOST_UNREAD reports are unread, or soon after `is_given_up`."""
        with self._read:
            while self._reports.qsize() >= MOST_UNREAD and not is_given_up():
                self._read.wait(0.1)

    def poll(self) -> list[Report]:
        """Return the reports that are there; never waits, and leaves those that come meanwhile."""
        reports = []
        try:
            for _ in range(self._reports.qsize()):
                reports.append(self._reports.get_nowait())
        except queue.Empty:  # another thread has taken some
            pass
        with self._read:
            self._read.notify_all()
        return reports

    def wait(self, timeout: float) -> list[Report]:
        """Return reports as `poll` does, but wait up to `timeout` seconds for the first one."""
        try:
            first = self._reports.get(timeout=timeout)
        except queue.Empty:
            return []
        return [first, *self.poll()]


class AnyEngine(Protocol):
    """A model that commands are given to. Any thread may call it."""

    def submit(self, command: Command) -> Handle:
        """Hand a command over; returns at once."""
        ...

    def poll(self) -> list[Report]:
        """Return the reports since the last call, in order; never waits."""
        ...

    def close(self, timeout: float = 2.0) -> object:
        """Stop whatever runs and end the thread, within `timeout` seconds."""
        ...


class WaitingEngine(AnyEngine, Protocol):
    """An engine for a program that has nothing to do until it reports."""

    def wait(self, timeout: float) -> list[Report]:
        """Return the reports as `poll` does, but wait up to `timeout` seconds for the first one."""
        ...
