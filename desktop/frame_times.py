"""How long frames took: the last ones, and their percentiles."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection

import numpy as np
import numpy.typing as npt

CAPACITY = 600


class FrameTimes:
    """The last CAPACITY frame times, `ms` in milliseconds, oldest first."""

    def __init__(self) -> None:
        self.ms: deque[float] = deque(maxlen=CAPACITY)

    def add(self, seconds: float) -> None:
        self.ms.append(seconds * 1e3)

    def values(self) -> npt.NDArray[np.float64]:
        """`ms` as float64 [at most CAPACITY]."""
        return np.array(self.ms)

    def percentiles(self) -> dict[str, float]:
        return percentiles(self.ms)


def percentiles(milliseconds: Collection[float]) -> dict[str, float]:
    """p50, p95, p99 and the number of values; zeros where there is none."""
    if not milliseconds:
        return {"p50": 0.0, "p95": 0.0, "p99": 0.0, "frames": 0}
    p50, p95, p99 = np.percentile(list(milliseconds), (50, 95, 99))
    return {
        "p50": round(float(p50), 3),
        "p95": round(float(p95), 3),
        "p99": round(float(p99), 3),
        "frames": len(milliseconds),
    }
