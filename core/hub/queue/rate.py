"""How fast a stage goes, and how long it still takes."""

from __future__ import annotations

import time
from collections import deque

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
        """Whether nothing has come for as long as the rate is of."""
        now = time.monotonic() if now is None else now
        return bool(self._points) and now - self._points[-1][0] > _WINDOW

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
