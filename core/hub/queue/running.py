"""The stage that runs: its process, which ends with the program, and how far it is.

The process gets its task as a line of JSON on standard input and says how it goes in lines of JSON
on standard output. The end of its standard input tells it to stop: the system closes that when the
program is killed.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import IO, Any, cast

from llm_lite.core.errors import RequestError
from llm_lite.core.hub.queue.jobs import QueuedJob
from llm_lite.core.messages.library import JobStage, ModelJob, Stage
from llm_lite.core.plain_text import one_line
from llm_lite.core.records import replace

WORKER = "llm_lite.core.convert.stages.worker"
_MAIN = """
import importlib, sys
worker, sys.path[:] = sys.argv[1], sys.argv[2:]
importlib.import_module(worker).main()
"""
_PATIENCE = 5.0  # seconds, in which a stage that is to stop takes away what is half made
_PATIENCE_OF_END = 2.0  # the same where the program ends: the next run takes it away otherwise
_LONGEST_LINE = 1 << 16  # bytes
OnMessage = Callable[[Mapping[str, Any] | None], None]
_WINDOW = 8.0  # seconds that the rate is of, or
_STEPS = 5  # so many steps, where they take longer
_TELLING = 1.0  # seconds, before which it is a mere guess
_MOST = 1 << 62


class StageProcess:
    """The process of a stage: `on_message` is called with each message, and None when the process
    has ended, from another thread.

    RequestError where no process can be started.
    """

    def __init__(
        self, task: Mapping[str, Any], on_message: OnMessage, worker: str = WORKER
    ) -> None:
        try:
            self._child = subprocess.Popen(
                [sys.executable, "-X", "utf8", "-c", _MAIN, worker, *filter(None, sys.path)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,  # Ctrl-C in the terminal is for the program
            )
        except (OSError, ValueError) as error:
            raise RequestError(f"no process can be started for it: {error}") from None
        self._on_message = on_message
        self._stop_at: float | None = None
        self._reader = threading.Thread(target=self._read, name="model queue reader", daemon=True)
        self._reader.start()
        stdin = cast(IO[bytes], self._child.stdin)
        with contextlib.suppress(OSError):  # it has ended, which `on_message` reports
            stdin.write(json.dumps(task).encode() + b"\n")
            stdin.flush()

    @property
    def pid(self) -> int:
        return self._child.pid

    @property
    def is_stopping(self) -> bool:
        return self._stop_at is not None

    def stop(self) -> None:
        """Ask it to end; call it again and again until it has: it is killed in the end."""
        if self._stop_at is None:
            self._stop_at = time.monotonic() + _PATIENCE
            with contextlib.suppress(OSError):
                cast(IO[bytes], self._child.stdin).close()
        elif time.monotonic() > self._stop_at:
            self._child.kill()

    def close(self) -> None:
        """Stop it and wait for that, not long: the program ends."""
        self.stop()
        try:
            self._child.wait(_PATIENCE_OF_END)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()
        self._reader.join()

    @property
    def ending(self) -> str:
        """Return a sentence on how the process ended, for one that sent no message of it."""
        code = self._child.wait()
        if code < 0:
            return (
                f"its process was killed by signal {-code}, as the system does where memory is "
                "short; Retry goes on from there"
            )
        return f"its process ended with code {code} and gave no reason"

    def _read(self) -> None:
        out = cast(IO[bytes], self._child.stdout)
        with out:
            while line := out.readline(_LONGEST_LINE):
                with contextlib.suppress(ValueError, TypeError):
                    self._on_message({**json.loads(line)})
        self._child.wait()
        self._on_message(None)


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


def text_of(message: Mapping[str, Any], key: str, longest: int = 2000) -> str:
    """Return a text of a message, fit for a row."""
    return one_line(str(message.get(key, "")))[:longest]
