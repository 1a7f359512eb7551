"""IQ1_M of ggml: 256 values as ternary vectors of 8 out of 2048, a scale each 16 (1.75 bits).

56 bytes: codes (32 bytes, the lower bits of a vector each), qh (16 bytes, a nibble a code: its
upper bits in the lower three, and in the highest whether its shift is negative), scales (4 words of
16 bits: the scale of 16 values in three bits each, and in the highest four a nibble of d, the
lowest first). value = d * (2 * scale + 1) * (element + shift), shift = 1/8 or -1/8, d a binary16.
Source: block_iq1_m of ggml-common.h, dequantize_row_iq1_m of ggml-quants.c.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from llm_lite.core.quant.blocks.codebooks.iq1_s import EIGHTHS
from llm_lite.core.quant.blocks.codebooks.vectors import codebook, look_up
from llm_lite.core.quant.blocks.f16 import non_finite_halves
from llm_lite.core.quant.blocks.planes import nibble_pairs

BLOCK_SIZE = 256
BLOCK = np.dtype([("codes", "u1", (32,)), ("qh", "u1", (16,)), ("scales", "<u2", (4,))])
assert BLOCK.itemsize == 56


@np.errstate(invalid="ignore")  # infinity times 0
def dequantize(data: NDArray[np.uint8], shape: tuple[int, ...]) -> NDArray[np.float32]:
    blocks = data.view(BLOCK)
    upper = nibble_pairs(blocks["qh"])
    codes = blocks["codes"] | (upper & np.uint8(7)).astype(np.uint16) << np.uint16(8)
    levels = look_up(codebook("iq1_s") * np.int8(8), codes)
    levels += np.where(upper & np.uint8(8), np.int8(-1), np.int8(1))[..., None]
    values = levels.reshape(-1, 16, 16).astype(np.float32)
    words = blocks["scales"]
    scales = words[..., None] >> np.arange(0, 12, 3, dtype=np.uint16) & np.uint16(7)
    steps = scales.reshape(-1, 16) * np.float32(2) + np.float32(1)
    steps *= EIGHTHS * _halves(words).view(np.float16).astype(np.float32)[:, None]
    values *= steps[..., None]
    return values.reshape(shape)


def _halves(words: NDArray[np.uint16]) -> NDArray[np.uint16]:
    """Return the bits of d, [n, 4] -> [n]."""
    nibbles = words >> np.uint16(12) << np.arange(0, 16, 4, dtype=np.uint16)
    return np.bitwise_or.reduce(nibbles, axis=1)


def non_finite(data: NDArray[np.uint8]) -> bool:
    return non_finite_halves(_halves(data.view(BLOCK)["scales"]))
