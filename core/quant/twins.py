"""Converts rows of blocks to tiles of 16 rows, value for value: what kernels multiply with."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from llm_lite.core.quant.formats import ACTIVATIONS, FORMATS, KERNEL_FORMATS

DTYPES = (*KERNEL_FORMATS, *ACTIVATIONS)  # as the enum that is generated for C++


def to_tiles(
    dtype: str,
    data: NDArray[np.uint8],
    shape: tuple[int, ...],
    out: NDArray[np.uint8] | None = None,
) -> NDArray[np.uint8]:
    """Return the bytes of the twin of a matrix in a native format of rows, in `out` if given.
    ValueError if sizes do not fit."""
    from llm_lite_kernels import _cpp

    if out is None:
        out = np.empty(FORMATS[FORMATS[dtype].tiles].nbytes(shape), np.uint8)
    _cpp.to_tiles(DTYPES.index(dtype), np.ascontiguousarray(data), *shape, out)
    return out
