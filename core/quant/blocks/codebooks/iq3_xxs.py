"""IQ3_XXS of ggml: 256 values as vectors of 4 out of 256, each 32 with a scale (3.0625 bits).

98 bytes: d (binary16), codes (64 bytes, a vector each), signs (8 words of 32 bits, for 32 values
each their signs and scale, see `signs`). value = d * (scale + 0.5) / 2 * sign * element.
Source: block_iq3_xxs of ggml-common.h, dequantize_row_iq3_xxs of ggml-quants.c.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from llm_lite.core.quant.blocks.codebooks.signs import scales_of_words, signs_of_words
from llm_lite.core.quant.blocks.codebooks.vectors import codebook, look_up
from llm_lite.core.quant.blocks.f16 import non_finite_halves

BLOCK_SIZE = 256
BLOCK = np.dtype([("d", "<f2"), ("codes", "u1", (64,)), ("signs", "<u4", (8,))])
assert BLOCK.itemsize == 98


@np.errstate(invalid="ignore")  # infinity times 0
def dequantize(data: NDArray[np.uint8], shape: tuple[int, ...]) -> NDArray[np.float32]:
    blocks = data.view(BLOCK)
    words = blocks["signs"]
    levels = look_up(codebook("iq3_xxs"), blocks["codes"]).reshape(-1, 8, 32)
    levels *= signs_of_words(words).reshape(levels.shape)
    values = levels.astype(np.float32)
    steps = scales_of_words(words) * blocks["d"].astype(np.float32)[:, None]
    steps *= np.float32(0.5)
    values *= steps[..., None]
    return values.reshape(shape)


def non_finite(data: NDArray[np.uint8]) -> bool:
    return non_finite_halves(data.view("<u2").reshape(-1, 49)[:, 0])
