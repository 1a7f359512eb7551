"""Q5_1 of ggml: 32 values as 5-bit levels times a float16 step plus a float16 minimum (6 bits).

24 bytes: d, m (binary16), qh (4 bytes: bit i is bit 4 of level i), qs (16 bytes: byte i holds the
lower bits of level i in its low nibble and of level i + 16 in its high one). value = d * level + m.
Source: block_q5_1 of ggml-common.h, dequantize_row_q5_1 of ggml-quants.c.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from llm_lite.core.quant.blocks import nibbles
from llm_lite.core.quant.blocks.f16 import non_finite_halves

BLOCK_SIZE = 32
BLOCK = np.dtype([("d", "<f2"), ("m", "<f2"), ("qh", "u1", (4,)), ("qs", "u1", (16,))])
assert BLOCK.itemsize == 24


def quantize(values: NDArray[np.float32]) -> NDArray[np.uint8]:
    """Quantize values: level 0 is the block's minimum, level 31 its maximum."""
    blocks = np.ascontiguousarray(values, dtype=np.float32).reshape(-1, BLOCK_SIZE)
    m = blocks.min(axis=1, keepdims=True)
    out = np.empty(blocks.shape[0], BLOCK)
    with np.errstate(over="ignore", invalid="ignore"):
        d = (blocks.max(axis=1, keepdims=True) - m) / np.float32(31)
        out["d"] = d[:, 0]
        out["m"] = m[:, 0]
        levels = nibbles.cut_to_fives((blocks - m) * nibbles.inverse(d) + np.float32(0.5))
    out["qh"], out["qs"] = nibbles.pack_fives(levels)
    return out.view(np.uint8)


@np.errstate(invalid="ignore")  # infinity times 0
def dequantize(data: NDArray[np.uint8], shape: tuple[int, ...]) -> NDArray[np.float32]:
    blocks = data.view(BLOCK)
    values = nibbles.unpack_fives(blocks["qh"], blocks["qs"]).astype(np.float32)
    values *= blocks["d"].astype(np.float32)[:, None]
    values += blocks["m"].astype(np.float32)[:, None]
    return values.reshape(shape)


def non_finite(data: NDArray[np.uint8]) -> bool:
    return non_finite_halves(data.view("<u2").reshape(-1, 12)[:, :2])
