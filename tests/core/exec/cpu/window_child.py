"""Attention to a cache of which only those pages of memory can be read that its queries see.

A row of the caches is a page. Positions are read from one on that is in the first lane of a vector.
"""

from __future__ import annotations

import ctypes
import mmap

import numpy as np

from llm_lite.core.exec.cpu.executor import CpuExecutor
from llm_lite.core.plan.step import Step
from tests.core.exec.cpu.test_cpu_attention_deep import CONTEXT, Attention, fill

_LANES = 16  # of the widest vectors
_NOTHING, _ALL = 0, mmap.PROT_READ | mmap.PROT_WRITE
_HEADS, _VALUES = 16, mmap.PAGESIZE // 2  # float16 in a page


def main(arguments: list[str]) -> None:
    count, window, start = map(int, arguments[:3])
    shape = (2 * _HEADS, _HEADS, _VALUES // _HEADS)
    attention = Attention(shape, rings=(window, CONTEXT))
    program = attention.program()
    cpu = CpuExecutor(program, attention.case.weights, 2)
    fill(program, attention.case.rng, cpu)
    first = max(0, start + 1 - window) if window else 0
    first -= first % _LANES
    if len(arguments) > 3:  # the first rows that are seen are hidden, too
        first += _LANES
    for name in ("k_cache", "v_cache"):
        memory = cpu.host_state(name)
        allow(memory, 0, CONTEXT, _NOTHING)
        allow(memory, first, start + count, _ALL)
    cpu.run(Step(np.zeros(count, np.int32), start))
    for name in ("k_cache", "v_cache"):
        allow(cpu.host_state(name), 0, CONTEXT, _ALL)
    print("read")


def allow(memory: np.ndarray, first: int, end: int, what: int) -> None:
    """Of rows first .. end."""
    assert memory.shape[1] == mmap.PAGESIZE and memory.ctypes.data % mmap.PAGESIZE == 0
    libc = ctypes.CDLL(None, use_errno=True)
    place = ctypes.c_void_p(memory.ctypes.data + first * mmap.PAGESIZE)
    if libc.mprotect(place, ctypes.c_size_t((end - first) * mmap.PAGESIZE), what):
        raise OSError(ctypes.get_errno(), "mprotect")
