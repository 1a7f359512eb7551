"""The weight formats, a row each: what C++, GLSL and Python must agree on.

A class of `core/quant/blocks/` turns values into blocks and back, `kernels_cpp/quant/<name>.h` and
`kernels_glsl/quant/<name>.glsl` decode those that kernels multiply; from these rows the build
generates what else C++ and GLSL need (tools/kernel_schema.py), so this module imports nothing but
the standard library.

Sizes and type numbers of GGUF's formats: ggml.h and ggml-common.h of
https://github.com/ggml-org/ggml
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

TILE_ROWS = 16  # rows whose blocks lie together in a tile
COLUMNS = 32  # values along K that kernels take at a time; blocks are one of them or several
A8_BLOCK = 32  # int8 activations that share a scale

# values: each by itself, without a block's header.
# rows: blocks row by row, as files of others have them; kernels multiply their twin in tiles.
# tiles: blocks of TILE_ROWS rows together, as kernels read them (blocks/tiles.py).
Layout = Literal["values", "rows", "tiles"]


@dataclass(frozen=True, slots=True)
class Format:
    """Blocks lie along K. A super-block with scales of its parts is one block."""

    name: str
    layout: Layout
    block_size: int  # values
    block_bytes: int  # of a tile: a row's share
    ggml_type: int | None = None  # None: not a format of GGUF files
    tiles: str = ""  # of rows: the format of tiles with the same values; none: no kernel has it
    integers: bool = False  # whether int8 activations can be multiplied with its levels
    stored: bool = True  # in files; a twin of rows in tiles is in memory alone
    family: str = ""  # the module of its codec in blocks/

    @property
    def native(self) -> bool:
        """Return True if kernels multiply it as it is; others become int8 when they are loaded."""
        return self.layout != "rows" or bool(self.tiles)

    @property
    def multiplied(self) -> str:
        """Return the format that kernels read for a matrix."""
        return self.tiles or self.name

    @property
    def tile_rows(self) -> int:
        return TILE_ROWS if self.layout == "tiles" else 1

    @property
    def bits_per_weight(self) -> float:
        return 8 * self.block_bytes / self.block_size

    def nbytes(self, shape: tuple[int, ...]) -> int:
        """Return the bytes of a tensor of whole blocks; rows are padded to whole tiles."""
        values = math.prod(shape)
        if self.layout == "tiles":
            values = -(-shape[0] // TILE_ROWS) * TILE_ROWS * shape[-1]
        return values // self.block_size * self.block_bytes


def _values(name: str, size: int, ggml_type: int) -> Format:
    return Format(name, "values", 1, size, ggml_type, family="floats")


def _tiles(
    name: str, block_bytes: int, block_size: int = COLUMNS, *, stored: bool = True
) -> Format:
    return Format(
        name, "tiles", block_size, block_bytes, integers=True, stored=stored, family="tiles"
    )


def _rows(
    name: str,
    block_size: int,
    block_bytes: int,
    ggml_type: int,
    family: str = "legacy",
    tiles: str = "",
) -> Format:
    twin = tiles or f"{name}_tiles"
    return Format(name, "rows", block_size, block_bytes, ggml_type, twin, True, family=family)


def _read_only(name: str, block_size: int, block_bytes: int, ggml_type: int, family: str) -> Format:
    return Format(name, "rows", block_size, block_bytes, ggml_type, family=family)


_TABLE = (
    _values("f32", 4, 0),
    _values("f16", 2, 1),
    _rows("q4_0", 32, 18, 2),
    _rows("q4_1", 32, 20, 3),
    _rows("q8_0", 32, 34, 8, tiles="int8"),
    _values("bf16", 2, 30),
    _tiles("int4", 18),
    _tiles("int8", 34),
    _rows("q5_0", 32, 22, 6),
    _rows("q5_1", 32, 24, 7),
    _rows("q2_k", 256, 84, 10, "k_quants"),
    _rows("q3_k", 256, 110, 11, "k_quants"),
    _rows("q4_k", 256, 144, 12, "k_quants"),
    _rows("q5_k", 256, 176, 13, "k_quants"),
    _rows("q6_k", 256, 210, 14, "k_quants"),
    _rows("iq4_nl", 32, 18, 20, "code_tables"),
    _rows("iq4_xs", 256, 136, 23, "code_tables"),
    _rows("mxfp4", 32, 17, 39, "code_tables"),
    _read_only("iq2_xxs", 256, 66, 16, "codebooks"),
    _read_only("iq2_xs", 256, 74, 17, "codebooks"),
    _read_only("iq3_xxs", 256, 98, 18, "codebooks"),
    _read_only("iq1_s", 256, 50, 19, "codebooks"),
    _read_only("iq3_s", 256, 110, 21, "codebooks"),
    _read_only("iq2_s", 256, 82, 22, "codebooks"),
    _read_only("iq1_m", 256, 56, 29, "codebooks"),
    _read_only("tq1_0", 256, 54, 34, "ternary"),
    _read_only("tq2_0", 256, 66, 35, "ternary"),
    _read_only("nvfp4", 64, 36, 40, "code_tables"),
    _read_only("q1_0", 128, 18, 41, "ternary"),
    _tiles("q4_0_tiles", 18, stored=False),
    _tiles("q4_1_tiles", 20, stored=False),
    _tiles("q5_0_tiles", 22, stored=False),
    _tiles("q5_1_tiles", 24, stored=False),
    _tiles("q2_k_tiles", 84, 256, stored=False),
    _tiles("q3_k_tiles", 114, 256, stored=False),
    _tiles("q4_k_tiles", 148, 256, stored=False),
    _tiles("q5_k_tiles", 180, 256, stored=False),
    _tiles("q6_k_tiles", 210, 256, stored=False),
    _tiles("iq4_nl_tiles", 18, stored=False),
    _tiles("iq4_xs_tiles", 138, 256, stored=False),
    _tiles("mxfp4_tiles", 17, stored=False),
)

# Types of scratch and of caches, which no weight has (plan.row_bytes)
ACTIVATIONS = ("a8", "i8", "i4")

FORMATS: Mapping[str, Format] = MappingProxyType({row.name: row for row in _TABLE})
KERNEL_FORMATS: Mapping[str, Format] = MappingProxyType(
    {name: row for name, row in FORMATS.items() if row.native}
)
