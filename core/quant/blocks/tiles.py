"""Our own formats, int4 and int8, in tiles: a tile has the blocks of 32 values of 16 rows.

A matrix [N, K] is [N / 16, K / 32] tiles; N is padded to whole tiles, K must be a multiple of 32. A
tile has a header of 16 bits for each row, then groups of 16 words, one a row: a kernel loads the
words of 16 rows at once, a lane a row, and sums no lanes.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from llm_lite.core.quant.blocks.codec import (
    Codec,
    non_finite_halves,
    pack_nibbles,
    reciprocal,
    to_levels,
    unpack_nibbles,
)
from llm_lite.core.quant.formats import COLUMNS, TILE_ROWS


def blocks_of(values: NDArray[np.float32]) -> NDArray[np.float32]:
    """[N, K] -> [N padded with zeros, K / 32, 32]"""
    rows, columns = values.shape
    padded = np.pad(np.asarray(values, np.float32), ((0, -rows % TILE_ROWS), (0, 0)))
    return padded.reshape(-1, columns // COLUMNS, COLUMNS)


def interleave(per_row: NDArray[np.uint8], groups: int) -> NDArray[np.uint8]:
    """Return [N / 16, K / 32, groups, 16 rows, 4] of blocks' bytes [N, K / 32, 4 * groups]."""
    rows, blocks, _ = per_row.shape
    parts = per_row.reshape(rows // TILE_ROWS, TILE_ROWS, blocks, groups, 4)
    return np.ascontiguousarray(parts.transpose(0, 2, 3, 1, 4))


def deinterleave(levels: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Invert `interleave`."""
    tiles, blocks, groups, _, _ = levels.shape
    return levels.transpose(0, 3, 1, 2, 4).reshape(tiles * TILE_ROWS, blocks, 4 * groups)


def headers_to_tiles(headers: NDArray[np.uint16]) -> NDArray[np.uint16]:
    """[N, K / 32] -> [N / 16, K / 32, 16 rows]"""
    rows, blocks = headers.shape
    return headers.reshape(rows // TILE_ROWS, TILE_ROWS, blocks).transpose(0, 2, 1)


def headers_of_rows(headers: NDArray[np.uint16]) -> NDArray[np.uint16]:
    """Invert `headers_to_tiles`."""
    tiles, blocks, _ = headers.shape
    return headers.transpose(0, 2, 1).reshape(tiles * TILE_ROWS, blocks)


class INT4(Codec):
    """32 values as levels 0..15, value = d * (level - z), in tiles (4.5 bits each).

    The 16-bit header of a block is d, a binary16 without its sign and its lowest five bits of
    mantissa (5 bits exponent, 5 bits mantissa), above z in quarters of a level (6 bits, 0 to
    15.75). Every value is exact in float32. Byte b of a row's word in group j holds column 4j + b
    in its low nibble and column 16 + 4j + b in its high nibble.
    """

    BLOCK_SIZE = COLUMNS
    GROUPS = 4
    TILE = np.dtype([("headers", "<u2", (16,)), ("levels", "u1", (GROUPS, 16, 4))])
    assert TILE.itemsize == 288
    INFINITE = 0x1F  # exponent of a d that is not finite

    @classmethod
    def encode_step(cls, d: NDArray[np.float32]) -> NDArray[np.uint16]:
        """Return the header's ten bits of d >= 0, rounded to nearest, ties to even."""
        with np.errstate(over="ignore"):
            bits = d.astype(np.float16).view(np.uint16).astype(np.uint32)
        return ((bits + 15 + (bits >> 5 & 1)) >> 5).clip(0, cls.INFINITE << 5).astype(np.uint16)

    @classmethod
    def decode_step(cls, code: NDArray[np.uint16]) -> NDArray[np.float32]:
        return (code << np.uint16(5)).view(np.float16).astype(np.float32)

    @classmethod
    def pack(
        cls, steps: NDArray[np.uint16], zeros: NDArray[np.uint8], levels: NDArray[np.uint8]
    ) -> NDArray[np.uint8]:
        """Pack codes of d and quarters of z [N, K / 32], levels [N, K / 32, 32] -> [bytes]."""
        rows, blocks = steps.shape
        out = np.empty((rows // TILE_ROWS, blocks), cls.TILE)
        out["headers"] = headers_to_tiles(steps << np.uint16(6) | zeros)
        packed = pack_nibbles(levels.reshape(-1, cls.BLOCK_SIZE)).reshape(rows, blocks, 16)
        out["levels"] = interleave(packed, cls.GROUPS)
        return out.reshape(-1).view(np.uint8)

    @classmethod
    def quantize(cls, values: NDArray[np.float32]) -> NDArray[np.uint8]:
        """Quantize values: level 0 is the block's minimum or 0, level 15 its maximum or 0,
        whichever is farther out."""
        blocks = blocks_of(values)
        finite = np.all(np.isfinite(blocks), axis=2, keepdims=True)
        blocks = np.where(finite, blocks, 0)
        low, high = np.minimum(blocks.min(axis=2), 0), np.maximum(blocks.max(axis=2), 0)
        steps = cls.encode_step((high - low) / np.float32(15))
        d = cls.decode_step(steps)
        inverse = reciprocal(d)
        zeros = np.rint(-low * inverse * 4).clip(0, 63).astype(np.uint8)
        z = zeros[..., None] / np.float32(4)
        levels = to_levels(blocks * inverse[..., None] + z)
        steps[~finite[..., 0]] = cls.INFINITE << 5
        return cls.pack(steps, zeros, levels)

    @classmethod
    def dequantize(cls, data: NDArray[np.uint8], shape: tuple[int, ...]) -> NDArray[np.float32]:
        rows, columns = shape
        found = data.view(cls.TILE).reshape(-1, columns // cls.BLOCK_SIZE)
        headers = headers_of_rows(found["headers"])
        packed = deinterleave(found["levels"])
        levels = unpack_nibbles(packed.reshape(-1, 16))
        values = levels.astype(np.float32).reshape(*headers.shape, 32)
        values -= ((headers & 63) / np.float32(4))[..., None]
        values *= cls.decode_step(headers >> np.uint16(6))[..., None]
        return values.reshape(-1, columns)[:rows]

    @classmethod
    def non_finite(cls, data: NDArray[np.uint8]) -> bool:
        return bool((data.view(cls.TILE)["headers"] >> 11).max(initial=0) >= cls.INFINITE)


class INT8(Codec):
    """32 values as levels -127..127 times one float16 step, in tiles (8.5 bits each).

    The header of a block is the step. Byte b of a row's word in group g is the level of column
    4g + b.
    """

    BLOCK_SIZE = COLUMNS
    GROUPS = 8
    TILE = np.dtype([("headers", "<u2", (16,)), ("levels", "u1", (GROUPS, 16, 4))])
    assert TILE.itemsize == 544

    @classmethod
    def pack(cls, steps: NDArray[np.float16], levels: NDArray[np.int8]) -> NDArray[np.uint8]:
        """Pack d [N, K / 32], levels [N, K / 32, 32] -> the tiles' bytes."""
        rows, blocks = steps.shape
        out = np.empty((rows // TILE_ROWS, blocks), cls.TILE)
        out["headers"] = headers_to_tiles(steps.view(np.uint16))
        out["levels"] = interleave(levels.view(np.uint8), cls.GROUPS)
        return out.reshape(-1).view(np.uint8)

    @classmethod
    def quantize(cls, values: NDArray[np.float32]) -> NDArray[np.uint8]:
        """d = max|x| / 127; levels are rounded half to even."""
        blocks = blocks_of(values)
        with np.errstate(over="ignore", invalid="ignore"):
            steps = (np.abs(blocks).max(axis=2) / np.float32(127)).astype(np.float16)
            inverse = reciprocal(steps.astype(np.float32))
            levels = np.rint(np.nan_to_num(blocks * inverse[..., None], posinf=0, neginf=0))
        return cls.pack(steps, levels.clip(-127, 127).astype(np.int8))

    @classmethod
    def dequantize(cls, data: NDArray[np.uint8], shape: tuple[int, ...]) -> NDArray[np.float32]:
        rows, columns = shape
        found = data.view(cls.TILE).reshape(-1, columns // cls.BLOCK_SIZE)
        steps = headers_of_rows(found["headers"]).view(np.float16).astype(np.float32)
        values = deinterleave(found["levels"]).view(np.int8).astype(np.float32)
        values *= steps[..., None]
        return values.reshape(-1, columns)[:rows]

    @classmethod
    def non_finite(cls, data: NDArray[np.uint8]) -> bool:
        return non_finite_halves(data.view(cls.TILE)["headers"])
