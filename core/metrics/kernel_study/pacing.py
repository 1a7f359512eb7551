"""A product in pieces of a few milliseconds: frames go on, and a person can stop it between two."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

from msgspec import Struct

LEAST_PASSES, MOST_PASSES = 3, 9  # whose median counts
MOST_S = 0.1  # of a piece that is made twice as large
ENOUGH_S = 1.0  # of passes, where there are enough of them

RunRows = Callable[[int, int], float]  # first, how many -> seconds
Check = Callable[[], None]  # may raise CancelledError


class Times(Struct, frozen=True):
    """The seconds of a whole product."""

    median: float
    fastest: float
    slowest: float

    @classmethod
    def of(cls, seconds: list[float]) -> Times:
        return cls(statistics.median(seconds), min(seconds), max(seconds))


class Paced:
    """Times `rows` rows of a product by `run`, as many at a time as take `target` seconds, from
    `least` on. The first pieces, which find out how many these are, also warm the device up."""

    def __init__(self, run: RunRows, rows: int, least: int, target: float) -> None:
        self._run, self._rows = run, rows
        self.piece = min(least, rows)
        while self._is_short(target) and self.piece < rows:
            self.piece = min(2 * self.piece, rows)

    def _is_short(self, target: float) -> bool:
        """Return True if a piece is short, by the clock of `run`, and of the host: whatever a
        driver's says, no submit is long."""
        began = time.perf_counter()
        taken = self._run(0, self.piece)
        return taken < target / 2 and time.perf_counter() - began < MOST_S

    def whole(self, check: Check) -> float:
        """Return the seconds of all rows."""
        seconds = 0.0
        for first in range(0, self._rows, self.piece):
            check()
            seconds += self._run(first, min(self.piece, self._rows - first))
        return seconds

    def times(self, check: Check) -> Times:
        """Return the times of as many passes as give a median."""
        seconds: list[float] = []
        while len(seconds) < LEAST_PASSES or (
            len(seconds) < MOST_PASSES and sum(seconds) < ENOUGH_S
        ):
            seconds.append(self.whole(check))
        return Times.of(seconds)
