"""MXFP4: 32 values as 4-bit floating-point numbers, times one power of two (4.25 bits each).

17 bytes: e (E8M0: the scale is 2^(e - 127)), qs (16 bytes: byte i holds code i in its low nibble
and code i + 16 in its high one). value = 2^(e - 128) * table[code], the table doubled, see
`tables.MINIFLOATS`. e = 255 says that the block is no number; ggml decodes it as 2^128.
Source: OCP Microscaling Formats 1.0; block_mxfp4 of ggml-common.h, dequantize_row_mxfp4 of
ggml-quants.c.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from llm_lite.core.quant.blocks import nibbles
from llm_lite.core.quant.blocks.code_tables.tables import MINIFLOATS

BLOCK_SIZE = 32
BLOCK = np.dtype([("e", "u1"), ("qs", "u1", (16,))])
assert BLOCK.itemsize == 17

_HALF_SCALES = np.ldexp(np.float32(1), np.arange(256) - 128)
_NOT_A_NUMBER = 255
_MAY_OVERFLOW = 253  # 12 * 2^(253 - 128) > the largest float32
_MAGNITUDES = MINIFLOATS.numbers[:8].astype(np.float32)
_BETWEEN = (_MAGNITUDES[1:] + _MAGNITUDES[:-1]) / np.float32(2)


def quantize(values: NDArray[np.float32]) -> NDArray[np.uint8]:
    """Quantize values: the exponent of the largest magnitude is that of the largest code; others
    become their nearest number, the smaller one of two."""
    blocks = np.ascontiguousarray(values, dtype=np.float32).reshape(-1, BLOCK_SIZE)
    largest = np.abs(blocks).max(axis=1)
    finite = np.isfinite(largest)
    with np.errstate(divide="ignore"):
        exponents = np.floor(np.log2(np.where(finite, largest, 0))) + np.float32(125)
    out = np.empty(blocks.shape[0], BLOCK)
    out["e"] = np.where(finite, exponents.clip(0, 254), _NOT_A_NUMBER)
    steps = np.where(finite[:, None], blocks, 0) / _HALF_SCALES[out["e"]][:, None]
    codes = np.searchsorted(_BETWEEN, np.abs(steps)).astype(np.uint8)
    codes[(steps < 0) & (codes > 0)] += 8
    out["qs"] = nibbles.pack(codes)
    return out.view(np.uint8)


@np.errstate(over="ignore")
def dequantize(data: NDArray[np.uint8], shape: tuple[int, ...]) -> NDArray[np.float32]:
    blocks = data.view(BLOCK)
    values = MINIFLOATS.decode(blocks["qs"], 16).astype(np.float32)
    values *= _HALF_SCALES[blocks["e"]][:, None]
    return values.reshape(shape)


def non_finite(data: NDArray[np.uint8]) -> bool:
    """Return True for a block that is no number, and for values beyond float32."""
    exponents = data.view(BLOCK)["e"]
    largest = exponents.max(initial=0)
    if largest < _MAY_OVERFLOW or largest == _NOT_A_NUMBER:
        return bool(largest == _NOT_A_NUMBER)
    huge = data.view(BLOCK)[exponents >= _MAY_OVERFLOW]
    return not np.isfinite(dequantize(huge.view(np.uint8), (-1,))).all()
