"""Blocks of 32 values with one scale, the first formats of ggml, "legacy" there: Q4_0 to Q8_0."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from llm_lite.core.quant.blocks.codec import (
    Codec,
    cut_to_fives,
    pack_fives,
    pack_nibbles,
    reciprocal,
    to_levels,
    unpack_fives,
    unpack_nibbles,
)


class Q4_0(Codec):
    """32 values as 4-bit levels around 8, times one float16 scale (4.5 bits each)."""

    BLOCK_SIZE = 32
    BLOCK = np.dtype([("d", "<f2"), ("qs", "u1", (16,))])
    assert BLOCK.itemsize == 18
    HALVES = 0

    @classmethod
    def quantize(cls, values: NDArray[np.float32]) -> NDArray[np.uint8]:
        """Quantize values: the one of largest magnitude becomes level 0, that is -8 steps of
        d = value / -8."""
        blocks = np.ascontiguousarray(values, dtype=np.float32).reshape(-1, cls.BLOCK_SIZE)
        largest = np.abs(blocks).argmax(axis=1, keepdims=True)
        d = np.take_along_axis(blocks, largest, axis=1) / np.float32(-8)
        out = np.empty(blocks.shape[0], cls.BLOCK)
        with np.errstate(over="ignore", invalid="ignore"):
            out["d"] = d[:, 0]
            out["qs"] = pack_nibbles(to_levels(blocks * reciprocal(d) + np.float32(8)))
        return out.view(np.uint8)

    @classmethod
    def dequantize(cls, data: NDArray[np.uint8], shape: tuple[int, ...]) -> NDArray[np.float32]:
        blocks = data.view(cls.BLOCK)
        values = unpack_nibbles(blocks["qs"]).astype(np.float32)
        values -= np.float32(8)
        values *= blocks["d"].astype(np.float32)[:, None]
        return values.reshape(shape)


class Q4_1(Codec):
    """32 values as 4-bit levels times a float16 step plus a float16 minimum (5 bits)."""

    BLOCK_SIZE = 32
    BLOCK = np.dtype([("d", "<f2"), ("m", "<f2"), ("qs", "u1", (16,))])
    assert BLOCK.itemsize == 20
    HALVES = slice(2)

    @classmethod
    def quantize(cls, values: NDArray[np.float32]) -> NDArray[np.uint8]:
        """Quantize values: level 0 is the block's minimum, level 15 its maximum."""
        blocks = np.ascontiguousarray(values, dtype=np.float32).reshape(-1, cls.BLOCK_SIZE)
        m = blocks.min(axis=1, keepdims=True)
        out = np.empty(blocks.shape[0], cls.BLOCK)
        with np.errstate(over="ignore", invalid="ignore"):
            d = (blocks.max(axis=1, keepdims=True) - m) / np.float32(15)
            out["d"] = d[:, 0]
            out["m"] = m[:, 0]
            out["qs"] = pack_nibbles(to_levels((blocks - m) * reciprocal(d)))
        return out.view(np.uint8)

    @classmethod
    def dequantize(cls, data: NDArray[np.uint8], shape: tuple[int, ...]) -> NDArray[np.float32]:
        blocks = data.view(cls.BLOCK)
        values = unpack_nibbles(blocks["qs"]).astype(np.float32)
        values *= blocks["d"].astype(np.float32)[:, None]
        values += blocks["m"].astype(np.float32)[:, None]
        return values.reshape(shape)


class Q5_0(Codec):
    """32 values as 5-bit levels around 16, times one float16 scale (5.5 bits each).

    22 bytes: d (binary16), qh (4 bytes: bit i is bit 4 of level i), qs (16 bytes: byte i holds the
    lower bits of level i in its low nibble and of level i + 16 in its high one).
    value = d * (level - 16).
    Source: block_q5_0 of ggml-common.h, dequantize_row_q5_0 of ggml-quants.c.
    """

    BLOCK_SIZE = 32
    BLOCK = np.dtype([("d", "<f2"), ("qh", "u1", (4,)), ("qs", "u1", (16,))])
    assert BLOCK.itemsize == 22
    HALVES = 0

    @classmethod
    def quantize(cls, values: NDArray[np.float32]) -> NDArray[np.uint8]:
        """Quantize values: the one of largest magnitude becomes level 0, that is -16 steps of
        d = value / -16."""
        blocks = np.ascontiguousarray(values, dtype=np.float32).reshape(-1, cls.BLOCK_SIZE)
        largest = np.abs(blocks).argmax(axis=1, keepdims=True)
        d = np.take_along_axis(blocks, largest, axis=1) / np.float32(-16)
        out = np.empty(blocks.shape[0], cls.BLOCK)
        with np.errstate(over="ignore", invalid="ignore"):
            out["d"] = d[:, 0]
            levels = cut_to_fives(blocks * reciprocal(d) + np.float32(16.5))
        out["qh"], out["qs"] = pack_fives(levels)
        return out.view(np.uint8)

    @classmethod
    @np.errstate(invalid="ignore")  # infinity times 0
    def dequantize(cls, data: NDArray[np.uint8], shape: tuple[int, ...]) -> NDArray[np.float32]:
        blocks = data.view(cls.BLOCK)
        values = unpack_fives(blocks["qh"], blocks["qs"]).astype(np.float32)
        values -= np.float32(16)
        values *= blocks["d"].astype(np.float32)[:, None]
        return values.reshape(shape)


