"""The common part of IQ2_XXS and IQ3_XXS: the signs and the scale of 32 values in one word.

Bits 7 p to 7 p + 6 name the signs of values 8 p to 8 p + 7, the highest four are the scale.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from llm_lite.core.quant.blocks.codebooks.vectors import look_up, sign_vectors


def signs_of_words(words: NDArray[np.uint32]) -> NDArray[np.int8]:
    """[n, 8] -> 1 or -1 [n, 8, 4, 8]"""
    codes = words[..., None] >> np.arange(0, 28, 7, dtype=np.uint32) & np.uint32(127)
    return look_up(sign_vectors(7), codes)


def scales_of_words(words: NDArray[np.uint32]) -> NDArray[np.float32]:
    """[n, 8] -> 0.5 to 15.5 [n, 8]"""
    return (words >> np.uint32(28)).astype(np.float32) + np.float32(0.5)
