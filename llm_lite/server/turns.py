"""Threads for what would hold up the event loop, in which clients take turns."""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

Result = TypeVar("Result")
_Job = tuple[Future[Any], Callable[[], Any]]


class TurnPool:
    """At most `per_client` jobs of a client run at once, so that the slow ones of one client hold
    up nobody else. Of several clients the one with the fewest running jobs comes first, and of
    these the one whose turn was longest ago. For any thread."""

    def __init__(self, name: str, threads: int, per_client: int) -> None:
        self._name, self._most, self._per_client = name, threads, per_client
        self._changed = threading.Condition()
        self._waiting: dict[str, deque[_Job]] = {}  # by client; whose turn was last comes last
        self._running: Counter[str] = Counter()  # jobs, by client
        self._threads = self._idle = 0
        self._is_closed = False

    def submit(self, client: str, work: Callable[[], Result]) -> Future[Result]:
        """Cancelling the result drops work that has not begun."""
        done: Future[Result] = Future()
        with self._changed:
            if self._is_closed:
                done.cancel()
                return done
            self._waiting.setdefault(client, deque()).append((done, work))
            if not self._idle and self._threads < self._most:
                self._threads += 1
                threading.Thread(target=self._work, name=self._name, daemon=True).start()
            self._changed.notify()
        return done

    def close(self) -> None:
        """What waits is dropped; what runs ends by itself."""
        with self._changed:
            self._is_closed = True
            for line in self._waiting.values():
                for done, _ in line:
                    done.cancel()
            self._waiting.clear()
            self._changed.notify_all()

    def _work(self) -> None:
        while (job := self._next()) is not None:
            client, (done, work) = job
            if done.set_running_or_notify_cancel():
                try:
                    done.set_result(work())
                except BaseException as error:  # whoever asked is told
                    done.set_exception(error)
            del job, done, work  # their memory is not to wait for the next job
            with self._changed:
                self._running[client] -= 1
                if not self._running[client]:
                    del self._running[client]
                self._changed.notify()

    def _next(self) -> tuple[str, _Job] | None:
        """The next job and its client; waits for one. None in the end."""
        with self._changed:
            self._idle += 1
            while (client := self._whose_turn()) is None and not self._is_closed:
                self._changed.wait()
            self._idle -= 1
            if client is None:
                return None
            line = self._waiting.pop(client)
            job = line.popleft()
            if line:
                self._waiting[client] = line
            self._running[client] += 1
            return client, job

    def _whose_turn(self) -> str | None:
        allowed = (one for one in self._waiting if self._running[one] < self._per_client)
        return min(allowed, key=self._running.__getitem__, default=None)
