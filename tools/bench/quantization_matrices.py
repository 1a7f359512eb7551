"""Squared errors of int4 and int8 beside the `gguf` package's Q4_0 and Q8_0, matrix by matrix."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from llm_lite.core.formats.safetensors_reader import open_safetensors
from llm_lite.core.quant import quantizer
from llm_lite.core.quant.registry import FORMATS

F32 = NDArray[np.float32]
PAIRS = (("int4", "Q4_0", 0.75), ("int8", "Q8_0", 1.0))


def compare_matrices(file: Path) -> dict[str, Any]:
    """Per pair: the sum of all squared errors, ours divided by theirs, and the same by matrix."""
    matrices = list(_matrices(file))
    found: dict[str, Any] = {
        "file": file.name,
        "matrices": len(matrices),
        "weights": sum(values.size for values in matrices),
    }
    for ours, theirs, limit in PAIRS:
        errors = [(_our_error(ours, m), _their_error(theirs, m)) for m in matrices]
        ratios = [a / b for a, b in errors]
        found[f"{ours} over {theirs}"] = {
            "limit": limit,
            "squared_error": math.fsum(a for a, _ in errors) / math.fsum(b for _, b in errors),
            "median_of_matrices": statistics.median(ratios),
            "largest_of_matrices": max(ratios),
            "bits": FORMATS[ours].bits_per_weight,
            "their_bits": FORMATS[theirs.lower()].bits_per_weight,
        }
    return found


def _matrices(file: Path) -> Iterator[F32]:
    for tensor in open_safetensors(file).tensors.values():
        if len(tensor.shape) == 2 and tensor.shape[1] % 32 == 0 and tensor.dtype in FORMATS:
            yield tensor.dequantize()


def _our_error(name: str, values: F32) -> float:
    decoded = FORMATS[name].dequantize(quantizer.encode(name, values), values.shape)
    return _squares(values, decoded)


def _their_error(name: str, values: F32) -> float:
    import gguf

    kind = gguf.GGMLQuantizationType[name]
    return _squares(values, gguf.dequantize(gguf.quantize(values, kind), kind))


def _squares(values: F32, decoded: F32) -> float:
    return float(np.square(np.subtract(values, decoded, dtype=np.float64)).sum())
