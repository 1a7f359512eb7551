"""Weight modes: what a model's matrices are turned into when it is loaded."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from core.errors import RequestError, UnsupportedError
from core.formats.tensor import TensorData
from core.quant.registry import FORMATS, QuantFormat

AS_STORED = "as-stored"
_FORMAT_OF_MODE = {"fp32": "f32", "fp16": "f16", "int8": "int8", "int4": "int4"}
MODES = (AS_STORED, *_FORMAT_OF_MODE)
_CHUNK_VALUES = 1 << 21  # 8 MiB of float32 at a time
_CHUNK_ROWS = 16  # a multiple of the rows of a tile


def target_dtype(tensor: TensorData, mode: str) -> str:
    """The format a tensor has in a mode.

    Vectors (norms, biases) are float32 in every mode, which is exact. Rows that do not fill whole
    blocks stay float16. Raises RequestError for an unknown mode.
    """
    if mode not in MODES:
        raise RequestError(f"unknown weight mode {mode!r}, expected one of {', '.join(MODES)}")
    if len(tensor.shape) == 1:
        return "f32"
    dtype = _FORMAT_OF_MODE.get(mode, tensor.dtype)
    return "f16" if tensor.shape[-1] % FORMATS[dtype].block_size else dtype


def mode_bytes(tensors: Iterable[TensorData], mode: str) -> int:
    """Bytes that the tensors take in a mode, without converting them."""
    return sum(
        FORMATS[target_dtype(tensor, mode)].nbytes((math.prod(tensor.shape[:-1]), tensor.shape[-1]))
        for tensor in tensors
    )


def convert(tensor: TensorData, mode: str) -> TensorData:
    """The tensor in the format of a mode; itself where nothing changes.

    Works through the tensor in pieces, so that beside the result only a few MiB are in use.
    Raises RequestError for an unknown mode, UnsupportedError for values that overflow float16.
    """
    source, dtype = tensor.format, target_dtype(tensor, mode)
    if dtype == tensor.dtype:
        return tensor
    target = FORMATS[dtype]
    columns = tensor.shape[-1]
    rows = math.prod(tensor.shape[:-1])
    data = np.empty(target.nbytes((rows, columns)), np.uint8)
    step = max(1, _CHUNK_VALUES // columns // _CHUNK_ROWS) * _CHUNK_ROWS
    for start in range(0, rows, step):
        before, after = (start, columns), (min(start + step, rows), columns)
        piece = tensor.data[source.nbytes(before) : source.nbytes(after)]
        decoded = source.dequantize(piece, (after[0] - start, columns))
        data[target.nbytes(before) : target.nbytes(after)] = _encode(tensor, target, decoded)
    data.flags.writeable = False
    return TensorData(tensor.name, dtype, tensor.shape, data)


def _encode(
    tensor: TensorData, target: QuantFormat, values: NDArray[np.float32]
) -> NDArray[np.uint8]:
    encoded = target.quantize(values)
    if target.non_finite(encoded) and np.isfinite(values).all():
        raise UnsupportedError(
            f"tensor {tensor.name!r} reaches {np.abs(values).max():.3g}, "
            f"beyond what {target.name} can hold; choose mode fp32 or {AS_STORED}"
        )
    return encoded
