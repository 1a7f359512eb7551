"""When this process began, on the clock of `time.monotonic`."""

from __future__ import annotations

import os
import time
from pathlib import Path

_IMPORTED = time.monotonic()
_START_FIELD = 22 - 3  # of /proc/self/stat, counted behind the name in brackets: see proc(5)


def process_start() -> float:
    """Seconds on the monotonic clock; elsewhere than on Linux, when this module was imported."""
    try:
        stat = Path("/proc/self/stat").read_text("ascii", "replace")
        uptime = float(Path("/proc/uptime").read_text("ascii").split()[0])
        ticks = int(stat.rpartition(")")[2].split()[_START_FIELD])
        age = uptime - ticks / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError):
        return _IMPORTED
    return min(time.monotonic() - max(age, 0.0), _IMPORTED)
