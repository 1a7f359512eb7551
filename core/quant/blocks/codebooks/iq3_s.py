"""IQ3_S of ggml: 256 values as vectors of 4 out of 512, each 32 with a 4-bit scale (3.4375 bits).

110 bytes: d (binary16), codes (64 bytes, the lower bits of a vector each), qh (8 bytes: bit 8 of
code 8 j + p is bit p of byte j), signs (32 bytes, a bit a value, set where it is negative), scales
(4 bytes: of 32 values in the low nibble, of the next 32 in the high one).
value = d * (2 * scale + 1) * sign * element; of its elements 1, 3, .. 15.
Source: block_iq3_s of ggml-common.h, dequantize_row_iq3_s of ggml-quants.c.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from llm_lite.core.quant.blocks.codebooks.vectors import codebook, look_up, sign_vectors
from llm_lite.core.quant.blocks.f16 import non_finite_halves
from llm_lite.core.quant.blocks.planes import bits_of, nibble_pairs

BLOCK_SIZE = 256
BLOCK = np.dtype(
    [
        ("d", "<f2"),
        ("codes", "u1", (64,)),
        ("qh", "u1", (8,)),
        ("signs", "u1", (32,)),
        ("scales", "u1", (4,)),
    ]
)
assert BLOCK.itemsize == 110


@np.errstate(invalid="ignore")  # infinity times 0
def dequantize(data: NDArray[np.uint8], shape: tuple[int, ...]) -> NDArray[np.float32]:
    blocks = data.view(BLOCK)
    codes = blocks["codes"] | bits_of(blocks["qh"]).astype(np.uint16) << np.uint16(8)
    levels = look_up(codebook("iq3_s"), codes).reshape(-1, 8, 32)
    levels *= look_up(sign_vectors(8), blocks["signs"]).reshape(levels.shape)
    values = levels.astype(np.float32)
    steps = nibble_pairs(blocks["scales"]) * np.float32(2) + np.float32(1)
    steps *= blocks["d"].astype(np.float32)[:, None]
    values *= steps[..., None]
    return values.reshape(shape)


def non_finite(data: NDArray[np.uint8]) -> bool:
    return non_finite_halves(data.view("<u2").reshape(-1, 55)[:, 0])
