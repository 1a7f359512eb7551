"""The common part of 4-bit and 5-bit formats: 32 values of 4 bits are 16 bytes, low nibbles first.

Byte i holds element i in its low nibble and element i + 16 in its high nibble. Of 5 bits the fifth
lies apart, bit i of 4 bytes that of element i.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def pack(levels: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Pack levels [n, 32] in 0..15 -> [n, 16]."""
    return levels[:, :16] | (levels[:, 16:] << np.uint8(4))


def unpack(packed: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Unpack [n, 16] -> levels [n, 32] in 0..15."""
    levels = np.empty((packed.shape[0], 32), np.uint8)
    np.bitwise_and(packed, 0x0F, out=levels[:, :16])
    np.right_shift(packed, 4, out=levels[:, 16:])
    return levels


def pack_fives(levels: NDArray[np.uint8]) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Pack levels [n, 32] in 0..31 -> fifth bits [n, 4] and nibbles [n, 16]."""
    fifth = np.packbits(levels >> np.uint8(4), axis=1, bitorder="little")
    return fifth, pack(levels & np.uint8(15))


def unpack_fives(fifth: NDArray[np.uint8], packed: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Invert `pack_fives`."""
    levels = unpack(packed)
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


def inverse(scale: NDArray[np.float32]) -> NDArray[np.float32]:
    """1 / scale, and 0 where the scale is zero once stored in float16."""
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        return np.where(scale.astype(np.float16) == 0, np.float32(0), np.float32(1) / scale)
