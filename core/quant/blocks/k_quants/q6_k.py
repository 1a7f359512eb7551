"""Q6_K of ggml: 256 values as 6-bit levels around 32, each 16 with an int8 scale (6.5625 bits).

210 bytes: ql (two times 64 bytes: byte i holds the lower bits of level i of a half in its low
nibble and of level 64 + i in its high one), qh (two times 32 bytes: the upper bits of level
32 p + i of a half are bits 2 p, 2 p + 1 of byte i), scales (16 int8), d (binary16).
value = d * scale * (level - 32).
Source: block_q6_K of ggml-common.h, dequantize_row_q6_K of ggml-quants.c.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from llm_lite.core.quant.blocks.f16 import non_finite_halves
from llm_lite.core.quant.blocks.planes import planes

BLOCK_SIZE = 256
BLOCK = np.dtype(
    [("ql", "u1", (2, 64)), ("qh", "u1", (2, 32)), ("scales", "i1", (16,)), ("d", "<f2")]
)
assert BLOCK.itemsize == 210


@np.errstate(invalid="ignore")  # infinity times 0
def dequantize(data: NDArray[np.uint8], shape: tuple[int, ...]) -> NDArray[np.float32]:
    blocks = data.view(BLOCK)
    levels = planes(blocks["ql"], 4).reshape(-1, 2, 4, 32)
    levels |= planes(blocks["qh"], 2) << np.uint8(4)
    values = levels.astype(np.float32).reshape(-1, 16, 16)
    values -= np.float32(32)
    values *= (blocks["scales"] * blocks["d"].astype(np.float32)[:, None])[..., None]
    return values.reshape(shape)


def non_finite(data: NDArray[np.uint8]) -> bool:
    return non_finite_halves(data.view("<u2").reshape(-1, 105)[:, 104])
