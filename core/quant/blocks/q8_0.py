"""Q8_0 of ggml: 32 values as int8 times one float16 scale (8.5 bits each)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from llm_lite.core.quant.blocks import nibbles
from llm_lite.core.quant.blocks.f16 import non_finite_halves

BLOCK_SIZE = 32
BLOCK = np.dtype([("d", "<f2"), ("qs", "i1", (32,))])
assert BLOCK.itemsize == 34

# The float32 below 0.5: added to any from 0 to 128 and cut, it rounds half up. 0.5 would take the
# float32 below 0.5 to 1.
_BELOW_HALF = np.float32(0.49999997)


def quantize(values: NDArray[np.float32]) -> NDArray[np.uint8]:
    """d = max|x| / 127; levels are rounded half away from zero, as ggml's roundf does."""
    blocks = np.ascontiguousarray(values, dtype=np.float32).reshape(-1, BLOCK_SIZE)
    d = np.abs(blocks).max(axis=1, keepdims=True) / np.float32(127)
    out = np.empty(blocks.shape[0], BLOCK)
    with np.errstate(over="ignore", invalid="ignore"):
        out["d"] = d[:, 0]
        steps = blocks * nibbles.inverse(d)
    if not np.isfinite(d).all():
        steps = np.nan_to_num(steps, posinf=0, neginf=0)
    steps += np.copysign(_BELOW_HALF, steps)
    out["qs"] = np.clip(steps, -127, 127, out=steps)  # cut to whole numbers
    return out.view(np.uint8)


def dequantize(data: NDArray[np.uint8], shape: tuple[int, ...]) -> NDArray[np.float32]:
    blocks = data.view(BLOCK)
    values = blocks["qs"].astype(np.float32)
    values *= blocks["d"].astype(np.float32)[:, None]
    return values.reshape(shape)


def non_finite(data: NDArray[np.uint8]) -> bool:
    return non_finite_halves(data.view("<u2").reshape(-1, 17)[:, 0])
