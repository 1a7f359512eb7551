"""The weights of attention heads that the next step of an executor uses."""

from __future__ import annotations

import numpy as np

from llm_lite.core.errors import RequestError
from llm_lite.core.exec.executor import Executor
from llm_lite.core.messages import Gains
from llm_lite.core.plan.attention_layers import HEAD_GAINS
from llm_lite.core.plan.step import Step


class HeadGains:
    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        tensors = executor.program.plans[0].tensors
        self._tensor = next(t for t in tensors if t.name == HEAD_GAINS)
        layers, heads = self._tensor.shape
        self.current: Gains = ((1.0,) * heads,) * layers

    def check(self, gains: Gains) -> None:
        """Raise RequestError unless there is a finite number for every head of the model."""
        layers, heads = self._tensor.shape
        if len(gains) != layers or any(len(row) != heads for row in gains):
            raise RequestError(f"gains: expected {layers} layers of {heads} heads each")
        if not all(abs(gain) <= 3e38 for row in gains for gain in row):  # of float32; NaN fails
            raise RequestError("gains: expected finite numbers")

    def write(self, gains: Gains) -> None:
        """Write the gains that the next step uses; `current` stays what is in force."""
        plan = self._executor.program.plans[0]
        values = np.array(gains, np.float32)
        self._executor.write(plan, self._tensor, Step(np.zeros(1, np.int32), 0), values)
