"""The moments of the inputs that a model's matrices are multiplied with while it reads a text.

A matrix W [N, K] and its inputs x [T, K]: an error E of W changes the outputs by x . E^T, whose sum
of squares is the sum over rows e of E of e^T (X^T X) e. So X^T X says what an error costs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from llm_lite.core.errors import RequestError
from llm_lite.core.exec.executor import Executor
from llm_lite.core.plan.plan import Kind, Op, Plan, Tensor
from llm_lite.core.plan.step import Step

LARGEST_FULL = 2048  # inputs of a matrix up to which all of X^T X is kept, else its diagonal
LEAST_TOKENS = 64
CHUNK_TOKENS = 512
MOST_CHUNKS = 32  # spread over the text

Room = Callable[[tuple[int, ...]], NDArray[np.float32]]  # a shape -> zeros
Rest = Callable[[NDArray[np.float32]], None]  # a moment that was just added to
Progress = Callable[[float], None]  # 0..1


class Moments(Struct, frozen=True):
    """The mean over the tokens of x^T x, for the inputs x of each matrix, by the matrix's name.

    float32 [K, K], of more than LARGEST_FULL inputs the diagonal [K] only. Matrices with one input,
    like those of queries, keys and values, have the same array. tables: read as rows too.
    """

    of_matrix: Mapping[str, NDArray[np.float32]]
    tables: frozenset[str]
    tokens: int


def collect(
    executor: Executor,
    chunks: Sequence[Sequence[int]],
    progress: Progress = lambda fraction: None,
    *,
    room: Room = lambda shape: np.zeros(shape, np.float32),
    rest: Rest = lambda moment: None,
) -> Moments:
    """Run the chunks, each from an empty cache, and collect every matrix' inputs.

    The executor's program must be built for exact activations. `rest` is called after each of them,
    so that memory can be freed. RequestError where the text is too short; whatever `progress`
    raises (to cancel) passes through.
    """
    tokens = sum(map(len, chunks))
    if tokens < LEAST_TOKENS:
        raise RequestError(
            f"the calibration text has {tokens} tokens, expected at least {LEAST_TOKENS}"
        )
    plan = executor.program.plans[-1]
    inputs = dict.fromkeys(op.inputs[0] for op in _products(plan))
    sums = {x: room(_moment_shape(plan.tensors[x])) for x in inputs}
    done = 0
    for chunk in chunks:
        for start in range(0, len(chunk), plan.max_tokens):
            part = chunk[start : start + plan.max_tokens]
            outputs = min(len(part), plan.max_outputs)
            _add_step(executor, plan, executor.program.step(part, start, outputs), sums, rest)
            done += len(part)
            progress(done / tokens)
    for total in sums.values():
        total /= np.float32(tokens)
        if not np.isfinite(total).all():
            raise RequestError("the model's values overflow float32 on the calibration text")
        rest(total)
    return _moments(plan, sums, tokens)


def chunks_of(tokens: Sequence[int], bos_id: int | None, most: int) -> list[list[int]]:
    """Cut at most MOST_CHUNKS pieces of at most `most` tokens, spread over a text's tokens.

    Each begins with the begin token where the text does.
    """
    begin = [tokens[0]] if tokens and tokens[0] == bos_id else []
    size = most - len(begin)
    starts = range(len(begin), max(len(begin) + 1, len(tokens) - size + 1), size)
    stride = max(1, -(-len(starts) // MOST_CHUNKS))
    return [[*begin, *tokens[start : start + size]] for start in starts[::stride]]


def _products(plan: Plan) -> list[Op]:
    return [op for op in plan.ops if op.name == "matmul"]


def _moment_shape(x: Tensor) -> tuple[int, ...]:
    columns = x.shape[1]
    return (columns, columns) if columns <= LARGEST_FULL else (columns,)


def _add_step(
    executor: Executor,
    plan: Plan,
    step: Step,
    sums: Mapping[int, NDArray[np.float32]],
    rest: Rest,
) -> None:
    first = 0
    seen: set[int] = set()
    for number, op in enumerate(plan.ops):
        if op.name != "matmul" or op.inputs[0] in seen:
            continue
        executor.run_ops(plan, step, first, number)
        first = number
        seen.add(op.inputs[0])
        x = executor.read(plan, plan.tensors[op.inputs[0]], step)
        total = sums[op.inputs[0]]
        with np.errstate(over="ignore", invalid="ignore"):  # reported at the end
            total += x.T @ x if total.ndim == 2 else np.square(x).sum(axis=0)
        rest(total)


def _moments(plan: Plan, sums: Mapping[int, NDArray[np.float32]], tokens: int) -> Moments:
    matrices = {plan.tensors[op.inputs[1]].name: sums[op.inputs[0]] for op in _products(plan)}
    read = {plan.tensors[op.inputs[0]].name for op in plan.ops if op.name == "embed"}
    weights = {t.name for t in plan.tensors if t.kind is Kind.WEIGHT}
    return Moments(matrices, frozenset(read & weights), tokens)
