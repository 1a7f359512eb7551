"""The forms in C++, each a function of kernels_cpp/study/."""

from __future__ import annotations

import time

import numpy as np
from llm_lite_kernels import _cpp
from numpy.typing import NDArray

from llm_lite.core.exec.cpu.executor import CpuExecutor
from llm_lite.core.messages import StudyBackend
from llm_lite.core.metrics.kernel_study import own
from llm_lite.core.metrics.kernel_study.forms import CPU, CPU_OWN, Form
from llm_lite.core.metrics.kernel_study.pacing import Check, Paced
from llm_lite.core.processor import (
    available_isas,
    default_threads,
    multiply_adds_gflop_s,
    processor_name,
    read_gb_s,
)

F32 = NDArray[np.float32]
TASK_ROWS = 32  # of a thread at a time, as study.cpp says it
TARGET_S = 0.02  # of a call, between two checks for a request to stop


class CpuProducts:
    """a [M,K] . b [N,K]^T in every form, on `threads` threads (0: one a core)."""

    backend: StudyBackend = "cpu"
    software = False
    forms = (*CPU, CPU_OWN)

    def __init__(self, a: F32, b: F32, threads: int = 0, isa: str | None = None) -> None:
        self._a, self._b, self._transposed = a, b, np.ascontiguousarray(b.T)
        self._c = np.full((a.shape[0], b.shape[0]), np.nan, np.float32)
        self._executor: CpuExecutor | None = None
        self._threads, self._isa = threads or default_threads(), isa or _of_vectors()
        self._study = _cpp.KernelStudy(self._isa, self._threads)

    @property
    def device(self) -> str:
        if self._threads == 1:
            return f"{processor_name()}, {self._isa}, 1 thread"
        return f"{processor_name()}, {self._isa}, {self._threads} threads"

    def peaks(self, check: Check) -> tuple[float, float]:
        """Return GFLOP/s of arithmetic and GB/s of memory."""
        check()
        return multiply_adds_gflop_s(self._threads, self._isa), read_gb_s(self._threads)

    def paced(self, form: Form) -> Paced:
        if form.stem == "own":
            return self._own()
        b = self._b if form.plain else self._transposed

        def run(first: int, count: int) -> float:
            return self._study.run(form.stem, self._a, b, self._c, first, first + count)

        return Paced(run, len(self._a), TASK_ROWS * self._threads, TARGET_S)

    def _own(self) -> Paced:
        """Pace the executor's own product, all rows at once: it checks for a stop every 20 ms."""
        weights, rows = own.tensors(self._a, self._b), len(self._a)
        program, step = own.program(weights), own.step_of(rows)
        executor = CpuExecutor(program, weights, self._threads, isa=self._isa)
        self._executor = executor
        (plan,) = program.plans
        at = own.product_op(plan)
        executor.run_ops(plan, step, 0, at)

        def run(first: int, count: int) -> float:
            began = time.perf_counter()
            executor.run_ops(plan, step, at, at + 1)
            return time.perf_counter() - began

        return Paced(run, rows, rows, TARGET_S)

    def result(self, form: Form) -> F32:
        """Return what a form of `paced` has written: float32 [M, N]."""
        if form.stem == "own":
            assert self._executor is not None
            return own.result(self._executor, len(self._a))
        return self._c

    def close(self) -> None:
        if self._executor is not None:
            self._executor.close()


def _of_vectors() -> str:
    """Return the highest build that multiplies floats in vectors, whose arithmetic is the roof."""
    return [name for name in available_isas() if not name.startswith("amxbf16")][-1]
