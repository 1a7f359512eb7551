"""Weights as the C++ kernels read them: at their place in a mapped file, or as tiles of 16 rows.

Products want the same columns of 16 rows side by side. Our own formats lie so on disk; blocks of a
GGUF file, which are rows, are laid out once, value for value, and shared by all executors. Experts
may stay in their file as blocks: those that are chosen are laid out as they are multiplied.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from weakref import WeakValueDictionary

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from llm_lite.core.files.mapping import drop_pages
from llm_lite.core.quant.formats import FORMATS
from llm_lite.core.quant.modes import Room, room_for
from llm_lite.core.quant.tensor import TensorData, with_own_vectors
from llm_lite.core.quant.twins import to_tiles
from llm_lite.core.records import repr_without

_ALIGNMENT = {"f32": 4, "f16": 2, "bf16": 2}  # bytes; blocks may lie anywhere


class CpuWeight(Struct, frozen=True, eq=False, weakref=True):
    """A weight of a plan and its form for the kernels."""

    source: TensorData  # as the plan knows it; holds the memory that `_laid_out` knows it by
    dtype: str  # of DTYPES
    data: NDArray[np.uint8]
    __repr__ = repr_without("data")


_laid_out: WeakValueDictionary[tuple[int, str, tuple[int, ...]], CpuWeight] = WeakValueDictionary()


def readable(weight: TensorData) -> CpuWeight:
    """Check the size of a weight and return it; it is copied only if its address is not aligned as
    the kernels need.

    ValueError for a format that the kernels do not know, or another size than its shape takes.
    """
    if not weight.format.native:
        raise ValueError(f"weight {weight.name}: the kernels do not know {weight.dtype}")
    expected = weight.format.nbytes(weight.shape)
    if weight.nbytes != expected or weight.shape[-1] % weight.format.block_size:
        raise ValueError(
            f"weight {weight.name}: {weight.dtype} {weight.shape} takes {expected} bytes, "
            f"found {weight.nbytes}"
        )
    aligned = weight.data.ctypes.data % _ALIGNMENT.get(weight.dtype, 1) == 0
    contiguous = aligned and weight.data.flags.c_contiguous
    return CpuWeight(weight, weight.dtype, weight.data if contiguous else weight.data.copy())


def for_products(
    weights: Iterable[TensorData], in_file: Collection[str] = ()
) -> dict[str, CpuWeight]:
    """Return the weights by name, checked as by `readable`, with rows of blocks rearranged to
    tiles, except those that are named in `in_file`. MemoryError where there is no room for
    these."""
    own = with_own_vectors({weight.name: weight for weight in weights})
    found = {n: readable(w) if n in in_file else _known(w) for n, w in own.items()}
    missing = [
        weight
        for name, weight in found.items()
        if FORMATS[weight.dtype].layout == "rows" and name not in in_file
    ]
    room = room_for(_tile_bytes(weight.source) for weight in missing)
    for weight in missing:
        found[weight.source.name] = _in_tiles(weight, room)
    return found


def _known(weight: TensorData) -> CpuWeight:
    return _laid_out.get(_key(weight)) or readable(weight)


def _key(weight: TensorData) -> tuple[int, str, tuple[int, ...]]:
    return weight.data.ctypes.data, weight.dtype, weight.shape


def _tile_bytes(rows: TensorData) -> int:
    return FORMATS[rows.format.tiles].nbytes(rows.shape)


def _in_tiles(rows: CpuWeight, room: Room) -> CpuWeight:
    source = rows.source
    data = room(_tile_bytes(source))
    to_tiles(rows.dtype, rows.data, source.shape, data)
    drop_pages(source.data)  # a mapped file's pages: nobody reads them again
    laid_out = _laid_out[_key(source)] = CpuWeight(source, source.format.tiles, data)
    return laid_out
