"""The start of this process on the clock of `time.monotonic`."""

from __future__ import annotations

import time

_IMPORTED = time.monotonic()


def process_start() -> float:
    """Return the process's start in seconds on the monotonic clock; this module's import where the
    system does not report it."""
    import psutil

    try:
        age = _age(psutil.Process().create_time(), psutil.boot_time())
    except (OSError, RuntimeError, psutil.Error):
        return _IMPORTED
    return min(time.monotonic() - max(age, 0.0), _IMPORTED)


def _age(created: float, booted: float) -> float:
    """Return the seconds since a process was created; both times are on the clock of
    `time.time`."""
    if hasattr(time, "CLOCK_BOOTTIME"):
        # Linux counts from its boot, and psutil adds when that was, in whole seconds only.
        return time.clock_gettime(time.CLOCK_BOOTTIME) - (created - booted)
    return time.time() - created
