"""F16: IEEE 754 binary16, little endian; a block is one value."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

BLOCK_SIZE = 1
BLOCK = np.dtype("<f2")
assert BLOCK.itemsize == 2


def quantize(values: NDArray[np.float32]) -> NDArray[np.uint8]:
    """Round to nearest even; beyond 65504 becomes infinite, which `non_finite` finds."""
    with np.errstate(over="ignore"):
        return np.ascontiguousarray(values).astype(BLOCK).reshape(-1).view(np.uint8)


def dequantize(data: NDArray[np.uint8], shape: tuple[int, ...]) -> NDArray[np.float32]:
    return data.view(BLOCK).astype(np.float32).reshape(shape)


def non_finite(data: NDArray[np.uint8]) -> bool:
    return non_finite_halves(data.view("<u2"))


def non_finite_halves(bits: NDArray[np.uint16]) -> bool:
    """True if any binary16 bit pattern is an infinity or NaN; integers are ten times quicker."""
    return bool((bits & np.uint16(0x7FFF)).max(initial=0) >= 0x7C00)
