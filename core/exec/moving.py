"""Rows of caches and query rings that move as they are: which ones, and how."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from llm_lite.core.plan.plan import Plan, Program, Tensor, tensor_row_bytes


class RowsMove(Struct, frozen=True):
    """`count` rows of a state tensor from row `first` on are copied to row `to` and on."""

    tensor: Tensor
    first: int
    to: int
    count: int

    @property
    def bytes(self) -> tuple[int, int, int]:
        """From where in the tensor, to where, and how many."""
        size = tensor_row_bytes(self.tensor)
        return self.first * size, self.to * size, self.count * size


class HostState(Protocol):
    """An executor whose state tensors the host writes."""

    @property
    def program(self) -> Program: ...

    def read_state(self, name: str, first: int, count: int) -> NDArray[np.uint8]: ...

    def write_state(self, name: str, first: int, data: NDArray[np.uint8]) -> None: ...


def written_tensors(plan: Plan) -> list[Tensor]:
    """Keys, values and queries of all layers: the state that a step writes, position p in row p
    mod the rows of a tensor."""
    return [plan.tensors[i] for op in plan.ops if op.name == "store" for i in op.outputs]


def runs(first: int, last: int, rows: int) -> Iterator[tuple[int, int]]:
    """Positions first..last-1 -> (row, count) of the runs in which they lie."""
    while first < last:
        row = first % rows
        count = min(last - first, rows - row)
        yield row, count
        first += count


def moves(plan: Plan, first: int, to: int, count: int) -> Iterator[list[RowsMove]]:
    """What copies the rows of positions first .. first + count - 1 to those of positions from `to`
    on: lists, one after the other, each of copies that do not touch each other."""
    tensors, apart = written_tensors(plan), abs(first - to)
    rows = {tensor.shape[0] for tensor in tensors}
    order = range(0, count, apart)
    for done in order if to < first else reversed(order):
        some = min(count - done, apart)
        pairs = {n: list(_pairs(first + done, to + done, some, n)) for n in rows}
        yield [RowsMove(t, *pair) for t in tensors for pair in pairs[t.shape[0]]]


def _pairs(first: int, to: int, count: int, rows: int) -> Iterator[tuple[int, int, int]]:
    """Runs of rows that wrap on neither side: (first, to, count)."""
    for row, length in runs(first, first + count, rows):
        for target, some in runs(to, to + length, rows):
            yield row, target, some
            row += some
        to += length


def move_rows(executor: HostState, first: int, to: int, count: int) -> None:
    """As `Executor.move_rows`, by the host."""
    for some in moves(executor.program.plans[0], first, to, count):
        for move in some:
            name = move.tensor.name
            executor.write_state(name, move.to, executor.read_state(name, move.first, move.count))
