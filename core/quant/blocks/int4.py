"""int4: 32 values as levels 0..15, value = d * (level - z), in tiles (4.5 bits each).

The 16-bit header of a block is d, a binary16 without its sign and its lowest five bits of mantissa
(5 bits exponent, 5 bits mantissa), above z in quarters of a level (6 bits, 0 to 15.75). Every value
is exact in float32. Byte b of a row's word in group j holds column 4j + b in its low nibble and
column 16 + 4j + b in its high nibble.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from llm_lite.core.quant.blocks import nibbles, tiles
from llm_lite.core.quant.formats import COLUMNS, TILE_ROWS

BLOCK_SIZE = COLUMNS
GROUPS = 4
TILE = np.dtype([("headers", "<u2", (16,)), ("levels", "u1", (GROUPS, 16, 4))])
assert TILE.itemsize == 288

INFINITE = 0x1F  # exponent of a d that is not finite


def encode_step(d: NDArray[np.float32]) -> NDArray[np.uint16]:
    """Return the header's ten bits of d >= 0, rounded to nearest, ties to even."""
    with np.errstate(over="ignore"):
        bits = d.astype(np.float16).view(np.uint16).astype(np.uint32)
    return ((bits + 15 + (bits >> 5 & 1)) >> 5).clip(0, INFINITE << 5).astype(np.uint16)


def decode_step(code: NDArray[np.uint16]) -> NDArray[np.float32]:
    return (code << np.uint16(5)).view(np.float16).astype(np.float32)


def pack(
    steps: NDArray[np.uint16], zeros: NDArray[np.uint8], levels: NDArray[np.uint8]
) -> NDArray[np.uint8]:
    """Pack codes of d and quarters of z [N, K / 32], levels [N, K / 32, 32] -> the tiles' bytes."""
    rows, blocks = steps.shape
    out = np.empty((rows // TILE_ROWS, blocks), TILE)
    out["headers"] = tiles.headers_to_tiles(steps << np.uint16(6) | zeros)
    packed = nibbles.pack(levels.reshape(-1, BLOCK_SIZE)).reshape(rows, blocks, 16)
    out["levels"] = tiles.interleave(packed, GROUPS)
    return out.reshape(-1).view(np.uint8)


def quantize(values: NDArray[np.float32]) -> NDArray[np.uint8]:
    """Quantize values: level 0 is the block's minimum or 0, level 15 its maximum or 0, whichever is
    farther out."""
    blocks = tiles.blocks_of(values)
    finite = np.all(np.isfinite(blocks), axis=2, keepdims=True)
    blocks = np.where(finite, blocks, 0)
    low, high = np.minimum(blocks.min(axis=2), 0), np.maximum(blocks.max(axis=2), 0)
    steps = encode_step((high - low) / np.float32(15))
    d = decode_step(steps)
    inverse = nibbles.inverse(d)
    zeros = np.rint(-low * inverse * 4).clip(0, 63).astype(np.uint8)
    z = zeros[..., None] / np.float32(4)
    levels = nibbles.to_levels(blocks * inverse[..., None] + z)
    steps[~finite[..., 0]] = INFINITE << 5
    return pack(steps, zeros, levels)


def dequantize(data: NDArray[np.uint8], shape: tuple[int, ...]) -> NDArray[np.float32]:
    rows, columns = shape
    found = data.view(TILE).reshape(-1, columns // BLOCK_SIZE)
    headers = tiles.headers_of_rows(found["headers"])
    packed = tiles.deinterleave(found["levels"])
    values = nibbles.unpack(packed.reshape(-1, 16)).astype(np.float32).reshape(*headers.shape, 32)
    values -= ((headers & 63) / np.float32(4))[..., None]
    values *= decode_step(headers >> np.uint16(6))[..., None]
    return values.reshape(-1, columns)[:rows]


def non_finite(data: NDArray[np.uint8]) -> bool:
    return bool((data.view(TILE)["headers"] >> 11).max(initial=0) >= INFINITE)
