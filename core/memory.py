"""How much memory a program may still ask for, and how much of it a context takes."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from llm_lite.core.messages import CacheLayout

MARGIN = 16  # a share of what is available that is left alone


@dataclass(frozen=True, slots=True)
class CacheMemory:
    """What the cache of a context takes; `largest` is the context that would just fit, in tokens,
    None where the system does not tell what it has."""

    context: int  # tokens
    needed: int  # bytes
    available: int | None  # bytes
    largest: int | None

    @property
    def fits(self) -> bool:
        return self.largest is None or self.context <= self.largest


def cache_memory(
    layout: CacheLayout, built: int, context: int, available: int | None
) -> CacheMemory:
    """Of `context` tokens, by the layout of a cache that was built for `built` tokens.

    Layers that keep fewer rows than that are rings: they take the same whatever the context.
    """
    sizes = [(layer.rows, layer.key_row_bytes + layer.value_row_bytes) for layer in layout.layers]
    fixed = sum(rows * size for rows, size in sizes if rows < built)
    each = sum(size for rows, size in sizes if rows >= built)
    largest = None
    if available is not None:
        spare = available - available // MARGIN - fixed
        largest = max(0, spare // each) if each else context
    return CacheMemory(context, fixed + context * each, available, largest)


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
