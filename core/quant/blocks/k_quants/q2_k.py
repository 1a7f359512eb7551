"""Q2_K of ggml: 256 values as 2-bit levels, each 16 with a 4-bit scale and minimum (2.625 bits).

84 bytes: scales (16 bytes: the scale of 16 values in the low nibble, their minimum in the high
one), qs (two times 32 bytes: value 32 p + i of a half is bits 2 p, 2 p + 1 of byte i), d, dmin
(binary16). value = d * scale * level - dmin * minimum.
Source: block_q2_K of ggml-common.h, dequantize_row_q2_K of ggml-quants.c.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from llm_lite.core.quant.blocks.f16 import non_finite_halves
from llm_lite.core.quant.blocks.planes import planes

BLOCK_SIZE = 256
BLOCK = np.dtype([("scales", "u1", (16,)), ("qs", "u1", (2, 32)), ("d", "<f2"), ("dmin", "<f2")])
assert BLOCK.itemsize == 84


@np.errstate(invalid="ignore")  # infinity times 0
def dequantize(data: NDArray[np.uint8], shape: tuple[int, ...]) -> NDArray[np.float32]:
    blocks = data.view(BLOCK)
    scales = planes(blocks["scales"], 4).astype(np.float32)  # [n, scale or minimum, 16]
    steps = scales[:, 0] * blocks["d"].astype(np.float32)[:, None]
    minimums = scales[:, 1] * blocks["dmin"].astype(np.float32)[:, None]
    values = planes(blocks["qs"], 2).astype(np.float32).reshape(-1, 16, 16)
    values *= steps[..., None]
    values -= minimums[..., None]
    return values.reshape(shape)


def non_finite(data: NDArray[np.uint8]) -> bool:
    return non_finite_halves(data.view("<u2").reshape(-1, 42)[:, 40:])
