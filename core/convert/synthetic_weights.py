"""Random weights in any format, a piece at a time: for checkpoints that are only measured.

A matrix [N,K] has mean 0 and deviation 1 / sqrt(K), so that what it multiplies keeps its scale.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from llm_lite.core.quant.blocks import int4, int8, q4_0, q4_1, q8_0
from llm_lite.core.quant.registry import FORMATS

Bytes = NDArray[np.uint8]
Random = np.random.Generator

_PIECE_BYTES = 8 << 20
_PIECE_ROWS = 16  # a multiple of the rows of a tile
_SMALL = 0.1  # deviation of matrices of a few columns, which mix streams
_MIDDLE, _SPREAD = 7.5, 4.61  # mean and deviation of the levels 0 to 15, equally likely
_SPREAD_OF_15 = 4.32  # deviation of the levels 1 to 15
_SPREAD_OF_255 = 73.6  # deviation of the levels -127 to 127


def pieces(rng: Random, dtype: str, shape: tuple[int, ...]) -> Iterator[Bytes]:
    """The bytes of a tensor in order; a vector is a norm's, all 1."""
    form = FORMATS[dtype]
    if len(shape) == 1:
        yield form.quantize(np.ones((1, *shape), np.float32))
        return
    rows, columns = math.prod(shape[:-1]), shape[-1]
    deviation = columns**-0.5 if columns >= int4.BLOCK_SIZE else _SMALL
    if dtype not in _BLOCKS or rows % form.tile_rows:
        yield from _normal(rng, dtype, (rows, columns), deviation)
        return
    unit = form.block_bytes * form.tile_rows
    total, step = form.nbytes((rows, columns)) // unit, _PIECE_BYTES // unit
    for at in range(0, total, step):
        yield _BLOCKS[dtype](rng, min(step, total - at), deviation).reshape(-1).view(np.uint8)


def _normal(rng: Random, dtype: str, shape: tuple[int, int], deviation: float) -> Iterator[Bytes]:
    step = max(1, _PIECE_BYTES // 4 // shape[1] // _PIECE_ROWS) * _PIECE_ROWS
    for at in range(0, shape[0], step):
        rows = min(step, shape[0] - at)
        values = rng.standard_normal((rows, shape[1]), np.float32) * np.float32(deviation)
        yield FORMATS[dtype].quantize(values)


def _bytes(rng: Random, shape: tuple[int, ...]) -> Bytes:
    return np.frombuffer(rng.bytes(math.prod(shape)), np.uint8).reshape(shape)


def _signed(rng: Random, shape: tuple[int, ...]) -> NDArray[np.int8]:
    return rng.integers(-127, 128, shape, np.int8)


def _q4_0(rng: Random, count: int, deviation: float) -> NDArray[np.void]:
    blocks = np.empty(count, q4_0.BLOCK)
    blocks["d"] = deviation / _SPREAD_OF_15
    low, high = rng.integers(1, 16, (2, count, 16), np.uint8)  # level 8 is 0
    blocks["qs"] = low | high << 4
    return blocks


def _q4_1(rng: Random, count: int, deviation: float) -> NDArray[np.void]:
    blocks = np.empty(count, q4_1.BLOCK)
    blocks["d"] = deviation / _SPREAD
    blocks["m"] = -deviation / _SPREAD * _MIDDLE
    blocks["qs"] = _bytes(rng, (count, 16))
    return blocks


def _q8_0(rng: Random, count: int, deviation: float) -> NDArray[np.void]:
    blocks = np.empty(count, q8_0.BLOCK)
    blocks["d"] = deviation / _SPREAD_OF_255
    blocks["qs"] = _signed(rng, (count, 32))
    return blocks


def _int4(rng: Random, count: int, deviation: float) -> NDArray[np.void]:
    tiles = np.empty(count, int4.TILE)
    step = int4.encode_step(np.array([deviation / _SPREAD], np.float32))
    tiles["headers"] = step << np.uint16(6) | np.uint16(_MIDDLE * 4)
    tiles["levels"] = _bytes(rng, (count, int4.GROUPS, 16, 4))
    return tiles


def _int8(rng: Random, count: int, deviation: float) -> NDArray[np.void]:
    tiles = np.empty(count, int8.TILE)
    tiles["headers"] = np.array([deviation / _SPREAD_OF_255], "<f2").view("<u2")
    tiles["levels"] = _signed(rng, (count, int8.GROUPS, 16, 4)).view(np.uint8)
    return tiles


_BLOCKS: Mapping[str, Callable[[Random, int, float], NDArray[np.void]]] = {
    "q4_0": _q4_0,
    "q4_1": _q4_1,
    "q8_0": _q8_0,
    "int4": _int4,
    "int8": _int8,
}
