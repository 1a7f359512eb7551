"""Moves of rows in caches and query rings: which rows, and how."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Protocol

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from llm_lite.core.plan.plan import Plan, Program, Tensor, tensor_row_bytes


class RowsMove(Struct, frozen=True):
    """A copy of `count` rows of a state tensor from row `first` on to row `to` and on."""

    tensor: Tensor
    first: int
    to: int
    count: int

    @property
    def bytes(self) -> tuple[int, int, int]:
        """Return the offset to copy from in the tensor, the one to copy to, and the number of
        bytes."""
        size = tensor_row_bytes(self.tensor)
        return self.first * size, self.to * size, self.count * size


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


def moves(plan: Plan, first: int, to: int, count: int) -> Iterator[list[RowsMove]]:
    """Yield lists of copies that move the rows of positions first .. first + count - 1 to those of
    positions from `to` on: the lists must run in order, the copies of a list do not overlap."""
    tensors, apart = written_tensors(plan), abs(first - to)
    rows = {tensor.ring_rows for tensor in tensors}
    order = range(0, count, apart)
    for done in order if to < first else reversed(order):
        some = min(count - done, apart)
        pairs = {n: list(_pairs(first + done, to + done, some, n)) for n in rows}
        yield [RowsMove(t, *pair) for t in tensors for pair in pairs[t.ring_rows]]


def _pairs(first: int, to: int, count: int, rows: int) -> Iterator[tuple[int, int, int]]:
    """Yield runs of rows that wrap on neither side: (first, to, count)."""
    for row, length in runs(first, first + count, rows):
        for target, some in runs(to, to + length, rows):
            yield row, target, some
            row += some
        to += length


def move_rows(executor: HostState, first: int, to: int, count: int) -> None:
    """Move rows as `Executor.move_rows` does, on the host."""
    for some in moves(executor.program.plans[0], first, to, count):
        for move in some:
            name = move.tensor.name
            executor.write_state(name, move.to, executor.read_state(name, move.first, move.count))


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
