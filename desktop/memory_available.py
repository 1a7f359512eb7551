"""How much memory the machine could still give, without swapping."""

from __future__ import annotations

import os
import sys
from pathlib import Path

MEMINFO = Path("/proc/meminfo")  # Linux: "MemAvailable:   12345 kB"


def memory_available() -> int:
    """Bytes; 0 where the system does not say."""
    if sys.platform == "win32":
        return _windows()
    if MEMINFO.is_file():
        for line in MEMINFO.read_text("ascii").splitlines():
            name, _, value = line.partition(":")
            if name == "MemAvailable":
                return int(value.split()[0]) * 1024
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError):
        return 0


def _windows() -> int:
    """MEMORYSTATUSEX: two 32-bit numbers, then seven 64-bit ones, the second what is available."""
    import ctypes

    status = (ctypes.c_uint64 * 8)()
    ctypes.cast(status, ctypes.POINTER(ctypes.c_uint32))[0] = ctypes.sizeof(status)
    kernel = ctypes.CDLL("kernel32")
    return int(status[2]) if kernel.GlobalMemoryStatusEx(ctypes.byref(status)) else 0
