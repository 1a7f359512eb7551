"""How much memory a program may still ask for."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable
from pathlib import Path


def available_bytes() -> int | None:
    """Memory that can be had without swapping; all of the machine's where only that is known.

    None where the system tells neither.
    """
    if sys.platform == "win32":
        return _windows()
    information = Path("/proc/meminfo")
    if information.exists():
        for line in information.read_text().splitlines():
            name, _, value = line.partition(":")
            if name == "MemAvailable":
                return int(value.split()[0]) * 1024  # the file counts in kibibytes
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return None


def resident_bytes() -> int:
    """Memory that this process has resident now; 0 where the system does not tell."""
    statistics = Path("/proc/self/statm")
    if not statistics.exists():
        return 0
    return int(statistics.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def give_back() -> None:
    """Return memory that was freed to the system, where the C library otherwise keeps it."""
    gc.collect()
    if _malloc_trim is not None:
        _malloc_trim(0)


def _find_malloc_trim() -> Callable[[int], int] | None:
    if sys.platform != "linux":
        return None
    import ctypes

    return getattr(ctypes.CDLL(None), "malloc_trim", None)  # of glibc; musl has none


_malloc_trim = _find_malloc_trim()


def _windows() -> int | None:
    import ctypes

    class Status(ctypes.Structure):  # MEMORYSTATUSEX
        _fields_ = (
            ("length", ctypes.c_uint32),
            ("load", ctypes.c_uint32),
            ("total", ctypes.c_uint64),
            ("available", ctypes.c_uint64),
            ("others", ctypes.c_uint64 * 5),
        )

    status = Status(length=ctypes.sizeof(Status))
    windll = ctypes.windll  # type: ignore[attr-defined]
    done = windll.kernel32.GlobalMemoryStatusEx(ctypes.byref(status))
    return int(status.available) if done else None
