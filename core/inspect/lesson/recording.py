"""Runs tokens of the cache once more and reads what chosen ops make of one of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Protocol

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from llm_lite.core.errors import RequestError
from llm_lite.core.exec.executor import Executor
from llm_lite.core.files.mapping import MappedFiles
from llm_lite.core.finite import Values
from llm_lite.core.inspect.inspected import InspectedSession
from llm_lite.core.inspect.lesson.one_head import ReadRows
from llm_lite.core.kv_cache.contents import values_of
from llm_lite.core.messages import Gains
from llm_lite.core.plan.attention_layers import attention_layers
from llm_lite.core.plan.ops import STORES
from llm_lite.core.plan.plan import Plan
from llm_lite.core.plan.step import Step

F32 = NDArray[np.float32]


class TracedSession(Protocol):
    """A sequence whose keys and values are cached: the chat's, an encoder's, or a server's
    response."""

    @property
    def executor(self) -> Executor: ...

    @property
    def files(self) -> MappedFiles: ...

    @property
    def gains(self) -> Gains: ...

    def tokens(self) -> tuple[int, ...]: ...

    def checked(self, values: Values, what: str) -> Values: ...


class TracedRun(Struct, frozen=True):
    """A step that runs again, in which the traced token is row `row` at `position`."""

    session: TracedSession
    plan: Plan
    step: Step
    row: int
    position: int
    read: ReadRows  # of the session's caches

    def record(self, ops: Iterable[int]) -> Mapping[int, F32]:
        """Return, by index of the op, the row float32 [columns] that it makes for the token.

        A scratch tensor is read before another takes its place. The cache stays bit for bit as it
        is.
        """
        recorded: dict[int, F32] = {}
        done, plan, executor = 0, self.plan, self.session.executor
        with self.session.files.unchanged():
            for index in sorted(set(ops)):
                executor.run_ops(plan, self.step, done, index + 1, STORES)
                tensor = plan.tensors[plan.ops[index].outputs[0]]
                rows = executor.read(plan, tensor, self.step)
                recorded[index] = self.session.checked(
                    rows[self.row].copy(), f"what {plan.ops[index].label} makes"
                )
                done = index + 1
        return recorded

    def states(self) -> F32:
        """Return what the last layer made of all tokens of the step, float32 [tokens, width]; after
        `record`."""
        end = self.plan.ops[self.plan.layer_ends[-1]].outputs[0]
        return self.session.executor.read(self.plan, self.plan.tensors[end], self.step).copy()


def run_of(session: InspectedSession, position: int) -> TracedRun:
    """Return the run of one token of a decoder. RequestError if it is not in the cache, or if a
    ring has lost keys that it saw."""
    tokens = session.tokens()
    check_position(position, tokens)
    plan = session.executor.program.plans[0]
    oldest = {layer.keys.name: session.cache.oldest(layer) for layer in session.cache.layers}
    for layer in attention_layers(plan):
        seen = max(0, position - layer.window + 1) if layer.window else 0
        if oldest.get(layer.keys, 0) > seen:
            raise RequestError(
                f"the cache no longer holds what token {position} saw: choose a later token"
            )
    step, read = session.step([tokens[position]], position), partial(values_of, session.executor)
    plan = session.executor.program.plan_of(step)
    return TracedRun(session, plan, step, 0, position, read)


def run_of_text(session: TracedSession, position: int) -> TracedRun:
    """Return the run of the whole text of an encoder. RequestError if the token is not in it."""
    tokens = session.tokens()
    check_position(position, tokens)
    plan = session.executor.program.plan_for(len(tokens), 0)
    step, read = Step(np.asarray(tokens, np.int32), 0, 0), partial(values_of, session.executor)
    return TracedRun(session, plan, step, position, position, read)


def check_position(position: int, tokens: tuple[int, ...]) -> None:
    """Raise RequestError where the position is not in the cache."""
    if not 0 <= position < len(tokens):
        raise RequestError(f"position {position} is not in the cache, which holds {len(tokens)}")
