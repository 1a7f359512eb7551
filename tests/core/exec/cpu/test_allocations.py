"""Decoding allocates nothing: not in the kernels, and in Python nothing that stays."""

from __future__ import annotations

import gc
import os
import shutil
import subprocess
import sys
import tracemalloc
from pathlib import Path

import pytest

from tests.make_gguf import write_tiny_llama
from tests.runners import exact, running

COUNTER = Path(__file__).with_name("count_allocations.c")
STEPS = 40
LOGITS_BYTES = 4 * 300  # of the tiny model's vocabulary


def count(folder: Path) -> tuple[int, int]:
    """malloc's calls in a step of the whole plan and in its first op; the library is preloaded."""
    import ctypes

    allocations = ctypes.CDLL(None).allocations
    allocations.restype = ctypes.c_ulong
    path = write_tiny_llama(folder / "tiny.gguf")
    with running(path, exact("cpu", mode="int4", activations="a8", threads=1)) as runner:
        executor, plan = runner.executor, runner.executor.program.plan_for(1, 1)
        found = []
        for last in (len(plan.ops), 1):
            calls = []
            for position in range(8):
                step = runner.session.step([5], position)
                before = allocations()
                executor.run_ops(plan, step, 0, last)
                calls.append(allocations() - before)
            found.append(min(calls))
    return found[0], found[1]


@pytest.mark.skipif(sys.platform != "linux", reason="preloading a library is Linux's")
def test_a_decode_step_allocates_nothing_in_the_kernels(tmp_path: Path) -> None:
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("there is no C compiler for the counter")
    library = tmp_path / "count.so"
    build = [compiler, "-shared", "-fPIC", "-O1", str(COUNTER), "-o", str(library)]
    if subprocess.run(build, capture_output=True).returncode:
        pytest.skip("the counter cannot be built with this C library")
    program = f"from {__name__} import *; print(*count(Path({str(tmp_path)!r})))"
    environment = {
        **os.environ,
        "LD_PRELOAD": str(library),
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    )
    whole, first_op = map(int, done.stdout.split())
    assert whole == first_op  # what the call from Python allocates


def test_decoding_keeps_nothing_and_hands_over_no_plan(tmp_path: Path) -> None:
    path = write_tiny_llama(tmp_path / "tiny.gguf")
    with running(path, exact("cpu", mode="int4", activations="a8", threads=1)) as runner:
        session, executor = runner.session, runner.executor
        calls: list[str] = []
        executor._interpreter = Watched(executor._interpreter, calls)  # type: ignore[attr-defined]
        session.prefill([1, 2, 3])
        session.decode(4)
        calls.clear()
        tracemalloc.start()
        session.decode(5)
        gc.collect()  # empties Python's lists of free tuples too
        before = tracemalloc.get_traced_memory()[0]
        for token in range(STEPS):
            session.decode(token)
        gc.collect()
        grown = tracemalloc.get_traced_memory()[0] - before
        tracemalloc.stop()
    assert set(calls) == {"run"} and len(calls) == STEPS + 1
    assert grown < STEPS * LOGITS_BYTES // 4  # nothing of a step's size stays


class Watched:
    """An interpreter that notes which of its methods are called."""

    def __init__(self, interpreter: object, calls: list[str]) -> None:
        self._interpreter, self._calls = interpreter, calls

    def __getattr__(self, name: str) -> object:
        self._calls.append(name)
        return getattr(self._interpreter, name)
