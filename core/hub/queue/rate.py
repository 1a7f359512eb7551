"""How fast a stage goes, and how long it still takes."""

from __future__ import annotations

import time
from collections import deque

_WINDOW = 8.0  # seconds that the rate is of
_TELLING = 1.0  # seconds, before which it is a mere guess


class Rate:
    def __init__(self) -> None:
        self._points: deque[tuple[float, int]] = deque()  # time, done

    def add(self, done: int, now: float | None = None) -> None:
        now = time.monotonic() if now is None else now
        if self._points and done < self._points[-1][1]:  # what comes next begins
            self._points.clear()
        self._points.append((now, done))
        while len(self._points) > 2 and now - self._points[1][0] > _WINDOW:
            self._points.popleft()

    @property
    def value(self) -> float:
        """A second; 0 where it is not known yet."""
        if len(self._points) < 2:
            return 0.0
        (begin, first), (end, last) = self._points[0], self._points[-1]
        return (last - first) / (end - begin) if end - begin >= _TELLING else 0.0

    def left(self, done: int, total: int) -> float | None:
        """Seconds; None where nobody can tell."""
        rate = self.value
        return max(0, total - done) / rate if rate > 0 and total > 0 else None
