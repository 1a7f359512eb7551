"""Computes how much memory a program may still request, and how much of it a context takes."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct

from llm_lite.core.messages import CacheLayout

MARGIN = 16  # a share of what is available that is left alone


class CacheMemory(Struct, frozen=True):
    """The memory of a context's cache; `largest` is the context that would just fit, in tokens,
    None if the system does not report it."""

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
    """Return the memory of `context` tokens, in whole pages, by the layout of a cache that was
    built for `built` tokens.

    Layers that keep fewer rows than that are rings: they take the same whatever the context.
    """
    fixed, each = _fixed_and_each(layout, built)
    largest = None if available is None else largest_context(layout, built, spared(available))
    if largest is not None and not each:
        largest = context
    whole = -(-context // layout.page) * layout.page
    return CacheMemory(context, fixed + whole * each, available, largest)


def largest_context(layout: CacheLayout, built: int, spare: int) -> int:
    """Return the most tokens, of whole pages, whose cache takes no more than `spare` bytes; `built`
    if the context does not matter."""
    fixed, each = _fixed_and_each(layout, built)
    return max(0, (spare - fixed) // (each * layout.page)) * layout.page if each else built


def _fixed_and_each(layout: CacheLayout, built: int) -> tuple[int, int]:
    """Return the bytes of rings, and of a token in all other layers."""
    sizes = [(layer.rows, layer.key_row_bytes + layer.value_row_bytes) for layer in layout.stored]
    fixed = sum(rows * size for rows, size in sizes if rows < built)
    return fixed, sum(size for rows, size in sizes if rows >= built)


def spared(available: int) -> int:
    """Return how much of the available memory may be taken."""
    return available - available // MARGIN


def available_bytes() -> int | None:
    """Return the memory that can be had without swapping; None if the system does not report it."""
    import psutil

    try:
        return int(psutil.virtual_memory().available)
    except (OSError, psutil.Error):
        return None


def bytes_from_disks() -> int:
    """Return what this process had read from disks by now, pages of mapped files too; 0 if the
    system does not report it."""
    try:
        counts = Path("/proc/self/io").read_text("ascii")
        return int(counts.partition("read_bytes: ")[2].partition("\n")[0])
    except (OSError, ValueError):
        return 0


def trim_heap() -> None:
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
