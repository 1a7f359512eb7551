"""The rows of caches and query rings in which positions lie, and copies of them."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from llm_lite.core.plan.plan import Plan, Program, Tensor


class HostState(Protocol):
    """An executor whose state tensors the host writes."""

    @property
    def program(self) -> Program: ...

    def read_state(self, name: str, first: int, count: int) -> NDArray[np.uint8]: ...

    def write_state(self, name: str, first: int, data: NDArray[np.uint8]) -> None: ...


def written_tensors(plan: Plan) -> list[Tensor]:
    """Return the state that a step writes, the keys, values and queries of all layers: position p
    is in row p mod the rows of a tensor."""
    return [plan.tensors[i] for op in plan.ops if op.name == "store" for i in op.outputs]


def runs(first: int, last: int, rows: int) -> Iterator[tuple[int, int]]:
    """Yield the runs (row, count) in which positions first..last-1 lie."""
    while first < last:
        row = first % rows
        count = min(last - first, rows - row)
        yield row, count
        first += count


def copy_rows(
    source: HostState, target: HostState, positions: range, left_out: Collection[str]
) -> None:
    """Copy what a step writes at these positions from one executor of a model to another, but for
    the tensors `left_out`. Both have rows for all of the positions, of the same types."""
    tensors = {tensor.name: tensor for tensor in written_tensors(target.program.plans[0])}
    for tensor in written_tensors(source.program.plans[0]):
        if tensor.name in left_out:
            continue
        parts = [
            source.read_state(tensor.name, row, count)
            for row, count in runs(positions.start, positions.stop, tensor.ring_rows)
        ]
        data, done = np.concatenate(parts), 0
        for row, count in runs(positions.start, positions.stop, tensors[tensor.name].ring_rows):
            target.write_state(tensor.name, row, data[done : done + count])
            done += count
