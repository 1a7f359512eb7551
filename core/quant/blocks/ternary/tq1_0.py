"""TQ1_0 of ggml: 256 ternary values, five in a byte, times one float16 magnitude (1.6875 bits).

54 bytes: qs (48 bytes), qh (4 bytes), d (binary16). A byte b is a fraction b / 256, whose digits in
base 3 are its trits: multiplied by 3 without its whole part it has the next one before the point.
Digit p of bytes 0-31 is trit 32 p + i, of bytes 32-47 trit 160 + 16 p + i, and of qh, which has
four, trit 240 + 4 p + i. value = d * (trit - 1).
Source: block_tq1_0 of ggml-common.h, dequantize_row_tq1_0 of ggml-quants.c.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from llm_lite.core.quant.blocks.f16 import non_finite_halves
from llm_lite.core.quant.blocks.ternary import trits

BLOCK_SIZE = trits.BLOCK_SIZE
BLOCK = np.dtype([("qs", "u1", (48,)), ("qh", "u1", (4,)), ("d", "<f2")])
assert BLOCK.itemsize == 54

_PARTS = ((0, 32, 5), (32, 48, 5), (48, 52, 4))  # of 52 bytes: first, end, digits of each


def quantize(values: NDArray[np.float32]) -> NDArray[np.uint8]:
    """Quantize values; the magnitude is the largest one."""
    d, levels = trits.to_trits(values)
    out = np.empty(len(d), BLOCK)
    out["d"] = d
    packed, at = [], 0
    for first, end, digits in _PARTS:
        count = (end - first) * digits
        part = levels[:, at : at + count].reshape(-1, digits, end - first)
        weights = 3 ** np.arange(4, 4 - digits, -1)
        whole = (part * weights[:, None]).sum(axis=1)
        packed.append((whole * 256 + 242) // 243)
        at += count
    found = np.concatenate(packed, axis=1)
    out["qs"], out["qh"] = found[:, :48], found[:, 48:]
    return out.view(np.uint8)


def dequantize(data: NDArray[np.uint8], shape: tuple[int, ...]) -> NDArray[np.float32]:
    blocks = data.view(BLOCK)
    packed = data.reshape(-1, BLOCK.itemsize)
    levels, at = np.empty((len(blocks), BLOCK_SIZE), np.uint8), 0
    for first, end, digits in _PARTS:
        rest = packed[:, first:end]
        for _ in range(digits):
            tripled = rest.astype(np.uint16) * np.uint16(3)
            levels[:, at : at + end - first] = tripled >> np.uint16(8)
            rest = tripled.astype(np.uint8)
            at += end - first
    return trits.dequantize(blocks["d"], levels, shape)


def non_finite(data: NDArray[np.uint8]) -> bool:
    return non_finite_halves(data.view("<u2").reshape(-1, 27)[:, 26])
