"""Defects on purpose for test_kernels.py: a weight with half the bytes that the plan says it has,
one whose floats begin at an odd address. Not collected with the tests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from llm_lite.core.exec.cpu import executor
from llm_lite.core.plan.step import Step
from llm_lite.core.processor import isa_name
from llm_lite.core.records import replace
from tests.core.exec.one_op import VOCABULARY, OneOp


def half(data: NDArray[np.uint8]) -> NDArray[np.uint8]:
    return data[: data.size // 2].copy()


def odd(data: NDArray[np.uint8]) -> NDArray[np.uint8]:
    memory = np.empty(data.size + 1, np.uint8)
    memory[1:] = data
    return memory[1:]


@pytest.mark.parametrize(("change", "dtype"), [(half, "int4"), (odd, "f32")], ids=["half", "odd"])
def test_planted(
    monkeypatch: pytest.MonkeyPatch,
    change: Callable[[NDArray[np.uint8]], NDArray[np.uint8]],
    dtype: str,
) -> None:
    prepared = executor._prepared

    def changed(*arguments: Any) -> Any:
        return {n: replace(w, data=change(w.data)) for n, w in prepared(*arguments).items()}

    case = OneOp()
    case.random("x", VOCABULARY, 64, dtype=dtype)
    monkeypatch.setattr(executor, "_prepared", changed)
    cpu = executor.CpuExecutor(case.program(), case.weights, isa=isa_name())
    cpu.run(Step(np.arange(17, dtype=np.int32) + VOCABULARY - 17, 0))
