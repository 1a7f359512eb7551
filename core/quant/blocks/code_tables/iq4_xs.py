"""IQ4_XS of ggml: 256 values as 4-bit codes of a fixed table, a scale each 32 (4.25 bits).

136 bytes: d (binary16), scales_h (16 bits: the upper two bits of scale k are bits 2 k, 2 k + 1),
scales_l (4 bytes: the lower bits of scale 2 j in the low nibble of byte j, of 2 j + 1 in the high
one), qs (eight times 16 bytes: byte i holds code i of 32 values in its low nibble and code i + 16
in its high one). value = d * (scale - 32) * table[code], see `tables.NONLINEAR`.
Source: block_iq4_xs of ggml-common.h, dequantize_row_iq4_xs of ggml-quants.c.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from llm_lite.core.quant.blocks.code_tables.tables import NONLINEAR
from llm_lite.core.quant.blocks.f16 import non_finite_halves

BLOCK_SIZE = 256
BLOCK = np.dtype(
    [("d", "<f2"), ("scales_h", "<u2"), ("scales_l", "u1", (4,)), ("qs", "u1", (128,))]
)
assert BLOCK.itemsize == 136


@np.errstate(invalid="ignore")  # infinity times 0
def dequantize(data: NDArray[np.uint8], shape: tuple[int, ...]) -> NDArray[np.float32]:
    blocks = data.view(BLOCK)
    scales = np.empty((len(blocks), 8), np.uint8)
    scales[:, ::2] = blocks["scales_l"] & np.uint8(15)
    scales[:, 1::2] = blocks["scales_l"] >> np.uint8(4)
    upper = blocks["scales_h"][:, None] >> np.arange(0, 16, 2, dtype=np.uint16) & np.uint16(3)
    scales |= (upper << np.uint16(4)).astype(np.uint8)
    values = NONLINEAR.decode(blocks["qs"], 16).astype(np.float32).reshape(-1, 8, 32)
    steps = scales.astype(np.float32) - np.float32(32)
    steps *= blocks["d"].astype(np.float32)[:, None]
    values *= steps[..., None]
    return values.reshape(shape)


def non_finite(data: NDArray[np.uint8]) -> bool:
    return non_finite_halves(data.view("<u2").reshape(-1, 68)[:, 0])
