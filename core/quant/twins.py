"""Converts rows of blocks to tiles of 16 rows, value for value: what kernels multiply with."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from llm_lite.core.quant.formats import ACTIVATIONS, FORMATS, KERNEL_FORMATS

_WORTH_THREADS = 1 << 20  # bytes: to start threads takes some 50 microseconds
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

    from llm_lite.core.processor import default_threads

    if out is None:
        out = np.empty(FORMATS[FORMATS[dtype].tiles].nbytes(shape), np.uint8)
    rows, columns = shape
    threads = default_threads() if out.nbytes >= _WORTH_THREADS else 1
    _cpp.to_tiles(DTYPES.index(dtype), np.ascontiguousarray(data), rows, columns, out, threads)
    return out
