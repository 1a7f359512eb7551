"""The memory that this process has resident."""

import psutil


def resident_bytes() -> int:
    return int(psutil.Process().memory_info().rss)
