"""The base class of codecs, and the packing of small numbers in bytes that formats share.

Planes: plane p of m bytes holds the bits from p * bits on of each. So many numbers lie in the first
plane, the next m in the second, and so on.
Nibbles: 32 values of 4 bits are 16 bytes. Byte i holds element i in its low nibble and element
i + 16 in its high one. Of 5 bits the fifth lies apart, bit i of 4 bytes that of element i.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

U8 = NDArray[np.uint8]


class Codec(ABC):
    """A format: how values become blocks of bytes and back. It has `quantize` where it is
    written, too."""

    BLOCK_SIZE: ClassVar[int]  # values
    BLOCK: ClassVar[np.dtype[Any]]
    HALVES: ClassVar[int | slice]  # which 16-bit words of a block are its binary16 numbers

    @classmethod
    @abstractmethod
    def dequantize(cls, data: U8, shape: tuple[int, ...]) -> NDArray[np.float32]:
        """Return float32 [*shape] of the bytes of whole blocks."""

    @classmethod
    def non_finite(cls, data: U8) -> bool:
        """Return True if a value or a block's scale is NaN or infinite."""
        words = data.view("<u2").reshape(-1, cls.BLOCK.itemsize // 2)
        return non_finite_halves(words[:, cls.HALVES])


def non_finite_halves(bits: NDArray[np.uint16]) -> bool:
    """True if any binary16 bit pattern is an infinity or NaN; integers are ten times quicker."""
    return bool((bits & np.uint16(0x7FFF)).max(initial=0) >= 0x7C00)


def planes(packed: U8, bits: int) -> U8:
    """[..., m] -> [..., 8 / bits, m], numbers of 1, 2 or 4 bits."""
    out = np.empty((*packed.shape[:-1], 8 // bits, packed.shape[-1]), np.uint8)
    for plane in range(8 // bits):
        np.right_shift(packed, np.uint8(plane * bits), out=out[..., plane, :])
    out &= np.uint8((1 << bits) - 1)
    return out


def bits_of(packed: U8) -> U8:
    """[..., m] -> 0 or 1 [..., 8 * m], the lowest bit of a byte first."""
    return np.unpackbits(packed, axis=-1, bitorder="little")


def nibble_pairs(packed: U8) -> U8:
    """[..., m] -> [..., 2 * m], the low nibble of a byte before its high one."""
    out = np.empty((*packed.shape[:-1], packed.shape[-1], 2), np.uint8)
    np.bitwise_and(packed, np.uint8(15), out=out[..., 0])
    np.right_shift(packed, np.uint8(4), out=out[..., 1])
    return out.reshape(*packed.shape[:-1], -1)


def pack_nibbles(levels: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Pack levels [n, 32] in 0..15 -> [n, 16]."""
    return levels[:, :16] | (levels[:, 16:] << np.uint8(4))


def unpack_nibbles(packed: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Unpack [n, 16] -> levels [n, 32] in 0..15."""
    levels = np.empty((packed.shape[0], 32), np.uint8)
    np.bitwise_and(packed, 0x0F, out=levels[:, :16])
    np.right_shift(packed, 4, out=levels[:, 16:])
    return levels


def pack_fives(levels: NDArray[np.uint8]) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Pack levels [n, 32] in 0..31 -> fifth bits [n, 4] and nibbles [n, 16]."""
    fifth = np.packbits(levels >> np.uint8(4), axis=1, bitorder="little")
    return fifth, pack_nibbles(levels & np.uint8(15))


def unpack_fives(fifth: NDArray[np.uint8], packed: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Invert `pack_fives`."""
    levels = unpack_nibbles(packed)
    levels |= np.unpackbits(fifth, axis=1, bitorder="little") << np.uint8(4)
    return levels


def cut_to_fives(steps: NDArray[np.float32]) -> NDArray[np.uint8]:
    """Cut off the fractions and limit to 0..31; a non-finite block becomes 0 (its scale tells)."""
    whole = np.trunc(np.nan_to_num(steps, posinf=0, neginf=0))
    return whole.clip(0, 31).astype(np.uint8)


def to_levels(steps: NDArray[np.float32]) -> NDArray[np.uint8]:
    """Round half up to 0..15; a non-finite block becomes 0 (its scale tells)."""
    whole = np.trunc(np.nan_to_num(steps, posinf=0, neginf=0) + np.float32(0.5))
    return whole.clip(0, 15).astype(np.uint8)


def reciprocal(scale: NDArray[np.float32]) -> NDArray[np.float32]:
    """1 / scale, and 0 where the scale is zero once stored in float16."""
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        return np.where(scale.astype(np.float16) == 0, np.float32(0), np.float32(1) / scale)
