"""The effect of a weight mode on every tensor: its format, its bits and what noise it adds."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from llm_lite.core.messages import TensorRow
from llm_lite.core.quant.modes import convert, promoted
from llm_lite.core.quant.tensor import TensorData, files_of, find_non_finite, not_finite

Progress = Callable[[str, float], None]  # what, 0..1; may raise CancelledError

_VALUES = 1 << 21  # decoded at a time
_ROWS = 16  # of a tile: pieces begin with whole ones


def analyze(
    tensors: Mapping[str, TensorData], mode: str, progress: Progress, path: object = "the model"
) -> tuple[TensorRow, ...]:
    """Return a row for every tensor, in the file's order. FileError where weights of `path` are not
    finite, FileChangedError."""
    with files_of(tensors.values()).unchanged():
        return _rows(tensors, mode, progress, path)


def _rows(
    tensors: Mapping[str, TensorData], mode: str, progress: Progress, path: object
) -> tuple[TensorRow, ...]:
    total = sum(tensor.nbytes for tensor in tensors.values()) or 1
    finer = promoted(tensors.values(), mode)
    done, rows = 0, []
    for tensor in tensors.values():
        progress(tensor.name, done / total)
        if find_non_finite(tensor):
            raise not_finite(path, tensor.name)
        rows.append(_row(tensor, convert(tensor, mode, promoted=finer)))
        done += tensor.nbytes
    return tuple(rows)


def _row(tensor: TensorData, converted: TensorData) -> TensorRow:
    bits = 8 * converted.nbytes / math.prod(tensor.shape)
    snr = signal_to_noise(tensor, converted)
    return TensorRow(tensor.name, tensor.shape, converted.dtype, bits, snr)


def signal_to_noise(original: TensorData, converted: TensorData) -> float:
    """Return 10 log10(sum of x^2 / sum of (x - y)^2) in dB; inf where they are the same values."""
    if converted is original:
        return math.inf
    signal = noise = 0.0
    for values, found in zip(_pieces(original), _pieces(converted), strict=True):
        signal += float(np.square(values, dtype=np.float64).sum())
        noise += float(np.square(np.subtract(values, found, dtype=np.float64)).sum())
    return 10 * math.log10(signal / noise) if noise and signal else math.inf


def _pieces(tensor: TensorData) -> Iterator[NDArray[np.float32]]:
    """float32 [rows, columns], some rows of whole tiles at a time."""
    columns = tensor.shape[-1]
    rows = math.prod(tensor.shape[:-1])
    step = max(1, _VALUES // columns // _ROWS) * _ROWS
    for start in range(0, rows, step):
        stop = min(start + step, rows)
        low, high = (tensor.format.nbytes((row, columns)) for row in (start, stop))
        yield tensor.format.dequantize(tensor.data[low:high], (stop - start, columns))
