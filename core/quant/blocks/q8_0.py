"""Q8_0 of ggml: 32 values as int8 times one float16 scale (8.5 bits each)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from llm_lite.core.quant.blocks import nibbles
from llm_lite.core.quant.blocks.f16 import non_finite_halves

BLOCK_SIZE = 32
BLOCK = np.dtype([("d", "<f2"), ("qs", "i1", (32,))])
assert BLOCK.itemsize == 34


def quantize(values: NDArray[np.float32]) -> NDArray[np.uint8]:
    """d = max|x| / 127; levels are rounded half away from zero, as ggml's roundf does."""
    blocks = np.ascontiguousarray(values, dtype=np.float32).reshape(-1, BLOCK_SIZE)
    d = np.abs(blocks).max(axis=1, keepdims=True) / np.float32(127)
    out = np.empty(blocks.shape[0], BLOCK)
    with np.errstate(over="ignore", invalid="ignore"):
        out["d"] = d[:, 0]
        steps = np.nan_to_num(blocks * nibbles.inverse(d), posinf=0, neginf=0)
    out["qs"] = _round_half_away(steps).clip(-127, 127)
    return out.view(np.uint8)


def dequantize(data: NDArray[np.uint8], shape: tuple[int, ...]) -> NDArray[np.float32]:
    blocks = data.view(BLOCK)
    values = blocks["qs"].astype(np.float32)
    values *= blocks["d"].astype(np.float32)[:, None]
    return values.reshape(shape)


def non_finite(data: NDArray[np.uint8]) -> bool:
    return non_finite_halves(data.view("<u2").reshape(-1, 17)[:, 0])


def _round_half_away(x: NDArray[np.float32]) -> NDArray[np.float32]:
    magnitude = np.abs(x)
    whole = np.floor(magnitude)
    return np.copysign(whole + (magnitude - whole >= np.float32(0.5)), x).astype(np.float32)
