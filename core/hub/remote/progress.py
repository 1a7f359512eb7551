"""The progress of a pull: bytes of a file and of all, their rate, the time left."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

from msgspec import Struct

_WINDOW = 5.0  # seconds over which the rate is taken
_INTERVAL = 0.1  # seconds between two reports


class PullProgress(Struct, frozen=True):
    """The progress of a pull. `done` counts what was there before; `rate` does not."""

    file: str
    done: int  # bytes of the file
    total: int
    all_done: int  # bytes of all files
    all_total: int
    rate: float = 0.0  # bytes/s
    left: float | None = None  # seconds; None while it is unknown
    note: str = ""  # what it waits for, a sentence without its end


OnProgress = Callable[[PullProgress], None]


class Meter:
    """Counts for one pull and reports at most ten times a second."""

    def __init__(self, total: int, on_progress: OnProgress) -> None:
        self._total, self._on_progress = total, on_progress
        self._file, self._file_total = "", 0
        self._done = self._finished = 0  # of the file, of files before it
        self._marks: deque[tuple[float, int]] = deque()  # time, bytes received
        self._received = 0
        self._reported_at = 0.0
        self._note = ""

    def begin(self, file: str, total: int) -> None:
        self._file, self._file_total, self._done, self._note = file, total, 0, ""
        self._report(always=True)

    def end(self) -> None:
        self._finished += self._file_total
        self._done = 0

    def there(self, done: int) -> None:
        """Record how many bytes of the file are on the disk."""
        self._done, self._note = done, ""
        self._report()

    def received(self, count: int) -> None:
        now = time.monotonic()
        self._done += count
        self._received += count
        self._marks.append((now, self._received))
        while len(self._marks) > 2 and self._marks[0][0] < now - _WINDOW:
            self._marks.popleft()
        self._note = ""
        self._report()

    def note(self, text: str) -> None:
        if text != self._note:
            self._note = text
            self._marks.clear()
            self._report(always=True)

    def finished(self) -> None:
        self._done = 0
        self._report(always=True)

    def _report(self, *, always: bool = False) -> None:
        now = time.monotonic()
        if not always and now - self._reported_at < _INTERVAL:
            return
        self._reported_at = now
        rate = self._rate()
        done = self._finished + self._done
        left = (self._total - done) / rate if rate > 0 else None
        self._on_progress(
            PullProgress(
                self._file,
                self._done,
                self._file_total,
                done,
                self._total,
                rate,
                left,
                self._note,
            )
        )

    def _rate(self) -> float:
        if len(self._marks) < 2:
            return 0.0
        (first, before), (last, after) = self._marks[0], self._marks[-1]
        return (after - before) / (last - first) if last > first else 0.0
