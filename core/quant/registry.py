"""The weight formats with their codecs, and the names of all block types that GGUF knows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from importlib import import_module
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from llm_lite.core.errors import UnsupportedError
from llm_lite.core.quant import formats
from llm_lite.core.quant.formats import Format

Encoder = Callable[[NDArray[np.float32]], NDArray[np.uint8]]


@dataclass(frozen=True, slots=True)
class QuantFormat(Format):
    """A format of files and how values go in and out: the functions of its codec in `blocks/`.

    encoder: float32 [..., K] (of tiles: [N, K]) -> uint8 [nbytes]; None: only read
    dequantize: (uint8 [bytes], shape) -> float32 [*shape], exactly as ggml defines it
    non_finite: uint8 [bytes] -> whether a value or a block's scale is NaN or infinite
    """

    encoder: Encoder | None = field(kw_only=True)
    dequantize: Callable[[NDArray[np.uint8], tuple[int, ...]], NDArray[np.float32]] = field(
        kw_only=True
    )
    non_finite: Callable[[NDArray[np.uint8]], bool] = field(kw_only=True)

    def quantize(self, values: NDArray[np.float32]) -> NDArray[np.uint8]:
        """Return the bytes of the values. UnsupportedError for a format that is only read."""
        if self.encoder is None:
            raise UnsupportedError(f"weights cannot be written as {self.name}, only read")
        return self.encoder(values)


def _with_codec(row: Format) -> QuantFormat:
    family = import_module(f"llm_lite.core.quant.blocks.{row.family}")
    codec = getattr(family, row.name.upper())
    return QuantFormat(
        **{each.name: getattr(row, each.name) for each in fields(row)},
        encoder=getattr(codec, "quantize", None),
        dequantize=codec.dequantize,
        non_finite=codec.non_finite,
    )


FORMATS: Mapping[str, QuantFormat] = MappingProxyType(
    {name: _with_codec(row) for name, row in formats.FORMATS.items() if row.stored}
)


def named_format(tensor: str, dtype: str) -> QuantFormat:
    """Return the format of a tensor. UnsupportedError if there is none of that name."""
    if dtype not in FORMATS:
        raise UnsupportedError(
            f"tensor {tensor!r} has block type {dtype}; "
            f"the formats known here are {', '.join(FORMATS)}"
        )
    return FORMATS[dtype]


GGUF_FORMATS = tuple(name for name, form in FORMATS.items() if form.ggml_type is not None)
NATIVE_FORMATS = tuple(name for name, form in FORMATS.items() if form.native)

# In the order of the type numbers of GGUF files (ggml.h, enum ggml_type), so that an error can name
# them.
_GGML_TYPES = (
    "f32 f16 q4_0 q4_1 q4_2 q4_3 q5_0 q5_1 q8_0 q8_1 q2_k q3_k q4_k q5_k q6_k q8_k iq2_xxs iq2_xs "
    "iq3_xxs iq1_s iq4_nl iq3_s iq2_s iq4_xs i8 i16 i32 i64 f64 iq1_m bf16 q4_0_4_4 q4_0_4_8 "
    "q4_0_8_8 tq1_0 tq2_0 iq4_nl_4_4 iq4_nl_4_8 iq4_nl_8_8 mxfp4 nvfp4 q1_0 q2_0"
)
GGML_TYPES: Mapping[int, str] = MappingProxyType(dict(enumerate(_GGML_TYPES.split())))
