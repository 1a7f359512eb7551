"""Q4_0 of ggml: 32 values as 4-bit levels around 8, times one float16 scale (4.5 bits each)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from llm_lite.core.quant.blocks import nibbles
from llm_lite.core.quant.blocks.f16 import non_finite_halves

BLOCK_SIZE = 32
BLOCK = np.dtype([("d", "<f2"), ("qs", "u1", (16,))])
assert BLOCK.itemsize == 18


def quantize(values: NDArray[np.float32]) -> NDArray[np.uint8]:
    """Quantize values: the one of largest magnitude becomes level 0, that is -8 steps of d = value
    / -8."""
    blocks = np.ascontiguousarray(values, dtype=np.float32).reshape(-1, BLOCK_SIZE)
    largest = np.abs(blocks).argmax(axis=1, keepdims=True)
    d = np.take_along_axis(blocks, largest, axis=1) / np.float32(-8)
    out = np.empty(blocks.shape[0], BLOCK)
    with np.errstate(over="ignore", invalid="ignore"):
        out["d"] = d[:, 0]
        out["qs"] = nibbles.pack(nibbles.to_levels(blocks * nibbles.inverse(d) + np.float32(8)))
    return out.view(np.uint8)


def dequantize(data: NDArray[np.uint8], shape: tuple[int, ...]) -> NDArray[np.float32]:
    blocks = data.view(BLOCK)
    values = nibbles.unpack(blocks["qs"]).astype(np.float32)
    values -= np.float32(8)
    values *= blocks["d"].astype(np.float32)[:, None]
    return values.reshape(shape)


def non_finite(data: NDArray[np.uint8]) -> bool:
    return non_finite_halves(data.view("<u2").reshape(-1, 9)[:, 0])
