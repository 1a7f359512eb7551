"""A stage's reports of its progress, and its check for a request to stop."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Mapping
from typing import Any, BinaryIO

from llm_lite.core.errors import CancelledError

_EVERY = 0.1  # seconds between two progresses
_WHOLE = 1000  # what a fraction is counted in
_STOPPING = 3.0  # seconds in which a stage takes away what is half made
_NO_PROGRAM = 3  # the exit code of a process that did not stop by itself


class StageReport:
    """The report of a stage. `stop` says whether the stage is to end; every progress raises
    CancelledError then."""

    def __init__(self, tasks: BinaryIO, messages: BinaryIO) -> None:
        self._messages, self._reported_at = messages, 0.0
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        threading.Thread(target=self._watch, args=(tasks,), name="program", daemon=True).start()

    def stop(self) -> bool:
        return self._stopped.is_set()

    def check(self) -> None:
        """Raise CancelledError once the stage is to stop."""
        if self._stopped.is_set():
            raise CancelledError("stopped")

    def count(self, done: int, total: int, detail: str = "", *, no_rate: bool = False) -> None:
        """Report the bytes done. no_rate: none of them were transferred just now, as when a partial
        file is resumed."""
        self.check()
        now = time.monotonic()
        if now - self._reported_at >= _EVERY or done == total:
            self._reported_at = now
            self.send({"done": done, "total": total, "detail": detail, "no_rate": no_rate})

    def part(self, low: float, high: float) -> Progress:
        """Return the reporter of a part of the stage, whose whole goes from 0 to 1."""
        return Progress(self, low, high)

    def send(self, message: Mapping[str, Any]) -> None:
        try:
            with self._lock:
                self._messages.write(json.dumps(message).encode() + b"\n")
                self._messages.flush()
        except OSError:  # the program is gone
            self._stopped.set()

    def _watch(self, tasks: BinaryIO) -> None:
        """Wait until the program closes the pipe, or has ended, and stop the stage."""
        while tasks.read(1):
            pass
        self._stopped.set()
        time.sleep(_STOPPING)
        os._exit(_NO_PROGRAM)


class Progress:
    """A reporter as quantizing and calibrating call it: with what is being done, and the part done
    from 0 to 1."""

    def __init__(self, report: StageReport, low: float, high: float) -> None:
        self._report, self._low, self._high = report, low, high

    def __call__(self, detail: str, fraction: float) -> None:
        whole = self._low + (self._high - self._low) * min(1.0, max(0.0, fraction))
        self._report.count(int(_WHOLE * whole), _WHOLE, detail)
