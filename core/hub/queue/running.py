"""The stage that runs: its process, and how far it is."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping
from typing import Any

from llm_lite.core.hub.queue.jobs import QueuedJob
from llm_lite.core.hub.queue.process import OnMessage, StageProcess, text_of
from llm_lite.core.messages.library import JobStage, ModelJob, Stage
from llm_lite.core.records import replace

_WINDOW = 8.0  # seconds that the rate is of, or
_STEPS = 5  # so many steps, where they take longer
_TELLING = 1.0  # seconds, before which it is a mere guess


class Rate:
    def __init__(self) -> None:
        self._points: deque[tuple[float, int]] = deque()  # time, done

    def add(self, done: int, now: float | None = None) -> None:
        now = time.monotonic() if now is None else now
        points = self._points
        if points and done < points[-1][1]:  # what comes next begins
            points.clear()
        if points and done == points[-1][1]:
            return
        points.append((now, done))
        while len(points) > _STEPS + 1 and now - points[1][0] > _WINDOW:
            points.popleft()

    def rests(self, now: float | None = None) -> bool:
        """Return True if nothing has come for as long as the rate's window."""
        now = time.monotonic() if now is None else now
        return bool(self._points) and now - self._points[-1][0] > _WINDOW

    @property
    def value(self) -> float:
        """Return the rate per second; 0 if it is not known yet."""
        if len(self._points) < 2:
            return 0.0
        (begin, first), (end, last) = self._points[0], self._points[-1]
        return (last - first) / (end - begin) if end - begin >= _TELLING else 0.0

    def left(self, done: int, total: int) -> float | None:
        """Return the seconds left; None if they are not known."""
        rate = self.value
        return max(0, total - done) / rate if rate > 0 and total > 0 else None


_MOST = 1 << 62


class RunningStage:
    """The running stage. RequestError if its process cannot be started."""

    def __init__(
        self, job: QueuedJob, task: Mapping[str, Any], on_message: OnMessage, worker: str
    ) -> None:
        assert job.row.current is not None
        self.job_id = job.id
        self.stage: Stage = job.row.current.stage
        self.process = StageProcess(task, on_message, worker)
        self.outcome: Mapping[str, Any] | None = None  # its last word
        self._rate = Rate()
        self._rested = False  # nothing came from the network when it was last heard of
        self._shown: dict[str, Any] = {}

    def handle(self, message: Mapping[str, Any]) -> None:
        if "done" not in message:
            self.outcome = message
            return
        done, total = _count(message.get("done")), _count(message.get("total"))
        no_rate = message.get("no_rate") is True
        if no_rate or self._rested:  # what is read back is no speed of the network
            self._rate = Rate()
        self._rested = no_rate
        self._rate.add(done)
        rate = self._rate.value if self.stage == "download" else 0.0
        self._shown = {
            "done": done,
            "total": total,
            "rate": rate,
            "left": self._rate.left(done, total),
            "detail": text_of(message, "detail", 200),
        }

    def progress(self) -> dict[str, Any]:
        """Return the progress for programs that only show it."""
        shown = {"id": self.job_id, "stage": self.stage, **self._shown}
        if self.stage == "download" and self._rate.rests():
            shown |= {"rate": 0.0, "left": None}
        return shown


def with_progress(row: ModelJob, progress: Mapping[str, Any]) -> ModelJob:
    """Return a row whose running stage has the progress that the working program reported."""
    current = row.current
    if current is None or current.state != "running" or progress.get("id") != row.id:
        return row
    if progress.get("stage") != current.stage or "done" not in progress:
        return row
    shown = JobStage(
        current.stage,
        current.state,
        _count(progress["done"]),
        _count(progress.get("total")) or current.total,
        _seconds(progress.get("rate")) or 0.0,
        _seconds(progress.get("left")),
        text_of(progress, "detail", 200),
    )
    return replace(row, stages=tuple(shown if s is current else s for s in row.stages))


def _count(value: object) -> int:
    return value if type(value) is int and 0 <= value < _MOST else 0


def _seconds(value: object) -> float | None:
    return float(value) if type(value) in (int, float) and 0 <= value < _MOST else None  # type: ignore[operator, arg-type]
