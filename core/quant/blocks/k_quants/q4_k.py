"""Q4_K of ggml: 256 values as 4-bit levels, each 32 with a 6-bit scale and minimum (4.5 bits).

144 bytes: d, dmin (binary16), scales (12 bytes, see `planes.six_bit_scales`), qs (four times 32
bytes: byte i of part j holds level 64 j + i in its low nibble and level 64 j + 32 + i in its high
one). value = d * scale * level - dmin * minimum.
Source: block_q4_K of ggml-common.h, dequantize_row_q4_K of ggml-quants.c.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from llm_lite.core.quant.blocks.f16 import non_finite_halves
from llm_lite.core.quant.blocks.planes import planes, six_bit_scales

BLOCK_SIZE = 256
BLOCK = np.dtype([("d", "<f2"), ("dmin", "<f2"), ("scales", "u1", (12,)), ("qs", "u1", (4, 32))])
assert BLOCK.itemsize == 144


@np.errstate(invalid="ignore")  # infinity times 0
def dequantize(data: NDArray[np.uint8], shape: tuple[int, ...]) -> NDArray[np.float32]:
    blocks = data.view(BLOCK)
    scales, minimums = six_bit_scales(blocks["scales"])
    values = planes(blocks["qs"], 4).astype(np.float32).reshape(-1, 8, 32)
    values *= (scales * blocks["d"].astype(np.float32)[:, None])[..., None]
    values -= (minimums * blocks["dmin"].astype(np.float32)[:, None])[..., None]
    return values.reshape(shape)


def non_finite(data: NDArray[np.uint8]) -> bool:
    return non_finite_halves(data.view("<u2").reshape(-1, 72)[:, :2])
