"""Weights as the array reads them: for each tile of outputs a stream along K.

A product's weight [N, K] is cut into tiles of `columns` outputs, and K into blocks of 32. A tile's
stream has block after block: a header of 16 bits for each output, then the levels of each output:
of int8 32 bytes, its header a float16 d; of int4 16 bytes, column c in the low nibble of byte c and
column 16 + c in its high one, its header as llm-lite's int4 has it, d above quarters of a zero
point. N is padded with outputs of zeros. So a transfer is one stretch of memory, and each block
comes with its scales.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from llm_lite.core.quant.blocks.codec import unpack_nibbles
from llm_lite.core.quant.blocks.tiles import INT4, INT8, deinterleave, headers_of_rows
from llm_lite.core.quant.tensor import TensorData
from llm_lite_uca.parameters import BLOCK

FORMATS = ("int8", "int4")
_LEVEL_BYTES = {"int8": BLOCK, "int4": BLOCK // 2}
_HEADER_BYTES = 2


def block_bytes(dtype: str, columns: int) -> int:
    """Return the bytes of one block of 32 along K of a tile of so many outputs."""
    return columns * (_HEADER_BYTES + _LEVEL_BYTES[dtype])


def weight_bytes(dtype: str, shape: tuple[int, ...], columns: int) -> int:
    rows, inputs = shape
    return -(-rows // columns) * (inputs // BLOCK) * block_bytes(dtype, columns)


def lay_out(weight: TensorData, columns: int) -> NDArray[np.uint8]:
    """Return the streams of all tiles, uint8 [tiles, K / 32, bytes of a block]."""
    rows, inputs = weight.shape
    codec = {"int8": INT8, "int4": INT4}[weight.dtype]
    found = weight.data.view(codec.TILE).reshape(-1, inputs // BLOCK)
    headers = headers_of_rows(found["headers"])[:rows]  # [N, K / 32]
    levels = deinterleave(found["levels"])[:rows]  # [N, K / 32, bytes]
    pad = -rows % columns
    headers = np.pad(headers, ((0, pad), (0, 0)))
    levels = np.pad(levels, ((0, pad), (0, 0), (0, 0)))
    tiles, blocks = len(headers) // columns, inputs // BLOCK
    by_tile = headers.reshape(tiles, columns, blocks).transpose(0, 2, 1)
    heads = np.ascontiguousarray(by_tile).view(np.uint8)
    bodies = levels.reshape(tiles, columns, blocks, -1).transpose(0, 2, 1, 3)
    return np.concatenate([heads, bodies.reshape(tiles, blocks, -1)], axis=2)


def unpacked(
    stream: NDArray[np.uint8], dtype: str, columns: int
) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """Return integers int8 [blocks, columns, 32] of a stream [blocks, bytes of a block], and what
    each counts, float32 [blocks, columns]. Those of int4 are four times a level less its zero
    point."""
    blocks, split = len(stream), columns * _HEADER_BYTES
    headers = np.ascontiguousarray(stream[:, :split]).view(np.uint16)
    body = np.ascontiguousarray(stream[:, split:])
    if dtype == "int8":
        steps = headers.view(np.float16).astype(np.float32)
        return body.view(np.int8).reshape(blocks, columns, BLOCK), steps
    levels = unpack_nibbles(body.reshape(-1, BLOCK // 2)).reshape(blocks, columns, BLOCK)
    zeros = (headers & 63).astype(np.int8)
    steps = INT4.decode_step(headers >> np.uint16(6)) * np.float32(0.25)
    return 4 * levels.astype(np.int8) - zeros[:, :, None], steps
