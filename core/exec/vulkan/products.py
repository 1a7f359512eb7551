"""Products as dispatches: which kernel for how many tokens, and what else it does (product.glsl).

`matmul_rows` is for software drivers, `matvec` for few tokens. Of many, `matmul` makes tiles of
outputs, `matmul_a8` of int8 blocks, and `matmul_matrix` those where the device has cooperative
matrices. Tiles of experts have rows of one of them (expert_weights.glsl).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from msgspec import Struct

from llm_lite.core.exec.vulkan.alike import few_tokens
from llm_lite.core.exec.vulkan.dispatch import Call, Dispatch
from llm_lite.core.exec.vulkan.memory import WeightPart
from llm_lite.core.exec.vulkan.tuning import MATRIX_PART, MATRIX_SUBGROUPS, VECTOR
from llm_lite.core.gpu.pipelines import BufferRange
from llm_lite.core.plan.plan import Tensor
from llm_lite.core.quant.formats import FORMATS, Format

TILE = 8  # lanes along each side of a matmul workgroup
LEAST_SHARE = 128  # values along K that a lane of matvec multiplies, where there are so many
VECTOR_ROWS = 4  # outputs of one of matmul_rows' lanes for a token


class Norm(Struct, frozen=True):
    """A norm of the left operand: y = x / sqrt(mean(x^2) + eps) * weight."""

    weight: str
    eps: float


class Product(Struct, frozen=True):
    """x[T,K] . weight[N,K]^T into `y`, of a weight's first K columns and the rows of `parts`.
    `call` is of an op `matmul` among those that it does."""

    call: Call
    x: Tensor
    weight: Tensor  # one of those stacked: their format and K
    parts: Sequence[WeightPart]
    y: BufferRange
    columns: int  # of a row of y
    norm: Norm | None = None
    residual: BufferRange | None = None  # is added
    gate: str = ""  # the op by which the upper half of the rows gates the lower
    experts: Tensor | None = None  # where each begins in x: rows have the weights of their expert

    def dispatches(self) -> list[Dispatch]:
        tuning = self.call.binder.tuning
        if tuning.vector_tokens and self._inputs % 32 == 0:
            return list(map(self._matmul_rows, self.parts))
        few = max(self._tokens, self._sequences) <= tuning.matvec_tokens
        if self.experts and self._tokens <= few_tokens(self.call.binder.program, tuning):
            few = True
        return [self._matvec(part) if few else self._matmul(part) for part in self.parts]

    def _matvec(self, part: WeightPart) -> Dispatch:
        tuning = self.call.binder.tuning
        tokens = 1 if self.experts else min(4, self.call.rows)
        rows = tuning.matvec_rows if tokens == 1 else min(4, tuning.matvec_rows)
        if self.gate:
            rows = max(2, rows // 2)
        lanes, beside = tuning.matvec_lanes, 1
        if tuning.tile_lanes and self._form.layout == "tiles":
            rows, beside = 1, tuning.tile_lanes
            slices = _power_of_two(self._inputs // LEAST_SHARE)
            lanes = min(tuning.most_lanes, beside * slices)
        groups = -(-self._outputs(part) // (rows * beside)), -(-self.call.rows // tokens)
        variant = self.call.reducing(f"matvec.{self._variant}")
        sizes = {"LANES": lanes, "ROWS": rows, "TOKENS": tokens, "LANE_ROWS": beside}
        return self._dispatch(variant, part, groups, **sizes, **self._beside())

    def _matmul_rows(self, part: WeightPart) -> Dispatch:
        tokens = min(self.call.binder.tuning.vector_tokens, self._rows_together)
        groups = -(-self._outputs(part) // (VECTOR * VECTOR_ROWS)), self._tiles(tokens)
        sizes = {"LANES": VECTOR, "TOKENS": tokens}
        return self._dispatch(
            f"matmul_rows.{self._format}", part, groups, **sizes, **self._beside()
        )

    def _matmul(self, part: WeightPart) -> Dispatch:
        # Rows of the largest step: else most of a tile is empty.
        tuning = self.call.binder.tuning
        enough = self.call.rows > max(MATRIX_PART, self._sequences)
        if self.x.dtype == "a8" and tuning.matrix[0] and enough and not self.experts:
            return self._matmul_matrix(part)
        most = tuning.tile
        tile_t = min(most, 1 << max(0, math.ceil(math.log2(self._rows_together / TILE))))
        groups = -(-self._outputs(part) // (TILE * most)), self._tiles(TILE * tile_t)
        sizes = {"TILE_T": tile_t, "TILE_N": most, "ADDED": int(self.residual is not None)}
        return self._dispatch(f"matmul.{self._variant}", part, groups, **sizes)

    def _matmul_matrix(self, part: WeightPart) -> Dispatch:
        tuning, side = self.call.binder.tuning, 2 * MATRIX_PART
        groups = -(-part.rows // side), -(-self.call.rows // side)
        sizes = dict(zip(("M_SIDE", "N_SIDE", "K_SIDE"), tuning.matrix, strict=True))
        sizes["LANES"] = MATRIX_SUBGROUPS * tuning.subgroup_size
        sizes["ADDED"] = int(self.residual is not None)
        return self._dispatch(f"matmul.{self._format}.matrix", part, groups, **sizes)

    def _dispatch(
        self, variant: str, part: WeightPart, groups: tuple[int, int], **sizes: int | float
    ) -> Dispatch:
        inputs, whole = self._inputs, self.weight.shape[1]
        sizes |= {"WEIGHT_K": whole} if inputs < whole else {}
        if self.experts:
            sizes |= {"EXPERTS": self.experts.shape[1] - 1, "EXPERT_ROWS": self.columns}
        return self.call.dispatch(
            variant,
            self._buffers(part),
            groups,
            self.call.rows * (self.columns if self.experts else part.rows) * inputs,
            K=inputs,
            N=part.rows,
            FIRST_ROW=part.first,
            Y_COLUMNS=self.columns,
            **sizes,
        )

    def _buffers(self, part: WeightPart) -> dict[str, BufferRange]:
        """Return the buffers; what is left out is bound to what is read anyhow, in whole texels of
        16 bytes."""
        binder, x = self.call.binder, self.call.binder.tensor(self.x)
        norm = binder.vector(self.norm.weight) if self.norm else part.place
        beside = {"Residual": self.residual or x, "NormWeight": norm}
        beside["Starts"] = binder.tensor(self.experts) if self.experts else x
        return {"Weight": part.place, "X": x, "Y": self.y, **beside}

    def _beside(self) -> dict[str, int | float]:
        """Return the constants of what else the dispatch does; those of nothing are the shader's
        own."""
        sizes: dict[str, int | float] = {"ADDED": 1} if self.residual else {}
        if self.gate:
            sizes |= {"HALVES": 2, "GELU": int(self.gate == "gelu_mul")}
        if self.norm:
            sizes |= {"NORMED": 1, "EPS": float(self.norm.eps)}
        return sizes

    @property
    def _tokens(self) -> int:
        """Return the tokens of the largest step."""
        return self.call.rows // self.call.rows_tensor.per_token

    @property
    def _rows_together(self) -> int:
        """Return how many rows of x have the same weights in the largest step, at least one: of
        experts those that one has if all are chosen alike."""
        if self.experts is None:
            return self.call.rows
        return max(1, self.call.rows // (self.experts.shape[1] - 1))

    def _tiles(self, size: int) -> int:
        """Return the workgroups for tiles of so many rows, with which each expert begins anew."""
        tiles = -(-self.call.rows // size)
        return tiles + self.experts.shape[1] - 1 if self.experts and size > 1 else tiles

    @property
    def _inputs(self) -> int:
        """Return how many of the weight's first columns are multiplied."""
        return self.x.shape[1]

    def _outputs(self, part: WeightPart) -> int:
        if self.experts:
            return self.columns
        return part.rows // 2 if self.gate else part.rows

    @property
    def _sequences(self) -> int:
        """Return the most sequences that share steps: this number chooses the kernel, and not how
        many do at the moment (alike.py)."""
        pages = self.call.binder.program.pages
        return pages.segments if pages else 0

    @property
    def _form(self) -> Format:
        return FORMATS[FORMATS[self.weight.dtype].multiplied]

    @property
    def _format(self) -> str:
        return self._form.name + (".a8" if self.x.dtype == "a8" else "")

    @property
    def _variant(self) -> str:
        """Return the format, with the suffix of the instructions that the device has for it."""
        integers = self.x.dtype == "a8" and self.call.binder.tuning.integer_dot
        return self._format + (".dot" if integers else "")


def _power_of_two(least: int) -> int:
    """Return the largest power of two that is not above `least`, 1 at least."""
    return 1 << max(0, least.bit_length() - 1)
