"""The program's own kernel: a plan of one product with float32 weights, on an executor."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from llm_lite.core.exec.executor import Executor
from llm_lite.core.plan.builder import Bucket, PlanBuilder
from llm_lite.core.plan.plan import Plan, Program
from llm_lite.core.plan.step import Step
from llm_lite.core.quant.tensor import TensorData

F32 = NDArray[np.float32]
LEAST_TOKENS = 16  # of the smallest plan


def tensors(a: F32, b: F32) -> dict[str, TensorData]:
    """a [M,K] as an embedding of M tokens, which brings the rows of a step; b [N,K] as weights."""
    return {name: _tensor(name, values) for name, values in (("a", a), ("b", b))}


def program(weights: dict[str, TensorData]) -> Program:
    """Plans of M rows, M / 2 and so on."""
    rows, plans = weights["a"].shape[0], []
    counts = {rows, *(rows >> i for i in range(1, 16) if rows >> i >= LEAST_TOKENS)}
    for count in sorted(counts):
        builder = PlanBuilder(weights, Bucket(count, count), integer_activations=False)
        x = builder.embed(builder.weight("a"), "a.rows")
        plans.append(builder.finish(builder.matmul(x, builder.weight("b"), "product")))
    return Program(tuple(plans), context=rows, vocabulary=weights["b"].shape[0])


def step_of(count: int) -> Step:
    """Of the first `count` rows of a."""
    return Step(np.arange(count, dtype=np.int32), 0, count)


def product_op(plan: Plan) -> int:
    return next(i for i, op in enumerate(plan.ops) if op.name == "matmul")


def measured_seconds(executor: Executor, count: int) -> float:
    """Of the product alone, by the executor's own clock."""
    step = step_of(count)
    plan = executor.program.plan_for(count, count)
    _, taken = executor.measure(plan, step)
    return taken[product_op(plan)]


def _tensor(name: str, values: F32) -> TensorData:
    data = np.ascontiguousarray(values, "<f4").view(np.uint8)
    return TensorData(name, "f32", values.shape, data)
