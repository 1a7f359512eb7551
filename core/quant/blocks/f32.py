"""F32: IEEE 754 binary32, little endian; a block is one value."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

BLOCK_SIZE = 1
BLOCK = np.dtype("<f4")
assert BLOCK.itemsize == 4


def quantize(values: NDArray[np.float32]) -> NDArray[np.uint8]:
    return np.ascontiguousarray(values, dtype=BLOCK).reshape(-1).view(np.uint8)


def dequantize(data: NDArray[np.uint8], shape: tuple[int, ...]) -> NDArray[np.float32]:
    return data.view(BLOCK).astype(np.float32).reshape(shape)


def non_finite(data: NDArray[np.uint8]) -> bool:
    magnitude = data.view("<u4") & np.uint32(0x7FFFFFFF)
    return bool(magnitude.max(initial=0) >= 0x7F800000)
