"""This processor: its name, cores, instruction sets, and how fast it reads memory."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TypeVar

from llm_lite_kernels import _cpp

from llm_lite.core.errors import RequestError

_T = TypeVar("_T")

_BANDWIDTH_BYTES = 256 * 10**6
_MOST_THREADS = 1024
_left_out: set[str] = set()  # builds
_ROUNDS = 1 << 15  # of multiply-adds, about a millisecond


def cpu_features() -> dict[str, bool]:
    """Return, for the features that some build of the kernels uses, whether this processor has
    them.

    Raises RequestError if LLM_LITE_PROCESSOR names no build that can run here.
    """
    return dict(_or_request_error(_cpp.cpu_features))


def available_isas() -> list[str]:
    """Return the builds of the kernels that can run here, slowest first; LLM_LITE_ISA leaves out
    the higher. If LLM_LITE_PROCESSOR names one, this processor has no more than what that one
    needs.

    Raises RequestError if LLM_LITE_ISA or LLM_LITE_PROCESSOR names none of them.
    """
    names = [name for name in _or_request_error(_cpp.available_isas) if name not in _left_out]
    limit = os.environ.get("LLM_LITE_ISA")
    if not limit:
        return names
    if limit in _left_out:
        return names  # it was the highest
    if limit not in names:
        raise RequestError(f"LLM_LITE_ISA is {limit!r}, expected one of {', '.join(names)}")
    return names[: names.index(limit) + 1]


def _or_request_error(answer: Callable[[], _T]) -> _T:
    try:
        return answer()
    except ValueError as error:
        raise RequestError(str(error)) from None


def emulated_isas() -> list[str]:
    """Return builds for tests, none of `available_isas`: C++ in place of instructions that a
    processor may lack."""
    names: list[str] = _cpp.emulated_isas()
    return names


def leave_out(isa: str) -> None:
    """Remove a build that failed its self-test from the `available_isas` of this process."""
    _left_out.add(isa)


def left_out_isas() -> list[str]:
    """Return the builds that failed their self-test, slowest first."""
    return [name for name in _or_request_error(_cpp.available_isas) if name in _left_out]


def has_integer_dot() -> bool:
    """Return True if int8 activations pay: with 8-bit products of vectors, not of single values."""
    return isa_name() not in ("scalar", "neon")


def default_threads() -> int:
    """Return how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def chosen_threads(asked: int) -> int:
    """Return the number of threads; 0: one a core. RequestError for more than can be used."""
    if not 0 <= asked <= _MOST_THREADS:
        raise RequestError(f"threads: expected 0 (one a core) to {_MOST_THREADS}, found {asked}")
    return asked or default_threads()


@cache
def processor_name() -> str:
    """Return the processor's name by the system: "AMD EPYC 9555". psutil does not know it."""
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text(errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def isa_name() -> str:
    """Return the build of the kernels that an executor gets by default."""
    return available_isas()[-1]


def read_gb_s(threads: int = 0) -> float:
    """Return the GB/s (10^9 bytes) of a plain read of memory, beyond the caches, by all threads."""
    return float(_cpp.read_bandwidth(_BANDWIDTH_BYTES, threads or default_threads()))


def multiply_adds_gflop_s(threads: int = 0, isa: str | None = None, repeat: int = 30) -> float:
    """Return the GFLOP/s of float32 multiply-adds that need no memory, two operations each, by all
    threads: the best of `repeat` short runs."""
    study = _cpp.KernelStudy(isa or isa_name(), threads or default_threads())
    study.multiply_adds(_ROUNDS)  # wakes the threads
    return max(2e-9 * study.multiply_adds(_ROUNDS) for _ in range(repeat))
