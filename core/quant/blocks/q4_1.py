"""Q4_1 of ggml: 32 values as 4-bit levels times a float16 step plus a float16 minimum (5 bits)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from llm_lite.core.quant.blocks import nibbles
from llm_lite.core.quant.blocks.f16 import non_finite_halves

BLOCK_SIZE = 32
BLOCK = np.dtype([("d", "<f2"), ("m", "<f2"), ("qs", "u1", (16,))])
assert BLOCK.itemsize == 20


def quantize(values: NDArray[np.float32]) -> NDArray[np.uint8]:
    """Quantize values: level 0 is the block's minimum, level 15 its maximum."""
    blocks = np.ascontiguousarray(values, dtype=np.float32).reshape(-1, BLOCK_SIZE)
    m = blocks.min(axis=1, keepdims=True)
    out = np.empty(blocks.shape[0], BLOCK)
    with np.errstate(over="ignore", invalid="ignore"):
        d = (blocks.max(axis=1, keepdims=True) - m) / np.float32(15)
        out["d"] = d[:, 0]
        out["m"] = m[:, 0]
        out["qs"] = nibbles.pack(nibbles.to_levels((blocks - m) * nibbles.inverse(d)))
    return out.view(np.uint8)


def dequantize(data: NDArray[np.uint8], shape: tuple[int, ...]) -> NDArray[np.float32]:
    blocks = data.view(BLOCK)
    values = nibbles.unpack(blocks["qs"]).astype(np.float32)
    values *= blocks["d"].astype(np.float32)[:, None]
    values += blocks["m"].astype(np.float32)[:, None]
    return values.reshape(shape)


def non_finite(data: NDArray[np.uint8]) -> bool:
    return non_finite_halves(data.view("<u2").reshape(-1, 10)[:, :2])
