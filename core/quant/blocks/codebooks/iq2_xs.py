"""IQ2_XS of ggml: 256 values as vectors of 8 out of 512, each 16 with a 4-bit scale (2.3125 bits).

74 bytes: d (binary16), codes (32 words of 16 bits: a vector in the lower nine, its signs in the
upper seven), scales (8 bytes: of 16 values in the low nibble, of the next 16 in the high one).
value = d * (scale + 0.5) / 4 * sign * element.
Source: block_iq2_xs of ggml-common.h, dequantize_row_iq2_xs of ggml-quants.c.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from llm_lite.core.quant.blocks.codebooks.vectors import codebook, look_up, sign_vectors
from llm_lite.core.quant.blocks.f16 import non_finite_halves
from llm_lite.core.quant.blocks.planes import nibble_pairs

BLOCK_SIZE = 256
BLOCK = np.dtype([("d", "<f2"), ("codes", "<u2", (32,)), ("scales", "u1", (8,))])
assert BLOCK.itemsize == 74


@np.errstate(invalid="ignore")  # infinity times 0
def dequantize(data: NDArray[np.uint8], shape: tuple[int, ...]) -> NDArray[np.float32]:
    blocks = data.view(BLOCK)
    levels = look_up(codebook("iq2_xs"), blocks["codes"] & np.uint16(511))
    levels *= look_up(sign_vectors(7), blocks["codes"] >> np.uint16(9))
    values = levels.reshape(-1, 16, 16).astype(np.float32)
    steps = nibble_pairs(blocks["scales"]) + np.float32(0.5)
    steps *= np.float32(0.25) * blocks["d"].astype(np.float32)[:, None]
    values *= steps[..., None]
    return values.reshape(shape)


def non_finite(data: NDArray[np.uint8]) -> bool:
    return non_finite_halves(data.view("<u2").reshape(-1, 37)[:, 0])
