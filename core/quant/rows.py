"""Rows of state tensors as bytes, the same in every executor, and the values they stand for.

Float32 and float16 are as they are. The types of caches, i8 and i4, have a float16 scale for each
block, which is a head's values of one position.

I8. The definition, for each block of a row:

    scale = float16(max|x| / 127), to nearest even
    q     = clamp(rint(x * (1 / scale)), -127, 127), rint to nearest even; 0 where scale is 0

in float32 but for the scale. A block with a NaN or an infinity has q = 0 and a scale that is one
too, so that the failure stays visible. A row is all q, then the scales, padded to whole words.

I4: rotated heads of 4 bits a value. The definition, in float32 but for the scale:

    r     = H x: sums and differences of values h apart, for h = 1, 2, 4 ... < n, where n is the
            largest power of two that divides the block (a Hadamard matrix for each n values)
    scale = float16(max|r| / 7.5), to nearest even
    q     = clamp(floor(r * (1 / scale) + 8), 0, 15); 8 where the scale is 0
    x     = H ((q - 7.5) * scale) / n, as H is its own inverse but for the factor n

A block with a NaN or an infinity has q = 8 and a scale that is NaN. A row is all q, two in a byte,
the first in the low bits, then the scales, padded to whole words. Rows that are decoded and encoded
again keep their bytes, where scales are normal numbers of float16: products of levels and scales,
and their sums, are exact in float32.

Why I4 is so. Keys have channels that are far larger than others; one scale for a head would spend
all levels on them, and smaller blocks (32 values in llama.cpp's Q4_0) cost half a bit and help only
beside such a channel. Scales for each channel of keys (KIVI, Liu et al. 2024, arXiv:2402.02750)
belong to groups of tokens, so what a position holds would depend on what was computed beside it: a
drafted token that is verified, a truncated cache or a ring's rows would not have the bits of a step
by itself. A Hadamard rotation (QuaRot, Ashkboos et al. 2024, arXiv:2404.00456) spreads a large
channel over its head instead, and needs only the row itself. What it leaves is close to a normal
distribution, for which 16 even levels up to the largest of 64 to 256 values are near the best ones.
Over 300 positions of SmolLM2-135M's keys, with heads of 64, attention differs from that with exact
keys by 0.038 nats (mean KL divergence) at these 4.25 bits a value, by 0.107 with Q4_0 (4.5 bits),
0.059 with Q4_1 (5 bits), 0.160 with a scale a head and no rotation, and 0.007 with KIVI's channels.

Attention does not rotate the cache back: (H q) . (H k) = n q . k, and a weighted sum of values is
rotated back once.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

F32 = NDArray[np.float32]
FLOATS = {"f32": np.float32, "f16": np.float16}
SCALED = ("i8", "i4")  # with a scale for each head of a position


def encode(values: NDArray[np.float32], dtype: str, block: int = 0) -> NDArray[np.uint8]:
    """float32 [T, K] -> uint8 [T, bytes of a row], rounded to nearest even."""
    if dtype in SCALED:
        return (encode_i8 if dtype == "i8" else encode_i4)(values, block)
    with np.errstate(over="ignore"):
        return np.ascontiguousarray(values).astype(FLOATS[dtype]).view(np.uint8)


def decode(
    data: NDArray[np.uint8], dtype: str, columns: int, block: int = 0
) -> NDArray[np.float32]:
    """uint8 [T, bytes of a row] -> float32 [T, K]"""
    if dtype in SCALED:
        return (decode_i8 if dtype == "i8" else decode_i4)(data, columns, block)
    return np.ascontiguousarray(data).view(FLOATS[dtype]).astype(np.float32)


def encode_i8(x: NDArray[np.float32], block: int) -> NDArray[np.uint8]:
    """float32 [T, K] -> uint8 [T, bytes of a row]; `block` divides K and is a multiple of 4."""
    rows, columns = x.shape
    blocks = x.astype(np.float32, copy=False).reshape(rows, -1, block)
    with np.errstate(over="ignore"):
        scales = (np.abs(blocks).max(axis=2) / np.float32(127)).astype(np.float16)
    wide = scales.astype(np.float32)
    usable = np.isfinite(wide) & (wide > 0)
    inverse = np.divide(np.float32(1), wide, out=np.zeros_like(wide), where=usable)
    finite = np.where(usable[:, :, None], blocks, np.float32(0))
    q = np.rint(finite * inverse[:, :, None]).clip(-127, 127).astype(np.int8)
    out = np.zeros((rows, -(-(columns + 2 * scales.shape[1]) // 4) * 4), np.uint8)
    out[:, :columns] = q.reshape(rows, columns).view(np.uint8)
    out[:, columns : columns + 2 * scales.shape[1]] = scales.view(np.uint8)
    return out


def decode_i8(data: NDArray[np.uint8], columns: int, block: int) -> NDArray[np.float32]:
    """uint8 [T, bytes of a row] -> float32 [T, K]"""
    count = columns // block
    q = np.ascontiguousarray(data[:, :columns]).view(np.int8).reshape(-1, count, block)
    scales = np.ascontiguousarray(data[:, columns : columns + 2 * count]).view(np.float16)
    with np.errstate(invalid="ignore"):
        values = q.astype(np.float32) * scales.astype(np.float32)[:, :, None]
    return values.reshape(-1, columns)


def rotated_together(block: int) -> int:
    """Return n, the largest power of two that divides the block."""
    return block & -block


def rotate(x: F32, block: int) -> F32:
    """float32 [..., K] -> H x, each n values of a block by themselves."""
    n, y, apart = rotated_together(block), np.asarray(x, np.float32), 1
    while apart < n:
        pairs = y.reshape(-1, 2, apart)
        y = np.stack((pairs[:, 0] + pairs[:, 1], pairs[:, 0] - pairs[:, 1]), axis=1)
        apart *= 2
    return y.reshape(x.shape)


@np.errstate(over="ignore", invalid="ignore")
def encode_i4(x: F32, block: int) -> NDArray[np.uint8]:
    """float32 [T, K] -> uint8 [T, bytes of a row]; `block` divides K and is a multiple of 8."""
    rows, columns = x.shape
    blocks = rotate(x, block).reshape(rows, -1, block)
    most = np.abs(blocks).max(axis=2)
    scales = (most / np.float32(7.5)).astype(np.float16)
    scales[~np.isfinite(most)] = np.nan
    wide = scales.astype(np.float32)
    usable = np.isfinite(wide) & (wide > 0)
    inverse = np.divide(np.float32(1), wide, out=np.zeros_like(wide), where=usable)
    finite = np.where(usable[:, :, None], blocks, np.float32(0))
    steps = (finite * inverse[:, :, None]).clip(-8, 7.5)
    q = np.floor(steps + np.float32(8)).astype(np.uint8).reshape(rows, columns)
    packed, count = columns // 2, scales.shape[1]
    out = np.zeros((rows, -(-(packed + 2 * count) // 4) * 4), np.uint8)
    out[:, :packed] = q[:, 0::2] | q[:, 1::2] << 4
    out[:, packed : packed + 2 * count] = scales.view(np.uint8)
    return out


@np.errstate(over="ignore", invalid="ignore")
def decode_i4(data: NDArray[np.uint8], columns: int, block: int) -> F32:
    """uint8 [T, bytes of a row] -> float32 [T, K]"""
    packed, count = columns // 2, columns // block
    both = data[:, :packed]
    q = np.stack((both & 15, both >> 4), axis=2).reshape(-1, count, block)
    scales = np.ascontiguousarray(data[:, packed : packed + 2 * count]).view(np.float16)
    levels = q.astype(np.float32) - np.float32(7.5)
    values = (levels * scales.astype(np.float32)[:, :, None]).reshape(-1, columns)
    return rotate(values, block) * np.float32(1 / rotated_together(block))
