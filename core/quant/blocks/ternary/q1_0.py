"""Q1_0 of ggml: the signs of 128 values, times one float16 magnitude (1.125 bits each).

18 bytes: d (binary16), qs (16 bytes, a bit a value, the lowest of a byte first).
value = d where its bit is set, else -d.
Source: block_q1_0 of ggml-common.h, dequantize_row_q1_0 of ggml-quants.c.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from llm_lite.core.quant.blocks.f16 import non_finite_halves
from llm_lite.core.quant.blocks.planes import bits_of

BLOCK_SIZE = 128
BLOCK = np.dtype([("d", "<f2"), ("qs", "u1", (16,))])
assert BLOCK.itemsize == 18


@np.errstate(invalid="ignore")  # infinity times 0
def dequantize(data: NDArray[np.uint8], shape: tuple[int, ...]) -> NDArray[np.float32]:
    blocks = data.view(BLOCK)
    values = bits_of(blocks["qs"]).astype(np.float32)
    values *= np.float32(2)
    values -= np.float32(1)
    values *= blocks["d"].astype(np.float32)[:, None]
    return values.reshape(shape)


def non_finite(data: NDArray[np.uint8]) -> bool:
    return non_finite_halves(data.view("<u2").reshape(-1, 9)[:, 0])
