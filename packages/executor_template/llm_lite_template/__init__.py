"""A template of an executor from outside: products with float16 weights, and the gate of SwiGLU.

Change `takes` to what your hardware can do, `lay_out` to how it wants its weights, and `run_op` to
calls of its driver. `llm-lite conformance template` checks it; docs/executors.md tells the rest.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from llm_lite.core.exec.accelerator import HostRunner, Value
from llm_lite.core.plan.plan import Op, Plan, Program, Tensor
from llm_lite.core.plan.step import Step
from llm_lite.core.quant.tensor import TensorData


class Template:
    """An `Accelerator` of llm-lite."""

    name = "template"
    device = "a template in NumPy"
    activations: Literal["a32", "a8"] = "a32"

    def takes(self, op: Op, plan: Plan) -> bool:
        if op.name == "silu_mul":
            return True
        if op.name != "matmul":
            return False
        x, weight = (plan.tensors[i] for i in op.inputs)
        return x.dtype == "f32" and weight.dtype == "f16"

    def weight_bytes(self, weight: Tensor) -> int:
        rows, columns = weight.shape
        return 2 * rows * columns

    def runner(self, program: Program, weights: Mapping[str, TensorData]) -> Runner:
        return Runner(weights)


def lay_out(weight: TensorData) -> NDArray[np.float16]:
    """Return a weight [N, K] as this executor reads it, float16 [K, N]."""
    return np.ascontiguousarray(weight.data.view(np.float16).reshape(weight.shape).T)


class Runner(HostRunner):
    """Runs the ops; values between them lie in the host's memory."""

    def __init__(self, weights: Mapping[str, TensorData]) -> None:
        super().__init__()
        self._weights = {name: lay_out(weight) for name, weight in weights.items()}

    @property
    def weight_bytes(self) -> int:
        return sum(weight.nbytes for weight in self._weights.values())

    def close(self) -> None:
        super().close()
        self._weights.clear()

    def run_op(self, plan: Plan, op: Op, step: Step, inputs: list[Value]) -> list[Value]:
        if op.name == "silu_mul":
            gate, up = inputs
            assert isinstance(gate, np.ndarray) and isinstance(up, np.ndarray)
            with np.errstate(over="ignore"):
                return [gate / (1 + np.exp(-gate)) * up]
        (x,) = inputs
        assert isinstance(x, np.ndarray)
        weight = self._weights[plan.tensors[op.inputs[1]].name]
        outputs = plan.tensors[op.outputs[0]].shape[1]  # it may use the first rows and columns
        return [x @ weight[: x.shape[1], :outputs].astype(np.float32)]


ACCELERATOR = Template()
