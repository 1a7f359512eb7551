"""The places of scratch tensors: offsets into one arena, shared by tensors that never live at the
same time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from llm_lite.core.plan.plan import Kind, Op, Tensor, tensor_row_bytes
from llm_lite.core.records import replace

_Span = tuple[int, int]  # bytes, from and to
ALIGNMENT = 256  # bytes; the largest minStorageBufferOffsetAlignment that Vulkan allows


class Lifetime(Struct, frozen=True):
    """A tensor of `size` bytes, in use from op `first`, which writes it, through op `last`."""

    size: int
    first: int
    last: int


def lifetimes(
    tensors: Sequence[Tensor], groups: Sequence[Sequence[Op]], kept: int
) -> dict[int, Lifetime]:
    """Return the lifetimes of scratch tensors by id, in groups of ops that run at once; `kept`
    lives to the end."""
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    for index, group in enumerate(groups):
        for tensor_id in (i for op in group for i in op.outputs + op.given):
            if tensors[tensor_id].kind is Kind.SCRATCH:
                first.setdefault(tensor_id, index)
                last[tensor_id] = index
    last[kept] = len(groups)
    return {i: Lifetime(_bytes(tensors[i]), first[i], last[i]) for i in first}


def _bytes(tensor: Tensor) -> int:
    return tensor.shape[0] * tensor_row_bytes(tensor)


def place(lifetimes: Mapping[int, Lifetime]) -> tuple[dict[int, int], int]:
    """Return offsets by tensor id, and the size of the arena in bytes.

    Largest first, each at the lowest offset free during its whole life (greedy by size; Pisarchyk
    and Lee 2020, "Efficient Memory Management for Deep Neural Net Inference").
    """
    offsets: dict[int, int] = {}
    in_use: dict[int, list[_Span]] = {}  # by op, what is placed and alive then
    arena = 0
    for tensor, life in sorted(lifetimes.items(), key=lambda item: (-item[1].size, item[0])):
        ops, size = range(life.first, life.last + 1), _aligned(life.size)
        taken = {span for op in ops for span in in_use.get(op, ())}
        offset = _lowest_gap(size, taken)
        offsets[tensor] = offset
        for op in ops:
            in_use.setdefault(op, []).append((offset, offset + size))
        arena = max(arena, offset + size)
    return offsets, arena


def placed(tensors: Sequence[Tensor], offsets: Mapping[int, int]) -> tuple[Tensor, ...]:
    """Return the tensors, mostly weights, with these offsets filled in."""
    return tuple(replace(t, offset=offsets[t.id]) if t.id in offsets else t for t in tensors)


def _lowest_gap(size: int, taken: Iterable[_Span]) -> int:
    offset = 0
    for begin, end in sorted(taken):
        if offset + size <= begin:
            break
        offset = max(offset, end)
    return offset


def _aligned(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT
