"""Runs a token of the cache once more and reads what chosen ops make of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from llm_lite.core.errors import RequestError
from llm_lite.core.inspect.inspected import InspectedSession
from llm_lite.core.plan.attention_layers import attention_layers
from llm_lite.core.plan.plan import Plan
from llm_lite.core.plan.step import Step

F32 = NDArray[np.float32]
_STORES = ("store",)  # ops left out, so that nothing kept is written again


def step_of(session: InspectedSession, position: int) -> tuple[Plan, Step]:
    """The plan and step of the token at `position`. RequestError where it is not in the cache, or
    where a ring has lost keys that it saw."""
    tokens = session.tokens()
    if not 0 <= position < len(tokens):
        raise RequestError(f"position {position} is not in the cache, which holds {len(tokens)}")
    plan = session.executor.program.plan_for(1, 1)
    oldest = {layer.keys.name: session.cache.oldest(layer) for layer in session.cache.layers}
    for layer in attention_layers(plan):
        seen = max(0, position - layer.window + 1) if layer.window else 0
        if oldest[layer.keys] > seen:
            raise RequestError(
                f"the cache no longer holds what token {position} saw: choose a later token"
            )
    return plan, Step(np.array([tokens[position]], np.int32), position)


def record(
    session: InspectedSession, plan: Plan, step: Step, wanted: Iterable[int]
) -> Mapping[int, F32]:
    """By index of the op, the row float32 [columns] that it makes; logits too, by the last op.

    A scratch tensor is read before another takes its place. The cache stays bit for bit as it is.
    """
    found: dict[int, F32] = {}
    done, executor = 0, session.executor
    with session.files.unchanged():
        for index in sorted({*wanted, len(plan.ops) - 1}):
            executor.run_ops(plan, step, done, index + 1, _STORES)
            tensor = plan.tensors[plan.ops[index].outputs[0]]
            row = executor.read(plan, tensor, step)[0]
            found[index] = session.checked(row.copy(), f"what {plan.ops[index].label} makes")
            done = index + 1
    return found
