"""The times of the last frames, and their percentiles."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable

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
        """Return `ms` as float64 [at most CAPACITY]."""
        return np.array(self.ms)

    def percentiles(self) -> dict[str, float]:
        return percentiles(self.ms)


def percentiles(milliseconds: Collection[float]) -> dict[str, float]:
    """p50, p95, p99 and the number of values; zeros where there is none."""
    if not milliseconds:
        return {"p50": 0.0, "p95": 0.0, "p99": 0.0, "frames": 0}
    p50, p95, p99 = quantiles(np.array(list(milliseconds)), (0.5, 0.95, 0.99))
    return {
        "p50": round(p50, 3),
        "p95": round(p95, 3),
        "p99": round(p99, 3),
        "frames": len(milliseconds),
    }


def quantiles(values: npt.NDArray[np.float64], shares: Iterable[float]) -> list[float]:
    """Return below what these shares of the `values` lie, one value at least. Between two values it
    is linear, as numpy.quantile, which takes ten times as long for as many as a plot has."""
    ordered = np.sort(values)
    found, last = list[float](), len(ordered) - 1
    for share in shares:
        at = min(int(share * last), last - 1) if last else 0
        low, high = float(ordered[at]), float(ordered[min(at + 1, last)])
        found.append(low + (high - low) * (share * last - at))
    return found
