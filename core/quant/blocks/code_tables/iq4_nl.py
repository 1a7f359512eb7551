"""IQ4_NL of ggml: 32 values as 4-bit codes of a fixed table, times a float16 scale (4.5 bits).

18 bytes: d (binary16), qs (16 bytes: byte i holds code i in its low nibble and code i + 16 in its
high one). value = d * table[code], see `tables.NONLINEAR`.
Source: block_iq4_nl of ggml-common.h, dequantize_row_iq4_nl of ggml-quants.c.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from llm_lite.core.quant.blocks import nibbles
from llm_lite.core.quant.blocks.code_tables.tables import NONLINEAR
from llm_lite.core.quant.blocks.f16 import non_finite_halves

BLOCK_SIZE = 32
BLOCK = np.dtype([("d", "<f2"), ("qs", "u1", (16,))])
assert BLOCK.itemsize == 18

_TABLE = NONLINEAR.numbers.astype(np.float32)
_BETWEEN = (_TABLE[1:] + _TABLE[:-1]) / np.float32(2)


def quantize(values: NDArray[np.float32]) -> NDArray[np.uint8]:
    """Quantize values: the one of largest magnitude becomes code 0, that is -127 d, others their
    nearest."""
    blocks = np.ascontiguousarray(values, dtype=np.float32).reshape(-1, BLOCK_SIZE)
    largest = np.abs(blocks).argmax(axis=1, keepdims=True)
    out = np.empty(blocks.shape[0], BLOCK)
    with np.errstate(over="ignore", invalid="ignore"):
        d = (np.take_along_axis(blocks, largest, axis=1) / _TABLE[0]).astype(np.float16)
        steps = blocks * nibbles.inverse(d.astype(np.float32))
    out["d"] = d[:, 0]
    steps = np.nan_to_num(steps, posinf=0, neginf=0)
    out["qs"] = nibbles.pack(np.searchsorted(_BETWEEN, steps).astype(np.uint8))
    return out.view(np.uint8)


@np.errstate(invalid="ignore")  # infinity times 0
def dequantize(data: NDArray[np.uint8], shape: tuple[int, ...]) -> NDArray[np.float32]:
    blocks = data.view(BLOCK)
    values = NONLINEAR.decode(blocks["qs"], 16).astype(np.float32)
    values *= blocks["d"].astype(np.float32)[:, None]
    return values.reshape(shape)


def non_finite(data: NDArray[np.uint8]) -> bool:
    return non_finite_halves(data.view("<u2").reshape(-1, 9)[:, 0])
