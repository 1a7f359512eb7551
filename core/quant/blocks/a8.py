"""A8 activations: int8 in blocks of 32 with a zero point each, for integer dot products.

The definition, in float32 throughout, for each block of 32 consecutive values of a row:

    low, high = min(0, min x), max(0, max x)
    scale     = high / 254 - low / 254, and 0 where that is below the smallest normal float32
    zero      = clamp(rint(low * (1 / scale)) + 127, -127, 127), rint to nearest even
    q         = clamp(rint(x * (1 / scale)) - zero, -127, 127)
    total     = sum(q) + 32 * zero, an integer within 32 * 254
    block_sum = scale * total

and x is close to scale * (q + zero). Most blocks reach farther to one side of 0 than to the other:
a zero point lets all 255 levels lie where the values are. A value of 0 stays 0 exactly. Where the
scale is 0, zero and q are 0 too. The limit at the smallest normal number keeps 1 / scale finite,
and makes devices that flush subnormal numbers agree. A block with a NaN or an infinity has
q = zero = 0 and a scale that is one too, so that the failure stays visible.

A row in memory: K int8 values q, K/32 pairs of float32, scale and block_sum, and K/32 pairs of
int16, zero and total.
"""

from __future__ import annotations

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from llm_lite.core.quant.formats import A8_BLOCK

_SMALLEST_NORMAL = np.finfo(np.float32).smallest_normal


class Blocks(Struct, frozen=True):
    q: NDArray[np.int8]  # [T, K]
    scale: NDArray[np.float32]  # [T, K/32], as all that follow
    zero: NDArray[np.int16]
    total: NDArray[np.int16]
    block_sum: NDArray[np.float32]


def quantize_rows(x: NDArray[np.float32]) -> Blocks:
    """float32 [T, K]; K is a multiple of 32."""
    rows, columns = x.shape
    assert columns % A8_BLOCK == 0, f"K is {columns}, expected a multiple of {A8_BLOCK}"
    blocks = x.astype(np.float32, copy=False).reshape(rows, -1, A8_BLOCK)
    low = np.minimum(blocks.min(axis=2), np.float32(0))
    high = np.maximum(blocks.max(axis=2), np.float32(0))
    scale = high / np.float32(254) - low / np.float32(254)
    scale = np.where(scale < _SMALLEST_NORMAL, np.float32(0), scale)
    usable = np.isfinite(scale) & (scale > 0)
    inverse = np.divide(np.float32(1), scale, out=np.zeros_like(scale), where=usable)
    zero = np.rint(np.where(usable, low, np.float32(0)) * inverse) + np.float32(127)
    zero = np.where(usable, zero.clip(-127, 127), np.float32(0)).astype(np.int16)
    finite = np.where(usable[:, :, None], blocks, np.float32(0))
    whole = np.rint(finite * inverse[:, :, None]).astype(np.int16)
    q = (whole - zero[:, :, None]).clip(-127, 127)
    total = q.sum(axis=2, dtype=np.int16) + A8_BLOCK * zero
    with np.errstate(over="ignore", invalid="ignore"):  # 32 huge values, 0 times infinity
        block_sum = scale * total.astype(np.float32)
    return Blocks(q.astype(np.int8).reshape(rows, columns), scale, zero, total, block_sum)


def dequantize_rows(
    q: NDArray[np.int8], scale: NDArray[np.float32], zero: NDArray[np.int16]
) -> NDArray[np.float32]:
    """Return float32 [T, K] of q int8 [T, K], scale float32 and zero int16 [T, K/32]."""
    levels = q.reshape(*scale.shape, A8_BLOCK) + zero[:, :, None]
    with np.errstate(invalid="ignore"):
        return (levels.astype(np.float32) * scale[:, :, None]).reshape(q.shape)


def decode_rows(data: NDArray[np.uint8], columns: int) -> NDArray[np.float32]:
    """Return float32 [T, columns] of rows as they are in memory, uint8 [T, bytes of a row]."""
    found = blocks_of_rows(data, columns)
    return dequantize_rows(found.q, found.scale, found.zero)


def blocks_of_rows(data: NDArray[np.uint8], columns: int) -> Blocks:
    """Return the blocks of rows of so many columns as they are in memory, uint8 [T, bytes of a
    row]."""
    ends = columns, columns + 8 * (columns // A8_BLOCK)
    q, scales, offsets = (np.ascontiguousarray(part) for part in np.split(data, ends, axis=1))
    floats, integers = scales.view(np.float32), offsets.view(np.int16)
    return Blocks(
        q.view(np.int8), floats[:, ::2], integers[:, ::2], integers[:, 1::2], floats[:, 1::2]
    )


def encode_rows(blocks: Blocks) -> NDArray[np.uint8]:
    """Return rows as they are in memory, uint8 [T, bytes of a row]."""
    floats = np.stack([blocks.scale, blocks.block_sum], axis=2).astype(np.float32)
    integers = np.stack([blocks.zero, blocks.total], axis=2).astype(np.int16)
    parts = blocks.q, floats.reshape(len(floats), -1), integers.reshape(len(integers), -1)
    return np.concatenate([np.ascontiguousarray(part).view(np.uint8) for part in parts], axis=1)
