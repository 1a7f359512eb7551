"""Q3_K of ggml: 256 values as 3-bit levels around 4, each 16 with a 6-bit scale (3.4375 bits).

110 bytes: hmask (32 bytes: bit 2 of level 32 k + i is bit k of byte i), qs (two times 32 bytes:
the lower bits of level 32 p + i of a half are bits 2 p, 2 p + 1 of byte i), scales (12 bytes: the
lower four bits of scales 0-7 in the low nibbles of bytes 0-7, of scales 8-15 in the high ones; the
upper two bits of scale 4 p + j are bits 2 p, 2 p + 1 of byte 8 + j), d (binary16).
value = d * (scale - 32) * (level - 4).
Source: block_q3_K of ggml-common.h, dequantize_row_q3_K of ggml-quants.c.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from llm_lite.core.quant.blocks.f16 import non_finite_halves
from llm_lite.core.quant.blocks.planes import planes

BLOCK_SIZE = 256
BLOCK = np.dtype(
    [("hmask", "u1", (32,)), ("qs", "u1", (2, 32)), ("scales", "u1", (12,)), ("d", "<f2")]
)
assert BLOCK.itemsize == 110


@np.errstate(invalid="ignore")  # infinity times 0
def dequantize(data: NDArray[np.uint8], shape: tuple[int, ...]) -> NDArray[np.float32]:
    blocks = data.view(BLOCK)
    count = len(blocks)
    packed = blocks["scales"]
    scales = planes(packed[:, :8], 4).reshape(count, 16)
    scales |= planes(packed[:, 8:], 2).reshape(count, 16) << np.uint8(4)
    levels = planes(blocks["qs"], 2).reshape(count, 8, 32)
    levels |= planes(blocks["hmask"], 1) << np.uint8(2)
    values = levels.astype(np.float32).reshape(count, 16, 16)
    values -= np.float32(4)
    steps = scales.astype(np.float32) - np.float32(32)
    steps *= blocks["d"].astype(np.float32)[:, None]
    values *= steps[..., None]
    return values.reshape(shape)


def non_finite(data: NDArray[np.uint8]) -> bool:
    return non_finite_halves(data.view("<u2").reshape(-1, 55)[:, 54])
