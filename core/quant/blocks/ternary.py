"""Formats of signs and of trits: a value is its block's magnitude, its negative or 0."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from llm_lite.core.quant.blocks.codec import Codec, bits_of, planes, reciprocal

_SUPER_BLOCK = 256  # values of TQ1_0 and TQ2_0


def _to_trits(values: NDArray[np.float32]) -> tuple[NDArray[np.float16], NDArray[np.uint8]]:
    """Return magnitudes [n], the largest of each block, and 0, 1 or 2 [n, 256], rounded half away
    from 1; a block that is not finite becomes 1 (its magnitude tells)."""
    blocks = np.ascontiguousarray(values, dtype=np.float32).reshape(-1, _SUPER_BLOCK)
    largest = np.abs(blocks).max(axis=1, keepdims=True)
    with np.errstate(over="ignore", invalid="ignore"):
        steps = np.nan_to_num(blocks * reciprocal(largest), posinf=0, neginf=0)
        trits = 1 + (steps >= 0.5).astype(np.int8) - (steps <= -0.5).astype(np.int8)
        return largest[:, 0].astype(np.float16), trits.astype(np.uint8)


@np.errstate(invalid="ignore")  # infinity times 0
def _from_trits(
    d: NDArray[np.float16], trits: NDArray[np.uint8], shape: tuple[int, ...]
) -> NDArray[np.float32]:
    """Return float32 values; trits [n, 256] in 0..2."""
    values = trits.astype(np.float32)
    values -= np.float32(1)
    values *= d.astype(np.float32)[:, None]
    return values.reshape(shape)


class Q1_0(Codec):
    """The signs of 128 values, times one float16 magnitude (1.125 bits each).

    18 bytes: d (binary16), qs (16 bytes, a bit a value, the lowest of a byte first).
    value = d where its bit is set, else -d.
    Source: block_q1_0 of ggml-common.h, dequantize_row_q1_0 of ggml-quants.c.
    """

    BLOCK_SIZE = 128
    BLOCK = np.dtype([("d", "<f2"), ("qs", "u1", (16,))])
    assert BLOCK.itemsize == 18
    HALVES = 0

    @classmethod
    @np.errstate(invalid="ignore")  # infinity times 0
    def dequantize(cls, data: NDArray[np.uint8], shape: tuple[int, ...]) -> NDArray[np.float32]:
        blocks = data.view(cls.BLOCK)
        values = bits_of(blocks["qs"]).astype(np.float32)
        values *= np.float32(2)
        values -= np.float32(1)
        values *= blocks["d"].astype(np.float32)[:, None]
        return values.reshape(shape)


class TQ1_0(Codec):
    """256 ternary values, five in a byte, times one float16 magnitude (1.6875 bits).

    54 bytes: qs (48 bytes), qh (4 bytes), d (binary16). A byte b is a fraction b / 256, whose
    digits in base 3 are its trits: multiplied by 3 without its whole part it has the next one
    before the point. Digit p of bytes 0-31 is trit 32 p + i, of bytes 32-47 trit 160 + 16 p + i,
    and of qh, which has four, trit 240 + 4 p + i. value = d * (trit - 1).
    Source: block_tq1_0 of ggml-common.h, dequantize_row_tq1_0 of ggml-quants.c.
    """

    BLOCK_SIZE = _SUPER_BLOCK
    BLOCK = np.dtype([("qs", "u1", (48,)), ("qh", "u1", (4,)), ("d", "<f2")])
    assert BLOCK.itemsize == 54
    HALVES = 26
    _PARTS = ((0, 32, 5), (32, 48, 5), (48, 52, 4))  # of 52 bytes: first, end, digits of each

    @classmethod
    def quantize(cls, values: NDArray[np.float32]) -> NDArray[np.uint8]:
        """Quantize values; the magnitude is the largest one."""
        d, levels = _to_trits(values)
        out = np.empty(len(d), cls.BLOCK)
        out["d"] = d
        packed, at = [], 0
        for first, end, digits in cls._PARTS:
            count = (end - first) * digits
            part = levels[:, at : at + count].reshape(-1, digits, end - first)
            weights = 3 ** np.arange(4, 4 - digits, -1)
            whole = (part * weights[:, None]).sum(axis=1)
            packed.append((whole * 256 + 242) // 243)
            at += count
        found = np.concatenate(packed, axis=1)
        out["qs"], out["qh"] = found[:, :48], found[:, 48:]
        return out.view(np.uint8)

    @classmethod
    def dequantize(cls, data: NDArray[np.uint8], shape: tuple[int, ...]) -> NDArray[np.float32]:
        blocks = data.view(cls.BLOCK)
        packed = data.reshape(-1, cls.BLOCK.itemsize)
        levels, at = np.empty((len(blocks), cls.BLOCK_SIZE), np.uint8), 0
        for first, end, digits in cls._PARTS:
            rest = packed[:, first:end]
            for _ in range(digits):
                tripled = rest.astype(np.uint16) * np.uint16(3)
                levels[:, at : at + end - first] = tripled >> np.uint16(8)
                rest = tripled.astype(np.uint8)
                at += end - first
        return _from_trits(blocks["d"], levels, shape)


class TQ2_0(Codec):
    """256 ternary values of two bits, times one float16 magnitude (2.0625 bits each).

    66 bytes: qs (two times 32 bytes: trit 32 p + i of a half is bits 2 p, 2 p + 1 of byte i), d
    (binary16). value = d * (trit - 1).
    Source: block_tq2_0 of ggml-common.h, dequantize_row_tq2_0 of ggml-quants.c.
    """

    BLOCK_SIZE = _SUPER_BLOCK
    BLOCK = np.dtype([("qs", "u1", (2, 32)), ("d", "<f2")])
    assert BLOCK.itemsize == 66
    HALVES = 32

    @classmethod
    def quantize(cls, values: NDArray[np.float32]) -> NDArray[np.uint8]:
        """Quantize values; the magnitude is the largest one."""
        d, levels = _to_trits(values)
        out = np.empty(len(d), cls.BLOCK)
        out["d"] = d
        shifts = np.arange(0, 8, 2, dtype=np.uint8)[:, None]
        out["qs"] = np.bitwise_or.reduce(levels.reshape(-1, 2, 4, 32) << shifts, axis=2)
        return out.view(np.uint8)

    @classmethod
    def dequantize(cls, data: NDArray[np.uint8], shape: tuple[int, ...]) -> NDArray[np.float32]:
        blocks = data.view(cls.BLOCK)
        levels = planes(blocks["qs"], 2).reshape(-1, cls.BLOCK_SIZE)
        return _from_trits(blocks["d"], levels, shape)
