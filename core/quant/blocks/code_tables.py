"""Formats of 4-bit codes: a nibble stands for one of 16 numbers of a table."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from llm_lite.core.quant.blocks.codec import Codec, pack_nibbles, reciprocal

I8 = NDArray[np.int8]


class CodeTable:
    """A table of 16 int8 numbers."""

    def __init__(self, numbers: Sequence[int]) -> None:
        self.numbers: I8 = np.array(numbers, np.int8)
        whole = np.arange(256)
        self._low = self.numbers[whole & 15].tobytes()
        self._high = self.numbers[whole >> 4].tobytes()

    def decode(self, packed: NDArray[np.uint8], together: int) -> I8:
        """[n, bytes] -> [n, 2 * bytes]: of so many bytes the low codes first, then the high."""
        raw = packed.tobytes()
        out = np.empty((len(packed), packed.shape[1] // together, 2, together), np.int8)
        parts = out[:, :, 0].shape
        for half, table in enumerate((self._low, self._high)):
            out[:, :, half] = np.frombuffer(raw.translate(table), np.int8).reshape(parts)
        return out.reshape(len(packed), -1)


MINIFLOATS = CodeTable((0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12))
"""E2M1, doubled: a sign, two bits of exponent, one of mantissa (OCP Microscaling Formats 1.0)."""

NONLINEAR = CodeTable((-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113))
"""The levels of IQ4_NL and IQ4_XS (kvalues_iq4nl of ggml-common.h), closest together around 0."""


class IQ4_NL(Codec):
    """32 values as 4-bit codes of a fixed table, times a float16 scale (4.5 bits).

    18 bytes: d (binary16), qs (16 bytes: byte i holds code i in its low nibble and code i + 16 in
    its high one). value = d * table[code], see `NONLINEAR`.
    Source: block_iq4_nl of ggml-common.h, dequantize_row_iq4_nl of ggml-quants.c.
    """

    BLOCK_SIZE = 32
    BLOCK = np.dtype([("d", "<f2"), ("qs", "u1", (16,))])
    assert BLOCK.itemsize == 18
    HALVES = 0
    _TABLE = NONLINEAR.numbers.astype(np.float32)
    _BETWEEN = (_TABLE[1:] + _TABLE[:-1]) / np.float32(2)

    @classmethod
    def quantize(cls, values: NDArray[np.float32]) -> NDArray[np.uint8]:
        """Quantize values: the one of largest magnitude becomes code 0, that is -127 d, others
        their nearest."""
        blocks = np.ascontiguousarray(values, dtype=np.float32).reshape(-1, cls.BLOCK_SIZE)
        largest = np.abs(blocks).argmax(axis=1, keepdims=True)
        out = np.empty(blocks.shape[0], cls.BLOCK)
        with np.errstate(over="ignore", invalid="ignore"):
            d = (np.take_along_axis(blocks, largest, axis=1) / cls._TABLE[0]).astype(np.float16)
            steps = blocks * reciprocal(d.astype(np.float32))
        out["d"] = d[:, 0]
        steps = np.nan_to_num(steps, posinf=0, neginf=0)
        out["qs"] = pack_nibbles(np.searchsorted(cls._BETWEEN, steps).astype(np.uint8))
        return out.view(np.uint8)

    @classmethod
    @np.errstate(invalid="ignore")  # infinity times 0
    def dequantize(cls, data: NDArray[np.uint8], shape: tuple[int, ...]) -> NDArray[np.float32]:
        blocks = data.view(cls.BLOCK)
        values = NONLINEAR.decode(blocks["qs"], 16).astype(np.float32)
        values *= blocks["d"].astype(np.float32)[:, None]
        return values.reshape(shape)


class IQ4_XS(Codec):
    """256 values as 4-bit codes of a fixed table, a scale each 32 (4.25 bits).

    136 bytes: d (binary16), scales_h (16 bits: the upper two bits of scale k are bits 2 k,
    2 k + 1), scales_l (4 bytes: the lower bits of scale 2 j in the low nibble of byte j, of 2 j + 1
    in the high one), qs (eight times 16 bytes: byte i holds code i of 32 values in its low nibble
    and code i + 16 in its high one). value = d * (scale - 32) * table[code], see `NONLINEAR`.
    Source: block_iq4_xs of ggml-common.h, dequantize_row_iq4_xs of ggml-quants.c.
    """

    BLOCK_SIZE = 256
    BLOCK = np.dtype(
        [("d", "<f2"), ("scales_h", "<u2"), ("scales_l", "u1", (4,)), ("qs", "u1", (128,))]
    )
    assert BLOCK.itemsize == 136
    HALVES = 0

    @classmethod
    @np.errstate(invalid="ignore")  # infinity times 0
    def dequantize(cls, data: NDArray[np.uint8], shape: tuple[int, ...]) -> NDArray[np.float32]:
        blocks = data.view(cls.BLOCK)
        scales = np.empty((len(blocks), 8), np.uint8)
        scales[:, ::2] = blocks["scales_l"] & np.uint8(15)
        scales[:, 1::2] = blocks["scales_l"] >> np.uint8(4)
        upper = blocks["scales_h"][:, None] >> np.arange(0, 16, 2, dtype=np.uint16) & np.uint16(3)
        scales |= (upper << np.uint16(4)).astype(np.uint8)
        values = NONLINEAR.decode(blocks["qs"], 16).astype(np.float32).reshape(-1, 8, 32)
        steps = scales.astype(np.float32) - np.float32(32)
        steps *= blocks["d"].astype(np.float32)[:, None]
        values *= steps[..., None]
        return values.reshape(shape)


class MXFP4(Codec):
    """32 values as 4-bit floating-point numbers, times one power of two (4.25 bits each).

    17 bytes: e (E8M0: the scale is 2^(e - 127)), qs (16 bytes: byte i holds code i in its low
    nibble and code i + 16 in its high one). value = 2^(e - 128) * table[code], the table doubled,
    see `MINIFLOATS`. e = 255 says that the block is no number; ggml decodes it as 2^128.
    Source: OCP Microscaling Formats 1.0; block_mxfp4 of ggml-common.h, dequantize_row_mxfp4 of
    ggml-quants.c.
    """

    BLOCK_SIZE = 32
    BLOCK = np.dtype([("e", "u1"), ("qs", "u1", (16,))])
    assert BLOCK.itemsize == 17
    _HALF_SCALES = np.ldexp(np.float32(1), np.arange(256) - 128)
    _NOT_A_NUMBER = 255
    _MAY_OVERFLOW = 253  # 12 * 2^(253 - 128) > the largest float32
    _MAGNITUDES = MINIFLOATS.numbers[:8].astype(np.float32)
    _BETWEEN = (_MAGNITUDES[1:] + _MAGNITUDES[:-1]) / np.float32(2)

    @classmethod
    def quantize(cls, values: NDArray[np.float32]) -> NDArray[np.uint8]:
        """Quantize values: the exponent of the largest magnitude is that of the largest code;
        others become their nearest number, the smaller one of two."""
        blocks = np.ascontiguousarray(values, dtype=np.float32).reshape(-1, cls.BLOCK_SIZE)
        largest = np.abs(blocks).max(axis=1)
        finite = np.isfinite(largest)
        with np.errstate(divide="ignore"):
            exponents = np.floor(np.log2(np.where(finite, largest, 0))) + np.float32(125)
        out = np.empty(blocks.shape[0], cls.BLOCK)
        out["e"] = np.where(finite, exponents.clip(0, 254), cls._NOT_A_NUMBER)
        steps = np.where(finite[:, None], blocks, 0) / cls._HALF_SCALES[out["e"]][:, None]
        codes = np.searchsorted(cls._BETWEEN, np.abs(steps)).astype(np.uint8)
        codes[(steps < 0) & (codes > 0)] += 8
        out["qs"] = pack_nibbles(codes)
        return out.view(np.uint8)

    @classmethod
    @np.errstate(over="ignore")
    def dequantize(cls, data: NDArray[np.uint8], shape: tuple[int, ...]) -> NDArray[np.float32]:
        blocks = data.view(cls.BLOCK)
        values = MINIFLOATS.decode(blocks["qs"], 16).astype(np.float32)
        values *= cls._HALF_SCALES[blocks["e"]][:, None]
        return values.reshape(shape)

    @classmethod
    def non_finite(cls, data: NDArray[np.uint8]) -> bool:
        """Return True for a block that is no number, and for values beyond float32."""
        exponents = data.view(cls.BLOCK)["e"]
        largest = exponents.max(initial=0)
        if largest < cls._MAY_OVERFLOW or largest == cls._NOT_A_NUMBER:
            return bool(largest == cls._NOT_A_NUMBER)
        huge = data.view(cls.BLOCK)[exponents >= cls._MAY_OVERFLOW]
        return not np.isfinite(cls.dequantize(huge.view(np.uint8), (-1,))).all()


def _halves_of_e4m3() -> NDArray[np.float32]:
    """Return half the UE4M3 number of every byte."""
    codes = np.arange(256)
    exponent, mantissa = codes >> 3 & 15, (codes & 7).astype(np.float32)
    normal = np.ldexp(mantissa + np.float32(8), exponent - 11)
    scales = np.where(exponent > 0, normal, np.ldexp(mantissa, -10)).astype(np.float32)
    scales[0x7F] = 0
    return scales


class NVFP4(Codec):
    """64 values as 4-bit floating-point numbers, each 16 with an 8-bit one (4.5 bits).

    36 bytes: d (4 bytes of UE4M3: four bits of exponent with bias 7 above three of mantissa, their
    highest bit unused), qs (four times 8 bytes: byte i holds code i of 16 values in its low nibble
    and code i + 8 in its high one). value = d / 2 * table[code], doubled, see `MINIFLOATS`.
    A d of 0x7F, elsewhere not a number, is 0 in ggml: all bytes are finite values.
    Source: block_nvfp4 of ggml-common.h, dequantize_row_nvfp4 of ggml-quants.c.
    """

    BLOCK_SIZE = 64
    BLOCK = np.dtype([("d", "u1", (4,)), ("qs", "u1", (32,))])
    assert BLOCK.itemsize == 36
    _HALF_SCALES = _halves_of_e4m3()

    @classmethod
    def dequantize(cls, data: NDArray[np.uint8], shape: tuple[int, ...]) -> NDArray[np.float32]:
        blocks = data.view(cls.BLOCK)
        values = MINIFLOATS.decode(blocks["qs"], 8).astype(np.float32).reshape(-1, 4, 16)
        values *= cls._HALF_SCALES[blocks["d"]][..., None]
        return values.reshape(shape)

    @classmethod
    def non_finite(cls, data: NDArray[np.uint8]) -> bool:
        return False
