"""The weight formats with their codecs, and the names of all block types that GGUF knows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from importlib import import_module
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from llm_lite.core.quant import formats
from llm_lite.core.quant.formats import Format


@dataclass(frozen=True, slots=True)
class QuantFormat(Format):
    """A format of files and how values go in and out: the functions of `blocks/<name>.py`.

    quantize: float32 [..., K] (of tiles: [N, K]) -> uint8 [nbytes]
    dequantize: (uint8 [bytes], shape) -> float32 [*shape], exactly as ggml defines it
    non_finite: uint8 [bytes] -> whether a value or a block's scale is NaN or infinite
    """

    quantize: Callable[[NDArray[np.float32]], NDArray[np.uint8]] = field(kw_only=True)
    dequantize: Callable[[NDArray[np.uint8], tuple[int, ...]], NDArray[np.float32]] = field(
        kw_only=True
    )
    non_finite: Callable[[NDArray[np.uint8]], bool] = field(kw_only=True)


def _with_codec(row: Format) -> QuantFormat:
    codec = import_module(f"llm_lite.core.quant.blocks.{row.name}")
    known = {each.name: getattr(row, each.name) for each in fields(row)}
    names = ("quantize", "dequantize", "non_finite")
    return QuantFormat(**known, **{name: getattr(codec, name) for name in names})


FORMATS: Mapping[str, QuantFormat] = MappingProxyType(
    {name: _with_codec(row) for name, row in formats.FORMATS.items() if row.stored}
)

GGUF_FORMATS = tuple(name for name, form in FORMATS.items() if form.ggml_type is not None)

# Runs of the type numbers of GGUF files (ggml.h, enum ggml_type), so that an error can name them.
_GGML_TYPE_RUNS = {
    0: "f32 f16 q4_0 q4_1",
    6: "q5_0 q5_1 q8_0 q8_1 q2_k q3_k q4_k q5_k q6_k q8_k iq2_xxs iq2_xs iq3_xxs iq1_s iq4_nl",
    21: "iq3_s iq2_s iq4_xs i8 i16 i32 i64 f64 iq1_m bf16",
    34: "tq1_0 tq2_0",
    39: "mxfp4 nvfp4 q1_0",
}
GGML_TYPES: Mapping[int, str] = MappingProxyType(
    {
        number: name
        for first, names in _GGML_TYPE_RUNS.items()
        for number, name in enumerate(names.split(), first)
    }
)
