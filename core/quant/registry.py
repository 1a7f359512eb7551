"""The formats of weights we compute with, and the names of all block types that GGUF knows."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType, ModuleType

import numpy as np
from numpy.typing import NDArray

from llm_lite.core.quant.blocks import bf16, f16, f32, int4, int8, q4_0, q4_1, q8_0


@dataclass(frozen=True)
class QuantFormat:
    """One weight format: its block and how values go in and out.

    Blocks lie along K, row by row; with `tile_rows` > 1 so many rows lie together, see `tiles.py`.
    quantize: float32 [..., K] (of tiles: [N, K]) -> uint8 [nbytes]
    dequantize: (uint8 [bytes], shape) -> float32 [*shape], exactly as ggml defines it
    non_finite: uint8 [bytes] -> whether a value or a block's scale is NaN or infinite
    """

    name: str
    ggml_type: int | None  # None: not a format of GGUF files
    block_size: int  # values
    block_bytes: int
    quantize: Callable[[NDArray[np.float32]], NDArray[np.uint8]]
    dequantize: Callable[[NDArray[np.uint8], tuple[int, ...]], NDArray[np.float32]]
    non_finite: Callable[[NDArray[np.uint8]], bool]
    tile_rows: int = 1

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


def _row(name: str, ggml_type: int, module: ModuleType) -> tuple[str, QuantFormat]:
    return name, QuantFormat(
        name,
        ggml_type,
        module.BLOCK_SIZE,
        module.BLOCK.itemsize,
        module.quantize,
        module.dequantize,
        module.non_finite,
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
            _tiled("int4", int4),
            _tiled("int8", int8),
        ]
    )
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
