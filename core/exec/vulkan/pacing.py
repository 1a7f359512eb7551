"""Submits of a few milliseconds: a frame never waits long and no watchdog fires."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from typing import Any, NamedTuple

from llm_lite.core.errors import CancelledError, DeviceLostError
from llm_lite.core.exec.executor import StopCheck
from llm_lite.core.gpu.queue import Queue

TARGET_S = 0.004
IN_FLIGHT = 2  # submits queued at a time, so that the device need not wait for Python
SMOOTHING = 0.3  # weight of the newest measurement
CAUTION = 2  # times as long as the last ones segments are taken to be that were never measured


class _Flight(NamedTuple):
    """A submit on its way: the timeline's value at its end, its segments first .. end - 1."""

    value: int
    first: int
    end: int


class Pacer:
    """Cuts one recording into submits of about TARGET_S, from measured times per segment."""

    def __init__(self, queue: Queue, segments: int) -> None:
        self._queue = queue
        self._segment_s: list[float | None] = [None] * segments  # measured
        self._assumed_s = TARGET_S  # of those that are not: the first are submitted one by one
        self.submits = 0

    def run(self, segments: Sequence[Any], should_stop: StopCheck | None) -> None:
        """Run all segments in order and wait; CancelledError between submits.

        Whatever is raised, nothing is in flight afterwards.
        """
        flying: deque[_Flight] = deque()
        try:
            self._run(segments, should_stop, flying)
        except DeviceLostError:
            raise
        except BaseException:
            if flying:
                self._queue.wait(flying[-1].value)
            raise

    def _run(
        self, segments: Sequence[Any], should_stop: StopCheck | None, flying: deque[_Flight]
    ) -> None:
        at, clock = 0, time.perf_counter()
        while at < len(segments):
            if should_stop and should_stop():
                raise CancelledError("stopped")
            end = self._end(at)
            flying.append(_Flight(self._queue.submit(segments[at:end]), at, end))
            self.submits += 1
            at = end
            if len(flying) >= IN_FLIGHT:
                clock = self._finish(flying.popleft(), clock)
        while flying:
            clock = self._finish(flying.popleft(), clock)

    def _end(self, first: int) -> int:
        """Return the end of the segments from `first` on that fit into TARGET_S, at least one."""
        end, budget = first + 1, TARGET_S - self._seconds(first)
        while end < len(self._segment_s) and self._seconds(end) <= budget:
            budget -= self._seconds(end)
            end += 1
        return end

    def _seconds(self, segment: int) -> float:
        measured = self._segment_s[segment]
        return self._assumed_s if measured is None else measured

    def _finish(self, flight: _Flight, since: float) -> float:
        self._queue.wait(flight.value)
        now = time.perf_counter()
        each = (now - since) / (flight.end - flight.first)
        for i in range(flight.first, flight.end):
            before = self._segment_s[i]
            self._segment_s[i] = each if before is None else before + SMOOTHING * (each - before)
        self._assumed_s = min(TARGET_S, CAUTION * each)
        return now
