"""The common part of ggml's blocks: small numbers in planes of bits over the same bytes.

Plane p of m bytes holds the bits from p * bits on of each: so many numbers lie in the first plane,
the next m in the second, and so on.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

U8 = NDArray[np.uint8]


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


def six_bit_scales(packed: U8) -> tuple[U8, U8]:
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


def nibble_pairs(packed: U8) -> U8:
    """[..., m] -> [..., 2 * m], the low nibble of a byte before its high one."""
    out = np.empty((*packed.shape[:-1], packed.shape[-1], 2), np.uint8)
    np.bitwise_and(packed, np.uint8(15), out=out[..., 0])
    np.right_shift(packed, np.uint8(4), out=out[..., 1])
    return out.reshape(*packed.shape[:-1], -1)
