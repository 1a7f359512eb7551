"""The common part of our own formats: a tile has the blocks of 32 values of 16 rows.

A matrix [N, K] is [N / 16, K / 32] tiles; N is padded to whole tiles, K must be a multiple of 32. A
tile has a header of 16 bits for each row, then groups of 16 words, one a row: a kernel loads the
words of 16 rows at once, a lane a row, and sums no lanes.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

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
