"""IQ2_S of ggml: 256 values as vectors of 8 out of 1024, each 16 with a 4-bit scale (2.5625 bits).

82 bytes: d (binary16), codes (32 bytes, the lower bits of a vector each), signs (32 bytes, a bit
a value, set where it is negative), qh (8 bytes: the upper bits of code 4 j + p are bits 2 p,
2 p + 1 of byte j), scales (8 bytes: of 16 values in the low nibble, of the next 16 in the high
one). value = d * (scale + 0.5) / 4 * sign * element.
Source: block_iq2_s of ggml-common.h, dequantize_row_iq2_s of ggml-quants.c.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from llm_lite.core.quant.blocks.codebooks.vectors import codebook, look_up, sign_vectors
from llm_lite.core.quant.blocks.f16 import non_finite_halves
from llm_lite.core.quant.blocks.planes import nibble_pairs, planes

BLOCK_SIZE = 256
BLOCK = np.dtype(
    [
        ("d", "<f2"),
        ("codes", "u1", (32,)),
        ("signs", "u1", (32,)),
        ("qh", "u1", (8,)),
        ("scales", "u1", (8,)),
    ]
)
assert BLOCK.itemsize == 82


@np.errstate(invalid="ignore")  # infinity times 0
def dequantize(data: NDArray[np.uint8], shape: tuple[int, ...]) -> NDArray[np.float32]:
    blocks = data.view(BLOCK)
    upper = planes(blocks["qh"][..., None], 2).reshape(-1, 32)
    codes = blocks["codes"] | upper.astype(np.uint16) << np.uint16(8)
    levels = look_up(codebook("iq2_s"), codes)
    levels *= look_up(sign_vectors(8), blocks["signs"])
    values = levels.reshape(-1, 16, 16).astype(np.float32)
    steps = nibble_pairs(blocks["scales"]) + np.float32(0.5)
    steps *= np.float32(0.25) * blocks["d"].astype(np.float32)[:, None]
    values *= steps[..., None]
    return values.reshape(shape)


def non_finite(data: NDArray[np.uint8]) -> bool:
    return non_finite_halves(data.view("<u2").reshape(-1, 41)[:, 0])
