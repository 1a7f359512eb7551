"""The hidden states of a text before the head: the residual behind the output norm."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from llm_lite.core.exec.executor import Executor
from llm_lite.core.files.mapping import MappedFiles
from llm_lite.core.plan.ops import STORES
from llm_lite.core.plan.plan import Plan
from llm_lite.core.plan.step import Step


class HiddenSession(Protocol):
    """A session whose cache just took the tokens `start` .. `start + len(tokens) - 1`."""

    executor: Executor
    files: MappedFiles

    @property
    def context_used(self) -> int: ...

    def step(self, tokens: Sequence[int], start: int, outputs: int = 1) -> Step: ...


def hidden_states(
    session: HiddenSession, tokens: NDArray[np.int32], start: int
) -> Iterator[NDArray[np.float32]]:
    """float32 [n, width], part by part, of tokens that are the last in the cache.

    They run once more, over the cache as it stands, through all ops up to the head but those that
    store. Not while a step runs.
    """
    executor, at = session.executor, 0
    most = executor.program.max_outputs
    while at < len(tokens):
        part = tokens[at : at + most]
        step = session.step(part.tolist(), start + at, len(part))
        plan = executor.program.plan_of(step)
        end, tensor = _before_the_head(plan)
        with session.files.unchanged():
            executor.run_ops(plan, step, 0, end, STORES)
            yield executor.read(plan, plan.tensors[tensor], step)
        at += len(part)


def _before_the_head(plan: Plan) -> tuple[int, int]:
    """Return the index of the op that makes logits of the hidden state, and the hidden state's
    tensor."""
    index = next(i for i, op in reversed(list(enumerate(plan.ops))) if op.name == "matmul")
    return index, plan.ops[index].inputs[0]
