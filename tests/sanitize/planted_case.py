"""A weight with half the bytes that the plan says it has: a defect on purpose, for test_kernels.py.
Not collected with the tests."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from llm_lite.core.exec.cpu import executor
from llm_lite.core.plan.step import Step
from llm_lite.core.processor import isa_name
from tests.core.exec.one_op import VOCABULARY, OneOp


@pytest.mark.parametrize("dtype", ["f32", "int4"])
def test_planted(monkeypatch: pytest.MonkeyPatch, dtype: str) -> None:
    prepared = executor._prepared

    def too_short(*arguments: Any) -> Any:
        found = prepared(*arguments)
        return {n: replace(w, data=w.data[: w.data.size // 2].copy()) for n, w in found.items()}

    case = OneOp()
    case.random("x", VOCABULARY, 64, dtype=dtype)
    monkeypatch.setattr(executor, "_prepared", too_short)
    cpu = executor.CpuExecutor(case.program(), case.weights, isa=isa_name())
    cpu.run(Step(np.arange(17, dtype=np.int32) + VOCABULARY - 17, 0))
