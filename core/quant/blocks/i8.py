"""I8 rows of a cache: int8 with a float16 scale for each block, a head's values of one position.

The definition, for each block of a row:

    scale = float16(max|x| / 127), to nearest even
    q     = clamp(rint(x * (1 / scale)), -127, 127), rint to nearest even; 0 where scale is 0

in float32 but for the scale. A block with a NaN or an infinity has q = 0 and a scale that is one
too, so that the failure stays visible. A row is all q, then the scales, padded to whole words.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def encode_rows(x: NDArray[np.float32], block: int) -> NDArray[np.uint8]:
    """float32 [T, K] -> uint8 [T, bytes of a row]; `block` divides K and is a multiple of 4."""
    rows, columns = x.shape
    blocks = x.astype(np.float32, copy=False).reshape(rows, -1, block)
    with np.errstate(over="ignore"):
        scales = (np.abs(blocks).max(axis=2) / np.float32(127)).astype(np.float16)
    wide = scales.astype(np.float32)
    usable = np.isfinite(wide) & (wide > 0)
    inverse = np.divide(np.float32(1), wide, out=np.zeros_like(wide), where=usable)
    finite = np.where(usable[:, :, None], blocks, np.float32(0))
    q = np.rint(finite * inverse[:, :, None]).clip(-127, 127).astype(np.int8)
    out = np.zeros((rows, -(-(columns + 2 * scales.shape[1]) // 4) * 4), np.uint8)
    out[:, :columns] = q.reshape(rows, columns).view(np.uint8)
    out[:, columns : columns + 2 * scales.shape[1]] = scales.view(np.uint8)
    return out


def decode_rows(data: NDArray[np.uint8], columns: int, block: int) -> NDArray[np.float32]:
    """uint8 [T, bytes of a row] -> float32 [T, K]"""
    count = columns // block
    q = np.ascontiguousarray(data[:, :columns]).view(np.int8).reshape(-1, count, block)
    scales = np.ascontiguousarray(data[:, columns : columns + 2 * count]).view(np.float16)
    with np.errstate(invalid="ignore"):
        values = q.astype(np.float32) * scales.astype(np.float32)[:, :, None]
    return values.reshape(-1, columns)
