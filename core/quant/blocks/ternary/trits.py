"""The common part of TQ1_0 and TQ2_0: 256 values as -1, 0 or 1 times one float16 magnitude."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from llm_lite.core.quant.blocks import nibbles

BLOCK_SIZE = 256


def to_trits(values: NDArray[np.float32]) -> tuple[NDArray[np.float16], NDArray[np.uint8]]:
    """Return magnitudes [n], the largest of each block, and 0, 1 or 2 [n, 256], rounded half away
    from 1; a block that is not finite becomes 1 (its magnitude tells)."""
    blocks = np.ascontiguousarray(values, dtype=np.float32).reshape(-1, BLOCK_SIZE)
    largest = np.abs(blocks).max(axis=1, keepdims=True)
    with np.errstate(over="ignore", invalid="ignore"):
        steps = np.nan_to_num(blocks * nibbles.inverse(largest), posinf=0, neginf=0)
        trits = 1 + (steps >= 0.5).astype(np.int8) - (steps <= -0.5).astype(np.int8)
        return largest[:, 0].astype(np.float16), trits.astype(np.uint8)


@np.errstate(invalid="ignore")  # infinity times 0
def dequantize(
    d: NDArray[np.float16], trits: NDArray[np.uint8], shape: tuple[int, ...]
) -> NDArray[np.float32]:
    """Return float32 values; trits [n, 256] in 0..2."""
    values = trits.astype(np.float32)
    values -= np.float32(1)
    values *= d.astype(np.float32)[:, None]
    return values.reshape(shape)
