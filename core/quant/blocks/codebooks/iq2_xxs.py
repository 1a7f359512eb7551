"""IQ2_XXS of ggml: 256 values as vectors of 8 out of 256, each 32 with a scale (2.0625 bits).

66 bytes: d (binary16), then for each 32 values: codes (4 bytes, a vector each) and a word of their
signs and scale, see `signs`. value = d * (scale + 0.5) / 4 * sign * element.
Source: block_iq2_xxs of ggml-common.h, dequantize_row_iq2_xxs of ggml-quants.c.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from llm_lite.core.quant.blocks.codebooks.signs import scales_of_words, signs_of_words
from llm_lite.core.quant.blocks.codebooks.vectors import codebook, look_up
from llm_lite.core.quant.blocks.f16 import non_finite_halves

BLOCK_SIZE = 256
_PART = np.dtype([("codes", "u1", (4,)), ("signs", "<u4")])
BLOCK = np.dtype([("d", "<f2"), ("parts", _PART, (8,))])
assert BLOCK.itemsize == 66


@np.errstate(invalid="ignore")  # infinity times 0
def dequantize(data: NDArray[np.uint8], shape: tuple[int, ...]) -> NDArray[np.float32]:
    blocks = data.view(BLOCK)
    words = blocks["parts"]["signs"]
    levels = look_up(codebook("iq2_xxs"), blocks["parts"]["codes"])
    levels *= signs_of_words(words)
    values = levels.reshape(-1, 8, 32).astype(np.float32)
    steps = scales_of_words(words) * blocks["d"].astype(np.float32)[:, None]
    steps *= np.float32(0.25)
    values *= steps[..., None]
    return values.reshape(shape)


def non_finite(data: NDArray[np.uint8]) -> bool:
    return non_finite_halves(data.view("<u2").reshape(-1, 33)[:, 0])
