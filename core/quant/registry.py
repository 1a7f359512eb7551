"""The formats of weights we compute with, and the names of all block types that GGUF knows."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType, ModuleType

import numpy as np
from numpy.typing import NDArray

from llm_lite.core.errors import UnsupportedError
from llm_lite.core.quant.blocks import (
    bf16,
    f16,
    f32,
    int4,
    int8,
    q4_0,
    q4_1,
    q5_0,
    q5_1,
    q8_0,
)
from llm_lite.core.quant.blocks.code_tables import iq4_nl, iq4_xs, mxfp4, nvfp4
from llm_lite.core.quant.blocks.codebooks import (
    iq1_m,
    iq1_s,
    iq2_s,
    iq2_xs,
    iq2_xxs,
    iq3_s,
    iq3_xxs,
)
from llm_lite.core.quant.blocks.k_quants import q2_k, q3_k, q4_k, q5_k, q6_k
from llm_lite.core.quant.blocks.ternary import q1_0, tq1_0, tq2_0

Encoder = Callable[[NDArray[np.float32]], NDArray[np.uint8]]


@dataclass(frozen=True)
class QuantFormat:
    """One weight format: its block and how values go in and out.

    Blocks lie along K, row by row; with `tile_rows` > 1 so many rows lie together, see `tiles.py`.
    encoder: float32 [..., K] (of tiles: [N, K]) -> uint8 [nbytes]; None: only read
    dequantize: (uint8 [bytes], shape) -> float32 [*shape], exactly as ggml defines it
    non_finite: uint8 [bytes] -> whether a value or a block's scale is NaN or infinite
    """

    name: str
    ggml_type: int | None  # None: not a format of GGUF files
    block_size: int  # values
    block_bytes: int
    encoder: Encoder | None
    dequantize: Callable[[NDArray[np.uint8], tuple[int, ...]], NDArray[np.float32]]
    non_finite: Callable[[NDArray[np.uint8]], bool]
    tile_rows: int = 1
    native: bool = True  # kernels multiply it as it is; others become int8 when they are loaded

    def quantize(self, values: NDArray[np.float32]) -> NDArray[np.uint8]:
        """UnsupportedError for a format that is only read."""
        if self.encoder is None:
            raise UnsupportedError(f"weights cannot be written as {self.name}, only read")
        return self.encoder(values)

    @property
    def bits_per_weight(self) -> float:
        return 8 * self.block_bytes / self.block_size

    def nbytes(self, shape: tuple[int, ...]) -> int:
        """Bytes of a tensor whose rows fill whole blocks."""
        blocks = math.prod(shape) // self.block_size
        if self.tile_rows > 1:  # rows are padded to whole tiles
            tiles = -(-shape[0] // self.tile_rows)
            blocks = tiles * self.tile_rows * (shape[-1] // self.block_size)
        return blocks * self.block_bytes


def _row(
    name: str, ggml_type: int, module: ModuleType, *, native: bool = True
) -> tuple[str, QuantFormat]:
    return name, QuantFormat(
        name,
        ggml_type,
        module.BLOCK_SIZE,
        module.BLOCK.itemsize,
        getattr(module, "quantize", None),
        module.dequantize,
        module.non_finite,
        native=native,
    )


def _tiled(name: str, module: ModuleType) -> tuple[str, QuantFormat]:
    return name, QuantFormat(
        name,
        None,
        module.BLOCK_SIZE,
        module.BLOCK_BYTES,
        module.quantize,
        module.dequantize,
        module.non_finite,
        module.TILE_ROWS,
    )


FORMATS: Mapping[str, QuantFormat] = MappingProxyType(
    dict(
        [
            _row("f32", 0, f32),
            _row("f16", 1, f16),
            _row("q4_0", 2, q4_0),
            _row("q4_1", 3, q4_1),
            _row("q8_0", 8, q8_0),
            _row("bf16", 30, bf16),
            _row("q5_0", 6, q5_0, native=False),
            _row("q5_1", 7, q5_1, native=False),
            _row("q2_k", 10, q2_k, native=False),
            _row("q3_k", 11, q3_k, native=False),
            _row("q4_k", 12, q4_k, native=False),
            _row("q5_k", 13, q5_k, native=False),
            _row("q6_k", 14, q6_k, native=False),
            _row("iq4_nl", 20, iq4_nl, native=False),
            _row("iq4_xs", 23, iq4_xs, native=False),
            _row("mxfp4", 39, mxfp4, native=False),
            _row("iq2_xxs", 16, iq2_xxs, native=False),
            _row("iq2_xs", 17, iq2_xs, native=False),
            _row("iq3_xxs", 18, iq3_xxs, native=False),
            _row("iq1_s", 19, iq1_s, native=False),
            _row("iq3_s", 21, iq3_s, native=False),
            _row("iq2_s", 22, iq2_s, native=False),
            _row("iq1_m", 29, iq1_m, native=False),
            _row("tq1_0", 34, tq1_0, native=False),
            _row("tq2_0", 35, tq2_0, native=False),
            _row("nvfp4", 40, nvfp4, native=False),
            _row("q1_0", 41, q1_0, native=False),
            _tiled("int4", int4),
            _tiled("int8", int8),
        ]
    )
)

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