class Q5_1(Codec):
    """32 values as 5-bit levels times a float16 step plus a float16 minimum (6 bits).

    24 bytes: d, m (binary16), qh (4 bytes: bit i is bit 4 of level i), qs (16 bytes: byte i holds
    the lower bits of level i in its low nibble and of level i + 16 in its high one).
    value = d * level + m.
    Source: block_q5_1 of ggml-common.h, dequantize_row_q5_1 of ggml-quants.c.
    """

    BLOCK_SIZE = 32
    BLOCK = np.dtype([("d", "<f2"), ("m", "<f2"), ("qh", "u1", (4,)), ("qs", "u1", (16,))])
    assert BLOCK.itemsize == 24
    HALVES = slice(2)

    @classmethod
    def quantize(cls, values: NDArray[np.float32]) -> NDArray[np.uint8]:
        """Quantize values: level 0 is the block's minimum, level 31 its maximum."""
        blocks = np.ascontiguousarray(values, dtype=np.float32).reshape(-1, cls.BLOCK_SIZE)
        m = blocks.min(axis=1, keepdims=True)
        out = np.empty(blocks.shape[0], cls.BLOCK)
        with np.errstate(over="ignore", invalid="ignore"):
            d = (blocks.max(axis=1, keepdims=True) - m) / np.float32(31)
            out["d"] = d[:, 0]
            out["m"] = m[:, 0]
            levels = cut_to_fives((blocks - m) * reciprocal(d) + np.float32(0.5))
        out["qh"], out["qs"] = pack_fives(levels)
        return out.view(np.uint8)

    @classmethod
    @np.errstate(invalid="ignore")  # infinity times 0
    def dequantize(cls, data: NDArray[np.uint8], shape: tuple[int, ...]) -> NDArray[np.float32]:
        blocks = data.view(cls.BLOCK)
        values = unpack_fives(blocks["qh"], blocks["qs"]).astype(np.float32)
        values *= blocks["d"].astype(np.float32)[:, None]
        values += blocks["m"].astype(np.float32)[:, None]
        return values.reshape(shape)


class Q8_0(Codec):
    """32 values as int8 times one float16 scale (8.5 bits each)."""

    BLOCK_SIZE = 32
    BLOCK = np.dtype([("d", "<f2"), ("qs", "i1", (32,))])
    assert BLOCK.itemsize == 34
    HALVES = 0

    # The float32 below 0.5: added to any from 0 to 128 and cut, it rounds half up. 0.5 would take
    # the float32 below 0.5 to 1.
    _BELOW_HALF = np.float32(0.49999997)

    @classmethod
    def quantize(cls, values: NDArray[np.float32]) -> NDArray[np.uint8]:
        """d = max|x| / 127; levels are rounded half away from zero, as ggml's roundf does."""
        blocks = np.ascontiguousarray(values, dtype=np.float32).reshape(-1, cls.BLOCK_SIZE)
        d = np.abs(blocks).max(axis=1, keepdims=True) / np.float32(127)
        out = np.empty(blocks.shape[0], cls.BLOCK)
        with np.errstate(over="ignore", invalid="ignore"):
            out["d"] = d[:, 0]
            steps = blocks * reciprocal(d)
        if not np.isfinite(d).all():
            steps = np.nan_to_num(steps, posinf=0, neginf=0)
        steps += np.copysign(cls._BELOW_HALF, steps)
        out["qs"] = np.clip(steps, -127, 127, out=steps)  # cut to whole numbers
        return out.view(np.uint8)

    @classmethod
    def dequantize(cls, data: NDArray[np.uint8], shape: tuple[int, ...]) -> NDArray[np.float32]:
        blocks = data.view(cls.BLOCK)
        values = blocks["qs"].astype(np.float32)
        values *= blocks["d"].astype(np.float32)[:, None]
        return values.reshape(shape)
