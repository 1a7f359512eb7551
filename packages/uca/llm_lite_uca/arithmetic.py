"""What the array computes, exactly: integers of a block, and their sum in float32.

For each output n and token t, block after block along K:

    i = sum of w * (q + zero), an integer below 2^24 in magnitude
    y = fma(i, d * scale, y)

with d * scale rounded to float32 and y from 0: as the C++ kernels of a8 sum it, whose lanes are
outputs, so that results have the same bits.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from llm_lite.core.quant.blocks import a8
from llm_lite_uca.parameters import BLOCK

F32 = NDArray[np.float32]
F64 = NDArray[np.float64]


def block_sums(weights: NDArray[np.int8], x: a8.Blocks) -> F32:
    """Return the integers of all blocks, as float32, which is exact: [blocks, T, outputs]."""
    tokens, blocks = x.scale.shape
    levels = x.q.reshape(tokens, blocks, BLOCK).astype(np.float32)
    levels += x.zero[:, :, None].astype(np.float32)
    of_block = np.ascontiguousarray(levels.transpose(1, 0, 2))
    found: F32 = np.matmul(of_block, weights.astype(np.float32).transpose(0, 2, 1))
    return found


def accumulate(y: F32, sums: F32, steps: F32, x: a8.Blocks) -> F32:
    """Return y [T, outputs] with the sums of blocks [blocks, T, outputs] added, one block after the
    other."""
    for block, of_block in enumerate(sums):
        scales = x.scale[:, block, None] * steps[block][None]
        y = fma(of_block, scales, y)
    return y


def fma(a: F32, b: F32, c: F32) -> F32:
    """a * b + c in float32, rounded once.

    In float64 the product is exact and the sum is not; rounded to odd (Boldo and Melquiond 2008,
    https://doi.org/10.1109/TC.2007.70819) it has what the second rounding needs.
    """
    product = a.astype(np.float64) * b
    total: F64 = product + c
    back = total - product
    error = (product - (total - back)) + (c - back)
    bits = total.view(np.int64)
    odd = np.where(
        (error != 0) & (bits & 1 == 0) & np.isfinite(total),
        bits + np.where((error > 0) == (total > 0), 1, -1),
        bits,
    )
    return odd.view(np.float64).astype(np.float32)
