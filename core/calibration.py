"""What a model's matrices are multiplied with while it reads a text: the moments of their inputs.

A matrix W [N, K] and its inputs x [T, K]: an error E of W changes the outputs by x . E^T, whose sum
of squares is the sum over rows e of E of e^T (X^T X) e. So X^T X says what an error costs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from core.errors import RequestError
from core.exec.executor import Executor, StopCheck
from core.plan.plan import Kind, Op, Plan, Tensor
from core.plan.step import Step

LARGEST_FULL = 2048  # inputs of a matrix up to which all of X^T X is kept, else its diagonal
LEAST_TOKENS = 64

Progress = Callable[[float], None]  # 0..1


@dataclass(frozen=True)
class Moments:
    """Of the inputs of each matrix, by the matrix's name; the mean over the tokens.

    float32 [K, K], of more than LARGEST_FULL inputs the diagonal [K] only. Matrices with one input,
    like those of queries, keys and values, have the same array. tables: read as rows too.
    """

    of_matrix: Mapping[str, NDArray[np.float32]]
    tables: frozenset[str]
    tokens: int


def collect(
    executor: Executor,
    chunks: list[list[int]],
    progress: Progress = lambda fraction: None,
    should_stop: StopCheck | None = None,
) -> Moments:
    """Run the chunks, each from an empty cache, and look at every matrix' inputs.

    The executor's program must be built for exact activations. RequestError where the text is too
    short; whatever `progress` raises (to cancel) passes through.
    """
    tokens = sum(map(len, chunks))
    if tokens < LEAST_TOKENS:
        raise RequestError(
            f"the calibration text has {tokens} tokens, expected at least {LEAST_TOKENS}"
        )
    plan = executor.program.plans[-1]
    sums = {op.inputs[0]: _zeros(plan.tensors[op.inputs[0]]) for op in _products(plan)}
    done = 0
    for chunk in chunks:
        for start in range(0, len(chunk), plan.max_tokens):
            part = np.asarray(chunk[start : start + plan.max_tokens], np.int32)
            outputs = min(len(part), plan.max_outputs)
            _add_step(executor, plan, Step(part, start, outputs), sums)
            done += len(part)
            progress(done / tokens)
            if should_stop is not None and should_stop():
                raise RequestError("stopped")
    return _moments(plan, sums, tokens)


def _products(plan: Plan) -> list[Op]:
    return [op for op in plan.ops if op.name == "matmul"]


def _zeros(x: Tensor) -> NDArray[np.float32]:
    columns = x.shape[1]
    shape = (columns, columns) if columns <= LARGEST_FULL else (columns,)
    return np.zeros(shape, np.float32)


def _add_step(
    executor: Executor, plan: Plan, step: Step, sums: Mapping[int, NDArray[np.float32]]
) -> None:
    first, seen = 0, set()
    for number, op in enumerate(plan.ops):
        if op.name != "matmul" or op.inputs[0] in seen:
            continue
        executor.run_ops(plan, step, first, number)
        first = number
        seen.add(op.inputs[0])
        x = executor.read(plan, plan.tensors[op.inputs[0]], step)
        total = sums[op.inputs[0]]
        total += x.T @ x if total.ndim == 2 else np.square(x).sum(axis=0)


def _moments(plan: Plan, sums: Mapping[int, NDArray[np.float32]], tokens: int) -> Moments:
    for total in sums.values():
        total /= np.float32(tokens)
    matrices = {plan.tensors[op.inputs[1]].name: sums[op.inputs[0]] for op in _products(plan)}
    read = {plan.tensors[op.inputs[0]].name for op in plan.ops if op.name == "embed"}
    weights = {t.name for t in plan.tensors if t.kind is Kind.WEIGHT}
    return Moments(matrices, frozenset(read & weights), tokens)
