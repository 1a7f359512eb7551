"""Where scratch tensors lie: offsets into one arena, shared by tensors that never live together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

ALIGNMENT = 256  # bytes; the largest minStorageBufferOffsetAlignment that Vulkan allows


@dataclass(frozen=True, slots=True)
class Lifetime:
    """A tensor of `size` bytes, in use from op `first`, which writes it, through op `last`."""

    size: int
    first: int
    last: int


def place(lifetimes: Mapping[int, Lifetime]) -> tuple[dict[int, int], int]:
    """Offsets by tensor id, and the size of the arena in bytes.

    Largest first, each at the lowest offset free during its whole life (greedy by size;
    Pisarchyk and Lee 2020, "Efficient Memory Management for Deep Neural Net Inference").
    """
    offsets: dict[int, int] = {}
    placed: list[tuple[int, Lifetime]] = []
    arena = 0
    for tensor, life in sorted(lifetimes.items(), key=lambda item: (-item[1].size, item[0])):
        offset = _lowest_gap(life, placed)
        offsets[tensor] = offset
        placed.append((offset, life))
        arena = max(arena, offset + _aligned(life.size))
    return offsets, arena


def _lowest_gap(life: Lifetime, placed: Sequence[tuple[int, Lifetime]]) -> int:
    offset = 0
    size = _aligned(life.size)
    for start, other in sorted(placed, key=lambda item: item[0]):
        if other.last < life.first or life.last < other.first:
            continue
        if offset + size <= start:
            break
        offset = max(offset, start + _aligned(other.size))
    return offset


def _aligned(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT
