"""Floating-point numbers, little endian, as they are: a block is one value."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from llm_lite.core.quant.blocks.codec import Codec, non_finite_halves


class F32(Codec):
    """IEEE 754 binary32."""

    BLOCK_SIZE = 1
    BLOCK = np.dtype("<f4")
    assert BLOCK.itemsize == 4

    @classmethod
    def quantize(cls, values: NDArray[np.float32]) -> NDArray[np.uint8]:
        return np.ascontiguousarray(values, dtype=cls.BLOCK).reshape(-1).view(np.uint8)

    @classmethod
    def dequantize(cls, data: NDArray[np.uint8], shape: tuple[int, ...]) -> NDArray[np.float32]:
        return data.view(cls.BLOCK).astype(np.float32).reshape(shape)

    @classmethod
    def non_finite(cls, data: NDArray[np.uint8]) -> bool:
        magnitude = data.view("<u4") & np.uint32(0x7FFFFFFF)
        return bool(magnitude.max(initial=0) >= 0x7F800000)


class F16(Codec):
    """IEEE 754 binary16."""

    BLOCK_SIZE = 1
    BLOCK = np.dtype("<f2")
    assert BLOCK.itemsize == 2

    @classmethod
    def quantize(cls, values: NDArray[np.float32]) -> NDArray[np.uint8]:
        """Round to nearest even; beyond 65504 becomes infinite, which `non_finite` finds."""
        with np.errstate(over="ignore"):
            return np.ascontiguousarray(values).astype(cls.BLOCK).reshape(-1).view(np.uint8)

    @classmethod
    def dequantize(cls, data: NDArray[np.uint8], shape: tuple[int, ...]) -> NDArray[np.float32]:
        return data.view(cls.BLOCK).astype(np.float32).reshape(shape)

    @classmethod
    def non_finite(cls, data: NDArray[np.uint8]) -> bool:
        return non_finite_halves(data.view("<u2"))


class BF16(Codec):
    """The upper half of an IEEE 754 binary32."""

    BLOCK_SIZE = 1
    BLOCK = np.dtype("<u2")
    assert BLOCK.itemsize == 2

    @classmethod
    def quantize(cls, values: NDArray[np.float32]) -> NDArray[np.uint8]:
        """Round to nearest even; a NaN stays a (quiet) NaN."""
        bits = np.ascontiguousarray(values, dtype=np.float32).reshape(-1).view(np.uint32)
        nearest_even = np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))
        rounded = (bits + nearest_even) >> np.uint32(16)
        quiet_nan = (bits >> np.uint32(16)) | np.uint32(0x40)
        is_nan = (bits & np.uint32(0x7FFFFFFF)) > np.uint32(0x7F800000)
        return np.where(is_nan, quiet_nan, rounded).astype(cls.BLOCK).view(np.uint8)

    @classmethod
    def dequantize(cls, data: NDArray[np.uint8], shape: tuple[int, ...]) -> NDArray[np.float32]:
        bits = data.view(cls.BLOCK).astype(np.uint32) << np.uint32(16)
        return bits.view(np.float32).reshape(shape)

    @classmethod
    def non_finite(cls, data: NDArray[np.uint8]) -> bool:
        return bool((data.view(cls.BLOCK) & np.uint16(0x7FFF)).max(initial=0) >= 0x7F80)
