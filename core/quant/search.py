"""The search for the best blocks of int4 and int8: the definition in NumPy.

A block's error is the sum over its columns of importance * (value - decoded value)^2, added up in
float32, column by column, without fused operations: kernels_cpp/quantizer/search.cpp gives the same
bytes in a hundredth of the time. Of equal candidates the first wins.

int4: a step d that spreads 16 levels over the whole block is seldom best, because few values lie
far out. Steps from a little above that one to about half of it are tried, and for each the zero
points around the one that cuts off both ends alike; then the neighbours of the best.
int8: float16 steps around max|x| / 127.
"""

from __future__ import annotations

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from llm_lite.core.quant.blocks import tiles
from llm_lite.core.quant.blocks.tiles import INT4, INT8
from llm_lite.core.quant.formats import COLUMNS

F32 = NDArray[np.float32]
I32 = NDArray[np.int32]

# int4: codes of d above and below that of the whole range, the stride between them, quarters of z
# to each side of the middle, rounds of trying the neighbours.
_WIDEN_4, _NARROW_4, _STRIDE_4, _SHIFTS_4, _ROUNDS_4 = 2, 30, 3, 1, 2
# int8: float16 numbers above and below max|x| / 127
_WIDEN_8, _NARROW_8 = 4, 28

_LARGEST_STEP_4 = (INT4.INFINITE << 5) - 1
_INFINITE_HALF = 0x7C00
_ONE = np.float32(1)


def quantize_int4(values: F32, importance: F32) -> NDArray[np.uint8]:
    """values [N, K], importance [K] >= 0 -> tiles; a block that is not finite keeps d infinite."""
    blocks, finite = _finite_blocks(values)
    low = np.minimum(blocks.min(axis=2), np.float32(0))
    high = np.maximum(blocks.max(axis=2), np.float32(0))
    with np.errstate(over="ignore"):
        span = high - low
    full = INT4.encode_step(span / np.float32(15)).astype(np.int32)
    best = _search_int4(_Weighted(blocks, importance), low, span, full)
    infinite = (full > _LARGEST_STEP_4) | ~finite
    usable = ~infinite & (full > 0)
    steps = np.where(usable, best.step, 0).astype(np.uint16)
    zeros = np.where(usable, best.quarters, 0).astype(np.uint8)
    inverse = _ONE / INT4.decode_step(best.step.astype(np.uint16))
    z = best.quarters.astype(np.float32) * np.float32(0.25)
    with np.errstate(over="ignore"):
        levels = _levels_4(blocks * inverse[..., None] + z[..., None])
    steps[infinite] = _LARGEST_STEP_4 + 1
    return INT4.pack(steps, zeros, np.where(usable[..., None], levels, 0).astype(np.uint8))


def quantize_int8(values: F32, importance: F32) -> NDArray[np.uint8]:
    """values [N, K], importance [K] >= 0 -> tiles; a block that is not finite keeps d infinite."""
    blocks, finite = _finite_blocks(values)
    weighted = _Weighted(blocks, importance)
    with np.errstate(over="ignore"):
        largest = (np.abs(blocks).max(axis=2) / np.float32(127)).astype(np.float16)
    full = largest.view(np.uint16).astype(np.int32)
    best, least = np.ones_like(full), np.full(full.shape, np.inf, np.float32)
    for shift in range(_WIDEN_8, -_NARROW_8 - 1, -1):
        bits = (full + shift).clip(1, _INFINITE_HALF - 1)
        error = weighted.error(_half(bits), None, _levels_8)
        best, least = np.where(error < least, bits, best), np.minimum(error, least)
    infinite = (full >= _INFINITE_HALF) | ~finite
    usable = ~infinite & (full > 0)
    with np.errstate(over="ignore"):
        levels = _levels_8(blocks * (_ONE / _half(best))[..., None])
    levels = np.where(usable[..., None], levels, 0)
    steps = np.where(infinite, _INFINITE_HALF, np.where(usable, best, 0))
    return INT8.pack(steps.astype(np.uint16).view(np.float16), levels.astype(np.int8))


class _Candidates(Struct):
    """The best so far of each block [N, K / 32]."""

    step: I32  # code of d
    quarters: I32  # of z
    error: F32

    def offer(self, step: I32, quarters: I32, weighted: _Weighted) -> None:
        step, quarters = step.clip(1, _LARGEST_STEP_4), quarters.clip(0, 63)
        d = INT4.decode_step(step.astype(np.uint16))
        z = quarters.astype(np.float32) * np.float32(0.25)
        error = weighted.error(d, z, _levels_4)
        better = error < self.error
        self.step = np.where(better, step, self.step)
        self.quarters = np.where(better, quarters, self.quarters)
        self.error = np.where(better, error, self.error)


class _Weighted:
    def __init__(self, blocks: F32, importance: F32) -> None:
        self.columns = np.moveaxis(blocks, 2, 0)  # [32, N, K / 32]
        self.importance = np.ascontiguousarray(importance.reshape(-1, COLUMNS).T)

    def error(self, d: F32, z: F32 | None, levels: object) -> F32:
        """Return the weighted squared error of each block for d, z [N, K / 32]."""
        assert callable(levels)
        inverse = _ONE / d
        total = np.zeros_like(d)
        with np.errstate(over="ignore", invalid="ignore"):
            for values, weight in zip(self.columns, self.importance, strict=True):
                steps = values * inverse
                if z is not None:
                    steps = steps + z
                off = steps - levels(steps)
                total = total + off * off * weight
            return np.asarray(total * (d * d))


def _search_int4(weighted: _Weighted, low: F32, span: F32, full: I32) -> _Candidates:
    best = _Candidates(
        np.ones_like(full), np.zeros_like(full), np.full(full.shape, np.inf, np.float32)
    )
    for down in range(_WIDEN_4, -_NARROW_4 - 1, -_STRIDE_4):
        step = (full + down).clip(1, _LARGEST_STEP_4)
        inverse = _ONE / INT4.decode_step(step.astype(np.uint16))
        with np.errstate(over="ignore", invalid="ignore"):
            cut = span * inverse - np.float32(15)
            middle = -low * inverse - cut * np.float32(0.5)
            quarters = np.nan_to_num(middle * np.float32(4)).clip(0, 63)
        for shift in range(-_SHIFTS_4, _SHIFTS_4 + 2):
            best.offer(step, quarters.astype(np.int32) + shift, weighted)
    for _ in range(_ROUNDS_4):
        step, zero = best.step, best.quarters
        for up in (-1, 0, 1):
            for shift in (-1, 0, 1):
                if up or shift:
                    best.offer(step + up, zero + shift, weighted)
    return best


def _levels_4(steps: F32) -> F32:
    """Round to levels, halves up."""
    return np.trunc(steps.clip(0, 15) + np.float32(0.5))


def _levels_8(steps: F32) -> F32:
    """Round to levels, halves to even."""
    return np.rint(steps.clip(-127, 127))


def _half(bits: I32) -> F32:
    return bits.astype(np.uint16).view(np.float16).astype(np.float32)


def _finite_blocks(values: F32) -> tuple[F32, NDArray[np.bool_]]:
    """Return blocks [N padded, K / 32, 32], zero where a value of a block is not finite, and which
    blocks are finite."""
    blocks = tiles.blocks_of(values)
    finite: NDArray[np.bool_] = np.all(np.isfinite(blocks), axis=2)
    return np.where(finite[..., None], blocks, np.float32(0)), finite
