"""Weight modes: what a model's matrices are turned into when it is loaded."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from core.errors import RequestError, UnsupportedError
from core.formats.tensor import TensorData
from core.quant.registry import FORMATS, QuantFormat

AS_STORED = "as-stored"
_FORMAT_OF_MODE = {"fp32": "f32", "fp16": "f16", "int8": "q8_0", "int4": "q4_0"}
MODES = (AS_STORED, *_FORMAT_OF_MODE)
_CHUNK_VALUES = 1 << 21  # 8 MiB of float32 at a time


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


def convert(tensor: TensorData, mode: str) -> TensorData:
    """The tensor in the format of a mode; itself where nothing changes.

    Works through the tensor in pieces, so that beside the result only a few MiB are in use.
    Raises RequestError for an unknown mode, UnsupportedError for values that overflow float16.
    """
    source, dtype = tensor.format, target_dtype(tensor, mode)
    if dtype == tensor.dtype:
        return tensor
    target = FORMATS[dtype]
    values = tensor.nbytes // source.block_bytes * source.block_size
    data = np.empty(target.nbytes(values), np.uint8)
    for start in range(0, values, _CHUNK_VALUES):
        stop = min(start + _CHUNK_VALUES, values)
        piece = tensor.data[source.nbytes(start) : source.nbytes(stop)]
        decoded = source.dequantize(piece, (stop - start,))
        data[target.nbytes(start) : target.nbytes(stop)] = _encode(tensor, target, decoded)
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
