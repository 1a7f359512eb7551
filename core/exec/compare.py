"""Runs two executors in lockstep and compares their outputs after each op."""

from __future__ import annotations

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from llm_lite.core.exec.executor import Executor
from llm_lite.core.plan.plan import Kind, Op, Plan, Tensor
from llm_lite.core.plan.step import Step
from llm_lite.core.quant.rows import SCALED


class Difference(Struct, frozen=True):
    """The first op that left its tolerance. `error` is relative to the larger of 1 and max|a|."""

    op: str
    label: str
    tensor: str
    error: float
    tolerance: float
    row: int  # where the difference is largest
    column: int

    def __str__(self) -> str:
        return (
            f"{self.label} ({self.op}): {self.tensor}[{self.row},{self.column}] differs by "
            f"{self.error:.3g}, allowed {self.tolerance:.3g}"
        )


# Relative to the scale of the values; matmul and attention add up many terms in another order. What
# is rounded may fall to either side: a step of int8, a bit of float16.
TOLERANCE = {
    "matmul": 1e-4,
    "expert_matmul": 1e-4,
    "attention": 1e-4,
    "delta_rule": 1e-4,
    "quantize": 1e-2,
    "store": 1e-3,
    "i8": 1e-2,  # into a cache of that type
    "i4": 1e-1,  # of a head of 8 values, which is rotated; less of others
}
DEFAULT_TOLERANCE = 1e-5


def compare(a: Executor, b: Executor, step: Step) -> Difference | None:
    """Run one step on both, op by op; return the first difference, or None.

    After each op b is given a's result, so that an error shows at the op that makes it and nowhere
    else. Both must hold the same program and the same state before the step.
    """
    plan = a.program.plan_for(step.count, step.outputs)
    for index, op in enumerate(plan.ops):
        a.run_ops(plan, step, index, index + 1)
        b.run_ops(plan, step, index, index + 1)
        difference = _compare_op(a, b, plan, op, step)
        if difference is not None:
            return difference
    return None


def _compare_op(a: Executor, b: Executor, plan: Plan, op: Op, step: Step) -> Difference | None:
    for tensor_id in op.outputs:
        tensor = plan.tensors[tensor_id]
        values, found = a.read(plan, tensor, step), b.read(plan, tensor, step)
        difference = _difference(op, tensor, _used(op, tensor, values, step), found)
        if difference is not None:
            return difference
        if tensor.dtype != "a8" and not np.array_equal(values, found):
            b.write(plan, tensor, step, values)
    return None


def _used(op: Op, tensor: Tensor, values: NDArray[np.float32], step: Step) -> NDArray[np.float32]:
    # A recurrent state is compared whole, and in pages positions lie anywhere.
    in_order = op.name == "store" and tensor.kind is Kind.STATE and not step.segments
    return values[: step.kv_length] if in_order else values


def _difference(
    op: Op, tensor: Tensor, a: NDArray[np.float32], b: NDArray[np.float32]
) -> Difference | None:
    kind = tensor.dtype if tensor.dtype in SCALED else op.name
    tolerance = TOLERANCE.get(kind, DEFAULT_TOLERANCE)
    scale = max(1.0, float(np.abs(a).max(initial=0.0)))
    error = np.nan_to_num(np.abs(a - b[: len(a)]) / scale, nan=np.inf)
    where = np.unravel_index(int(error.argmax()), error.shape)
    if error[where] <= tolerance:
        return None
    row, column = int(where[0]), int(where[1])
    return Difference(op.name, op.label, tensor.name, float(error[where]), tolerance, row, column)
