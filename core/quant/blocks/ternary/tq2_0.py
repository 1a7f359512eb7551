"""TQ2_0 of ggml: 256 ternary values of two bits, times one float16 magnitude (2.0625 bits each).

66 bytes: qs (two times 32 bytes: trit 32 p + i of a half is bits 2 p, 2 p + 1 of byte i), d
(binary16). value = d * (trit - 1).
Source: block_tq2_0 of ggml-common.h, dequantize_row_tq2_0 of ggml-quants.c.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from llm_lite.core.quant.blocks.f16 import non_finite_halves
from llm_lite.core.quant.blocks.planes import planes
from llm_lite.core.quant.blocks.ternary import trits

BLOCK_SIZE = trits.BLOCK_SIZE
BLOCK = np.dtype([("qs", "u1", (2, 32)), ("d", "<f2")])
assert BLOCK.itemsize == 66


def quantize(values: NDArray[np.float32]) -> NDArray[np.uint8]:
    """Quantize values; the magnitude is the largest one."""
    d, levels = trits.to_trits(values)
    out = np.empty(len(d), BLOCK)
    out["d"] = d
    shifts = np.arange(0, 8, 2, dtype=np.uint8)[:, None]
    out["qs"] = np.bitwise_or.reduce(levels.reshape(-1, 2, 4, 32) << shifts, axis=2)
    return out.view(np.uint8)


def dequantize(data: NDArray[np.uint8], shape: tuple[int, ...]) -> NDArray[np.float32]:
    blocks = data.view(BLOCK)
    levels = planes(blocks["qs"], 2).reshape(-1, BLOCK_SIZE)
    return trits.dequantize(blocks["d"], levels, shape)


def non_finite(data: NDArray[np.uint8]) -> bool:
    return non_finite_halves(data.view("<u2").reshape(-1, 33)[:, 32])
