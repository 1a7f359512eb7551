"""K-quants of ggml: super-blocks of 256 values, in blocks of 16 or 32 that have own scales."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from llm_lite.core.quant.blocks.codec import U8, Codec, planes


def _six_bit_scales(packed: U8) -> tuple[U8, U8]:
    """Unpack the 12 bytes of Q4_K and Q5_K, [n, 12] -> scales [n, 8] and minimums [n, 8] in 0..63.

    Bytes 0-3: scales 0-3 in six bits, above them the highest two bits of scales 4-7. Bytes 4-7: the
    minimums likewise. Bytes 8-11: the lower four bits of scales 4-7, above them those of minimums.
    """
    first, last = packed[:, :8].reshape(-1, 2, 4), packed[:, 8:]
    out = np.empty((len(packed), 2, 2, 4), np.uint8)  # scales or minimums, 0-3 or 4-7
    out[:, :, 0] = first & np.uint8(63)
    out[:, :, 1] = first >> np.uint8(2) & np.uint8(0x30)
    out[:, 0, 1] |= last & np.uint8(15)
    out[:, 1, 1] |= last >> np.uint8(4)
    found = out.reshape(-1, 2, 8)
    return found[:, 0], found[:, 1]


class Q2_K(Codec):
    """256 values as 2-bit levels, each 16 with a 4-bit scale and minimum (2.625 bits).

    84 bytes: scales (16 bytes: the scale of 16 values in the low nibble, their minimum in the high
    one), qs (two times 32 bytes: value 32 p + i of a half is bits 2 p, 2 p + 1 of byte i), d, dmin
    (binary16). value = d * scale * level - dmin * minimum.
    Source: block_q2_K of ggml-common.h, dequantize_row_q2_K of ggml-quants.c.
    """

    BLOCK_SIZE = 256
    BLOCK = np.dtype(
        [("scales", "u1", (16,)), ("qs", "u1", (2, 32)), ("d", "<f2"), ("dmin", "<f2")]
    )
    assert BLOCK.itemsize == 84
    HALVES = slice(40, 42)

    @classmethod
    @np.errstate(invalid="ignore")  # infinity times 0
    def dequantize(cls, data: NDArray[np.uint8], shape: tuple[int, ...]) -> NDArray[np.float32]:
        blocks = data.view(cls.BLOCK)
        scales = planes(blocks["scales"], 4).astype(np.float32)  # [n, scale or minimum, 16]
        steps = scales[:, 0] * blocks["d"].astype(np.float32)[:, None]
        minimums = scales[:, 1] * blocks["dmin"].astype(np.float32)[:, None]
        values = planes(blocks["qs"], 2).astype(np.float32).reshape(-1, 16, 16)
        values *= steps[..., None]
        values -= minimums[..., None]
        return values.reshape(shape)


class Q3_K(Codec):
    """256 values as 3-bit levels around 4, each 16 with a 6-bit scale (3.4375 bits).

    110 bytes: hmask (32 bytes: bit 2 of level 32 k + i is bit k of byte i), qs (two times 32 bytes:
    the lower bits of level 32 p + i of a half are bits 2 p, 2 p + 1 of byte i), scales (12 bytes:
    the lower four bits of scales 0-7 in the low nibbles of bytes 0-7, of scales 8-15 in the high
    ones; the upper two bits of scale 4 p + j are bits 2 p, 2 p + 1 of byte 8 + j), d (binary16).
    value = d * (scale - 32) * (level - 4).
    Source: block_q3_K of ggml-common.h, dequantize_row_q3_K of ggml-quants.c.
    """

    BLOCK_SIZE = 256
    BLOCK = np.dtype(
        [("hmask", "u1", (32,)), ("qs", "u1", (2, 32)), ("scales", "u1", (12,)), ("d", "<f2")]
    )
    assert BLOCK.itemsize == 110
    HALVES = 54

    @classmethod
    @np.errstate(invalid="ignore")  # infinity times 0
    def dequantize(cls, data: NDArray[np.uint8], shape: tuple[int, ...]) -> NDArray[np.float32]:
        blocks = data.view(cls.BLOCK)
        count = len(blocks)
        packed = blocks["scales"]
        scales = planes(packed[:, :8], 4).reshape(count, 16)
        scales |= planes(packed[:, 8:], 2).reshape(count, 16) << np.uint8(4)
        levels = planes(blocks["qs"], 2).reshape(count, 8, 32)
        levels |= planes(blocks["hmask"], 1) << np.uint8(2)
        values = levels.astype(np.float32).reshape(count, 16, 16)
        values -= np.float32(4)
        steps = scales.astype(np.float32) - np.float32(32)
        steps *= blocks["d"].astype(np.float32)[:, None]
        values *= steps[..., None]
        return values.reshape(shape)


class Q4_K(Codec):
    """256 values as 4-bit levels, each 32 with a 6-bit scale and minimum (4.5 bits).

    144 bytes: d, dmin (binary16), scales (12 bytes, see `_six_bit_scales`), qs (four times 32
    bytes: byte i of part j holds level 64 j + i in its low nibble and level 64 j + 32 + i in its
    high one). value = d * scale * level - dmin * minimum.
    Source: block_q4_K of ggml-common.h, dequantize_row_q4_K of ggml-quants.c.
    """

    BLOCK_SIZE = 256
    BLOCK = np.dtype(
        [("d", "<f2"), ("dmin", "<f2"), ("scales", "u1", (12,)), ("qs", "u1", (4, 32))]
    )
    assert BLOCK.itemsize == 144
    HALVES = slice(2)

    @classmethod
    @np.errstate(invalid="ignore")  # infinity times 0
    def dequantize(cls, data: NDArray[np.uint8], shape: tuple[int, ...]) -> NDArray[np.float32]:
        blocks = data.view(cls.BLOCK)
        scales, minimums = _six_bit_scales(blocks["scales"])
        values = planes(blocks["qs"], 4).astype(np.float32).reshape(-1, 8, 32)
        values *= (scales * blocks["d"].astype(np.float32)[:, None])[..., None]
        values -= (minimums * blocks["dmin"].astype(np.float32)[:, None])[..., None]
        return values.reshape(shape)


class Q5_K(Codec):
    """256 values as 5-bit levels, each 32 with a 6-bit scale and minimum (5.5 bits).

    176 bytes: d, dmin (binary16), scales (12 bytes, see `_six_bit_scales`), qh (32 bytes: bit 4
    of level 32 k + i is bit k of byte i), qs (four times 32 bytes: byte i of part j holds the
    lower bits of level 64 j + i in its low nibble and of level 64 j + 32 + i in its high one).
    value = d * scale * level - dmin * minimum.
    Source: block_q5_K of ggml-common.h, dequantize_row_q5_K of ggml-quants.c.
    """

    BLOCK_SIZE = 256
    BLOCK = np.dtype(
        [
            ("d", "<f2"),
            ("dmin", "<f2"),
            ("scales", "u1", (12,)),
            ("qh", "u1", (32,)),
            ("qs", "u1", (4, 32)),
        ]
    )
    assert BLOCK.itemsize == 176
    HALVES = slice(2)

    @classmethod
    @np.errstate(invalid="ignore")  # infinity times 0
    def dequantize(cls, data: NDArray[np.uint8], shape: tuple[int, ...]) -> NDArray[np.float32]:
        blocks = data.view(cls.BLOCK)
        scales, minimums = _six_bit_scales(blocks["scales"])
        levels = planes(blocks["qs"], 4).reshape(-1, 8, 32)
        levels |= planes(blocks["qh"], 1) << np.uint8(4)
        values = levels.astype(np.float32)
        values *= (scales * blocks["d"].astype(np.float32)[:, None])[..., None]
        values -= (minimums * blocks["dmin"].astype(np.float32)[:, None])[..., None]
        return values.reshape(shape)


class Q6_K(Codec):
    """256 values as 6-bit levels around 32, each 16 with an int8 scale (6.5625 bits).

    210 bytes: ql (two times 64 bytes: byte i holds the lower bits of level i of a half in its low
    nibble and of level 64 + i in its high one), qh (two times 32 bytes: the upper bits of level
    32 p + i of a half are bits 2 p, 2 p + 1 of byte i), scales (16 int8), d (binary16).
    value = d * scale * (level - 32).
    Source: block_q6_K of ggml-common.h, dequantize_row_q6_K of ggml-quants.c.
    """

    BLOCK_SIZE = 256
    BLOCK = np.dtype(
        [("ql", "u1", (2, 64)), ("qh", "u1", (2, 32)), ("scales", "i1", (16,)), ("d", "<f2")]
    )
    assert BLOCK.itemsize == 210
    HALVES = 104

    @classmethod
    @np.errstate(invalid="ignore")  # infinity times 0
    def dequantize(cls, data: NDArray[np.uint8], shape: tuple[int, ...]) -> NDArray[np.float32]:
        blocks = data.view(cls.BLOCK)
        levels = planes(blocks["ql"], 4).reshape(-1, 2, 4, 32)
        levels |= planes(blocks["qh"], 2) << np.uint8(4)
        values = levels.astype(np.float32).reshape(-1, 16, 16)
        values -= np.float32(32)
        values *= (blocks["scales"] * blocks["d"].astype(np.float32)[:, None])[..., None]
        return values.reshape(shape)
