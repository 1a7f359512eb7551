"""int8: 32 values as levels -127..127 times one float16 step, in tiles (8.5 bits each).

The header of a block is the step. Byte b of a row's word in group g is the level of column 4g + b.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from llm_lite.core.quant.blocks import nibbles, tiles
from llm_lite.core.quant.blocks.f16 import non_finite_halves
from llm_lite.core.quant.formats import COLUMNS, TILE_ROWS

BLOCK_SIZE = COLUMNS
GROUPS = 8
TILE = np.dtype([("headers", "<u2", (16,)), ("levels", "u1", (GROUPS, 16, 4))])
assert TILE.itemsize == 544


def pack(steps: NDArray[np.float16], levels: NDArray[np.int8]) -> NDArray[np.uint8]:
    """Pack d [N, K / 32], levels [N, K / 32, 32] -> the tiles' bytes."""
    rows, blocks = steps.shape
    out = np.empty((rows // TILE_ROWS, blocks), TILE)
    out["headers"] = tiles.headers_to_tiles(steps.view(np.uint16))
    out["levels"] = tiles.interleave(levels.view(np.uint8), GROUPS)
    return out.reshape(-1).view(np.uint8)


def quantize(values: NDArray[np.float32]) -> NDArray[np.uint8]:
    """d = max|x| / 127; levels are rounded half to even."""
    blocks = tiles.blocks_of(values)
    with np.errstate(over="ignore", invalid="ignore"):
        steps = (np.abs(blocks).max(axis=2) / np.float32(127)).astype(np.float16)
        inverse = nibbles.inverse(steps.astype(np.float32))
        levels = np.rint(np.nan_to_num(blocks * inverse[..., None], posinf=0, neginf=0))
    return pack(steps, levels.clip(-127, 127).astype(np.int8))


def dequantize(data: NDArray[np.uint8], shape: tuple[int, ...]) -> NDArray[np.float32]:
    rows, columns = shape
    found = data.view(TILE).reshape(-1, columns // BLOCK_SIZE)
    steps = tiles.headers_of_rows(found["headers"]).view(np.float16).astype(np.float32)
    values = tiles.deinterleave(found["levels"]).view(np.int8).astype(np.float32)
    values *= steps[..., None]
    return values.reshape(-1, columns)[:rows]


def non_finite(data: NDArray[np.uint8]) -> bool:
    return non_finite_halves(data.view(TILE)["headers"])
