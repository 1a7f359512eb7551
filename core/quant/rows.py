"""Rows of state tensors as bytes, the same in every executor, and the values they stand for."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from llm_lite.core.quant.blocks import i4, i8

FLOATS = {"f32": np.float32, "f16": np.float16}
SCALED = {"i8": i8, "i4": i4}  # with a scale for each head of a position


def encode(values: NDArray[np.float32], dtype: str, block: int = 0) -> NDArray[np.uint8]:
    """float32 [T, K] -> uint8 [T, bytes of a row], rounded to nearest even."""
    if dtype in SCALED:
        return SCALED[dtype].encode_rows(values, block)
    with np.errstate(over="ignore"):
        return np.ascontiguousarray(values).astype(FLOATS[dtype]).view(np.uint8)


def decode(
    data: NDArray[np.uint8], dtype: str, columns: int, block: int = 0
) -> NDArray[np.float32]:
    """uint8 [T, bytes of a row] -> float32 [T, K]"""
    if dtype in SCALED:
        return SCALED[dtype].decode_rows(data, columns, block)
    return np.ascontiguousarray(data).view(FLOATS[dtype]).astype(np.float32)
