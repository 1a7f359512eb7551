"""Measures on a sample what a mode loses by rounding weights that have few bits already."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from llm_lite.core.quant import quantizer
from llm_lite.core.quant.modes import rounds_again
from llm_lite.core.quant.registry import FORMATS
from llm_lite.core.quant.tensor import TensorData, files_of

TENSORS, ROWS = 8, 32  # of the sample: matrices spread over the model, and rows of each


def again_error(tensors: Iterable[TensorData], mode: str) -> float:
    """Return by how much the second rounding changes the weights: the root mean square of the
    changes by that of the weights, over rows in the middle of some matrices; 0 where none is
    rounded again, or where a weight of these is not finite. FileChangedError."""
    found = rounds_again(tensors, mode)
    chosen = found[:: max(1, len(found) // TENSORS)][:TENSORS]
    signal = noise = 0.0
    with files_of(tensor for tensor, _ in chosen).unchanged():
        for tensor, dtype in chosen:
            before = _middle(tensor)
            if not np.isfinite(before).all():
                return 0.0
            target = FORMATS[dtype]
            after = target.dequantize(quantizer.encode(target.name, before), before.shape)
            signal += float(np.square(before, dtype=np.float64).sum())
            noise += float(np.square(np.subtract(before, after, dtype=np.float64)).sum())
    return math.sqrt(noise / signal) if signal else 0.0


def _middle(tensor: TensorData) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    """Return rows [n, K] in the middle of a matrix as float32, whole tiles."""
    columns, rows = tensor.shape[-1], math.prod(tensor.shape[:-1])
    start = (rows - min(rows, ROWS)) // 2 // 16 * 16
    stop = min(start + ROWS, rows)
    low, high = (tensor.format.nbytes((row, columns)) for row in (start, stop))
    return tensor.format.dequantize(tensor.data[low:high], (stop - start, columns))
