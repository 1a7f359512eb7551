"""How long frames took: a ring of the last ones, and their percentiles."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

CAPACITY = 600


class FrameTimes:
    """The last CAPACITY frame times, in milliseconds."""

    def __init__(self) -> None:
        self._ring = np.zeros(CAPACITY, np.float32)
        self.count = 0

    def add(self, seconds: float) -> None:
        self._ring[self.count % CAPACITY] = seconds * 1e3
        self.count += 1

    def values(self) -> npt.NDArray[Any]:
        """float32 [at most CAPACITY], oldest first."""
        if self.count <= CAPACITY:
            return self._ring[: self.count].copy()
        return np.roll(self._ring, -(self.count % CAPACITY))

    def percentiles(self) -> dict[str, float]:
        return percentiles(self.values())


def percentiles(milliseconds: npt.ArrayLike) -> dict[str, float]:
    """p50, p95, p99 and the number of values; zeros where there is none."""
    values = np.asarray(milliseconds, np.float64)
    if not values.size:
        return {"p50": 0.0, "p95": 0.0, "p99": 0.0, "frames": 0}
    p50, p95, p99 = np.percentile(values, (50, 95, 99))
    return {
        "p50": round(float(p50), 3),
        "p95": round(float(p95), 3),
        "p99": round(float(p99), 3),
        "frames": int(values.size),
    }
