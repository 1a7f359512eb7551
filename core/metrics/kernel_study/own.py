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


def tensors(a: F32, b: F32) -> dict[str, TensorData]:
    """Return a [M,K] as an embedding of M tokens, which brings the rows of a step; b [N,K] as
    weights."""
    return {name: _tensor(name, values) for name, values in (("a", a), ("b", b))}


def program(weights: dict[str, TensorData]) -> Program:
    """Return a program with a plan of one step of M tokens."""
    rows = weights["a"].shape[0]
    builder = PlanBuilder(weights, Bucket(rows, rows), integer_activations=False)
    x = builder.embed(builder.weight("a"), "a.rows")
    plan = builder.finish(builder.matmul(x, builder.weight("b"), "product"))
    tokens = max(rows, weights["b"].shape[0])
    return Program((plan,), context=rows, vocabulary=tokens)


def step_of(count: int) -> Step:
    """Return a step over the first `count` rows of a."""
    return Step(np.arange(count, dtype=np.int32), 0, count)


def product_op(plan: Plan) -> int:
    return next(i for i, op in enumerate(plan.ops) if op.name == "matmul")


def result(executor: Executor, rows: int) -> F32:
    """Return what the executor's product has written: float32 [M, N]."""
    (plan,) = executor.program.plans
    return executor.read(plan, plan.tensors[plan.logits], step_of(rows))


def _tensor(name: str, values: F32) -> TensorData:
    data = np.ascontiguousarray(values, "<f4").view(np.uint8)
    return TensorData(name, "f32", values.shape, data)
