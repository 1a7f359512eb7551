"""A plan in parts: ops that another executor runs beside the one that runs all others, and what
crosses between them.

Each executor has the weights and states of its own ops, and all of the scratch. Where a part begins
it is given what it reads of the other's making.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from llm_lite.core.exec.executor import Executor, StopCheck
from llm_lite.core.plan.expert_layers import expert_ranges
from llm_lite.core.plan.plan import Kind, Op, Plan, Program, Tensor, tensor_row_bytes
from llm_lite.core.plan.step import Step

Bytes = NDArray[np.uint8]


class PlanPart(Struct, frozen=True):
    """Ops first..last-1 of a plan, which one executor runs. `apart`: the one beside; `takes`: the
    scratch that it reads and the other one has made."""

    first: int
    last: int
    apart: bool
    takes: tuple[Tensor, ...] = ()

    def ops(self, plan: Plan) -> tuple[Op, ...]:
        return plan.ops[self.first : self.last]


Cut = Callable[[Plan], tuple[PlanPart, ...]]  # a plan -> its parts in order, all ops among them


class PartRunner(Executor, Protocol):
    """An executor that runs parts of plans beside another one."""

    def run_part(
        self,
        plan: Plan,
        step: Step,
        index: int,
        given: Sequence[Bytes],
        should_stop: StopCheck | None = None,
    ) -> list[Bytes]:
        """Run the part of this index. `given` is what it takes, uint8 [rows in use, bytes of a row]
        each; returns what the next part takes, to be used before anything else runs."""
        ...

    def give(self, tensor: Tensor, step: Step, data: Bytes) -> None:
        """Set the rows in use of a scratch tensor of a plan, as bytes."""
        ...

    def take(self, tensor: Tensor, step: Step) -> Bytes:
        """Return the rows in use of a scratch tensor of a plan, as bytes."""
        ...


def whole_plan(plan: Plan) -> tuple[PlanPart, ...]:
    return (PlanPart(0, len(plan.ops), apart=False),)


def experts_apart(plan: Plan) -> tuple[PlanPart, ...]:
    """Cut out what the experts of each layer compute: little crosses, and of their weights a token
    reads a small part."""
    return cut_out(plan, expert_ranges(plan))


def cut_out(plan: Plan, ranges: Iterable[range]) -> tuple[PlanPart, ...]:
    """Return the parts of a plan; the ops in `ranges`, which are in order, are apart."""
    bounds, at = list[tuple[int, int, bool]](), 0
    for one in ranges:
        if at < one.start:
            bounds.append((at, one.start, False))
        bounds.append((one.start, one.stop, True))
        at = one.stop
    if at < len(plan.ops):
        bounds.append((at, len(plan.ops), False))
    return tuple(_with_takes(plan, bounds))


def _with_takes(plan: Plan, bounds: Sequence[tuple[int, int, bool]]) -> Iterable[PlanPart]:
    holders: dict[int, set[bool]] = {}  # by scratch tensor: who has its values
    for first, last, apart in bounds:
        takes = list[Tensor]()
        for op in plan.ops[first:last]:
            for number in op.given:
                if apart not in holders.get(number, {apart}):
                    takes.append(plan.tensors[number])
                    holders[number].add(apart)
            for number in op.outputs:
                if plan.tensors[number].kind is Kind.SCRATCH:
                    holders[number] = {apart}
        yield PlanPart(first, last, apart, tuple(takes))


def held(program: Program, cut: Cut, *, apart: bool) -> list[Tensor]:
    """Return the tensors of all plans that one of the two executors has: scratch, and the weights
    and states of its own ops."""
    found = []
    for plan in program.plans:
        parts = (part for part in cut(plan) if part.apart == apart)
        own = {n for part in parts for op in part.ops(plan) for n in (*op.given, *op.outputs)}
        found += [t for t in plan.tensors if t.kind is Kind.SCRATCH or t.id in own]
    return found


def crossing_bytes(parts: Iterable[PlanPart]) -> int:
    """Return the bytes that parts take in the largest step."""
    taken = (tensor for part in parts for tensor in part.takes)
    return sum(tensor.shape[0] * tensor_row_bytes(tensor) for tensor in taken)


def most_crossing(program: Program, cut: Cut) -> int:
    """Return the bytes of what a part takes and the next one does, the most of all plans."""
    cuts = [cut(plan) for plan in program.plans]
    return max(crossing_bytes(parts[i : i + 2]) for parts in cuts for i in range(len(parts)))
