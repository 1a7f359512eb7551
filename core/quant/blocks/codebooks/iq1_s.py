"""IQ1_S of ggml: 256 values as ternary vectors of 8 out of 2048, a scale each 32 (1.5625 bits).

50 bytes: d (binary16), codes (32 bytes, the lower bits of a vector each), qh (8 words of 16 bits,
for 32 values each: the upper bits of code p in bits 3 p to 3 p + 2, the scale in bits 12 to 14, and
in bit 15 whether the shift is negative).
value = d * (2 * scale + 1) * (element + shift), shift = 1/8 or -1/8.
Source: block_iq1_s of ggml-common.h, dequantize_row_iq1_s of ggml-quants.c.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from llm_lite.core.quant.blocks.codebooks.vectors import codebook, look_up
from llm_lite.core.quant.blocks.f16 import non_finite_halves

BLOCK_SIZE = 256
BLOCK = np.dtype([("d", "<f2"), ("codes", "u1", (32,)), ("qh", "<u2", (8,))])
assert BLOCK.itemsize == 50

EIGHTHS = np.float32(0.125)  # values are sums of them, in int8


@np.errstate(invalid="ignore")  # infinity times 0
def dequantize(data: NDArray[np.uint8], shape: tuple[int, ...]) -> NDArray[np.float32]:
    blocks = data.view(BLOCK)
    words = blocks["qh"]
    upper = words[..., None] >> np.arange(0, 12, 3, dtype=np.uint16) & np.uint16(7)
    codes = blocks["codes"] | upper.reshape(-1, 32) << np.uint16(8)
    levels = look_up(codebook("iq1_s") * np.int8(8), codes).reshape(-1, 8, 32)
    levels += np.where(words >> np.uint16(15), np.int8(-1), np.int8(1))[..., None]
    values = levels.astype(np.float32)
    scales = (words >> np.uint16(12) & np.uint16(7)) * np.float32(2) + np.float32(1)
    scales *= EIGHTHS * blocks["d"].astype(np.float32)[:, None]
    values *= scales[..., None]
    return values.reshape(shape)


def non_finite(data: NDArray[np.uint8]) -> bool:
    return non_finite_halves(data.view("<u2").reshape(-1, 25)[:, 0])
