"""NVFP4 of ggml: 64 values as 4-bit floating-point numbers, each 16 with an 8-bit one (4.5 bits).

36 bytes: d (4 bytes of UE4M3: four bits of exponent with bias 7 above three of mantissa, their
highest bit unused), qs (four times 8 bytes: byte i holds code i of 16 values in its low nibble and
code i + 8 in its high one). value = d / 2 * table[code], doubled, see `tables.MINIFLOATS`.
A d of 0x7F, elsewhere not a number, is 0 in ggml: all bytes are finite values.
Source: block_nvfp4 of ggml-common.h, dequantize_row_nvfp4 of ggml-quants.c.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from llm_lite.core.quant.blocks.code_tables.tables import MINIFLOATS

BLOCK_SIZE = 64
BLOCK = np.dtype([("d", "u1", (4,)), ("qs", "u1", (32,))])
assert BLOCK.itemsize == 36


def _half_scales() -> NDArray[np.float32]:
    """Return half the scale of every byte."""
    codes = np.arange(256)
    exponent, mantissa = codes >> 3 & 15, (codes & 7).astype(np.float32)
    normal = np.ldexp(mantissa + np.float32(8), exponent - 11)
    scales = np.where(exponent > 0, normal, np.ldexp(mantissa, -10)).astype(np.float32)
    scales[0x7F] = 0
    return scales


_HALF_SCALES = _half_scales()


def dequantize(data: NDArray[np.uint8], shape: tuple[int, ...]) -> NDArray[np.float32]:
    blocks = data.view(BLOCK)
    values = MINIFLOATS.decode(blocks["qs"], 8).astype(np.float32).reshape(-1, 4, 16)
    values *= _HALF_SCALES[blocks["d"]][..., None]
    return values.reshape(shape)


def non_finite(data: NDArray[np.uint8]) -> bool:
    return False
