"""BF16: the upper half of an IEEE 754 binary32, little endian; a block is one value."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

BLOCK_SIZE = 1
BLOCK = np.dtype("<u2")
assert BLOCK.itemsize == 2


def quantize(values: NDArray[np.float32]) -> NDArray[np.uint8]:
    """Round to nearest even; a NaN stays a (quiet) NaN."""
    bits = np.ascontiguousarray(values, dtype=np.float32).reshape(-1).view(np.uint32)
    nearest_even = np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))
    rounded = (bits + nearest_even) >> np.uint32(16)
    quiet_nan = (bits >> np.uint32(16)) | np.uint32(0x40)
    is_nan = (bits & np.uint32(0x7FFFFFFF)) > np.uint32(0x7F800000)
    return np.where(is_nan, quiet_nan, rounded).astype(BLOCK).view(np.uint8)


def dequantize(data: NDArray[np.uint8], shape: tuple[int, ...]) -> NDArray[np.float32]:
    bits = data.view(BLOCK).astype(np.uint32) << np.uint32(16)
    return bits.view(np.float32).reshape(shape)


def non_finite(data: NDArray[np.uint8]) -> bool:
    return bool((data.view(BLOCK) & np.uint16(0x7FFF)).max(initial=0) >= 0x7F80)
