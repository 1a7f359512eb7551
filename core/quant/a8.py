"""A8 activations: int8 in blocks of 32, for integer dot products.

The definition, in float32 throughout, for each block of 32 consecutive values of a row:

    scale     = max|x| / 127, and 0 where that is below the smallest normal float32
    q         = clamp(rint(x * (1 / scale)), -127, 127), rint to nearest even; 0 where scale is 0
    block_sum = scale * float32(sum(q))

The limit at the smallest normal number keeps 1 / scale finite, and makes devices that flush
subnormal numbers agree. A block with a NaN or an infinity has q = 0 and a scale that is one too,
so that the failure stays visible.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

BLOCK_SIZE = 32
_SMALLEST_NORMAL = np.finfo(np.float32).smallest_normal


def quantize_rows(
    x: NDArray[np.float32],
) -> tuple[NDArray[np.int8], NDArray[np.float32], NDArray[np.float32]]:
    """float32 [T, K] -> q int8 [T, K], scale float32 [T, K/32], block_sum float32 [T, K/32]."""
    rows, columns = x.shape
    assert columns % BLOCK_SIZE == 0, f"K is {columns}, expected a multiple of {BLOCK_SIZE}"
    blocks = x.astype(np.float32, copy=False).reshape(rows, -1, BLOCK_SIZE)
    scale = np.abs(blocks).max(axis=2) / np.float32(127)
    scale = np.where(scale < _SMALLEST_NORMAL, np.float32(0), scale)
    usable = np.isfinite(scale) & (scale > 0)
    inverse = np.divide(np.float32(1), scale, out=np.zeros_like(scale), where=usable)
    finite = np.where(usable[:, :, None], blocks, np.float32(0))
    q = np.rint(finite * inverse[:, :, None]).clip(-127, 127).astype(np.int8)
    with np.errstate(over="ignore", invalid="ignore"):  # 32 huge values, 0 times infinity
        block_sum = scale * q.sum(axis=2, dtype=np.int32).astype(np.float32)
    return q.reshape(rows, columns), scale, block_sum


def dequantize_rows(q: NDArray[np.int8], scale: NDArray[np.float32]) -> NDArray[np.float32]:
    """q int8 [T, K], scale float32 [T, K/32] -> float32 [T, K]."""
    blocks = q.reshape(*scale.shape, BLOCK_SIZE).astype(np.float32)
    with np.errstate(invalid="ignore"):
        return (blocks * scale[:, :, None]).reshape(q.shape)
