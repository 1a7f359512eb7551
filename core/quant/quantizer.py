"""Quantizes float32 values to the best bytes of a format, on all cores: what `convert` and variants
use."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from llm_lite.core.quant.blocks import tiles
from llm_lite.core.quant.blocks.codec import pack_nibbles, reciprocal, to_levels
from llm_lite.core.quant.blocks.tiles import INT4
from llm_lite.core.quant.formats import COLUMNS, TILE_ROWS
from llm_lite.core.quant.registry import FORMATS

F32 = NDArray[np.float32]
F64 = NDArray[np.float64]
Search = Callable[[F32, F32], NDArray[np.uint8]]  # values [N, 32], importance [32] -> tiles
_DAMPING = 0.01  # of the mean of H's diagonal, added to it


class Feedback(Struct, frozen=True):
    """The order in which the columns of one matrix are rounded: `order` [K] names them in turn, U
    is of H so ordered. Blocks come in the order of their most used column: what is rounded early
    can be made good by most others."""

    order: NDArray[np.intp]
    u: F32

    @classmethod
    def of(cls, moment: F32, identity: float = 0.0) -> Feedback:
        """Return the feedback of a moment [K, K], K a multiple of 32."""
        used = np.diag(moment).reshape(-1, COLUMNS)
        blocks = np.argsort(-used.max(axis=1), kind="stable")
        inside = np.argsort(-used, axis=1, kind="stable")
        order = (blocks[:, None] * COLUMNS + inside[blocks]).reshape(-1)
        return cls(order, factor(moment[np.ix_(order, order)], identity))


def encode(name: str, values: F32, importance: F32 | None = None) -> NDArray[np.uint8]:
    """values [N, K] -> bytes of a format; importance [K] >= 0 weighs squared errors by column.

    Tiles are searched (`core.quant.search` says how); other formats round.
    """
    if FORMATS[name].tile_rows == 1:
        return FORMATS[name].quantize(values)
    from llm_lite_kernels import _cpp

    from llm_lite.core.processor import default_threads, isa_name

    if importance is None:
        importance = np.ones(values.shape[1], np.float32)
    found: NDArray[np.uint8] = _cpp.quantize(
        name, values, importance, isa_name(), default_threads()
    )
    return found


class Calibrated:
    """Quantizes one matrix whose inputs' second moment is known.

    moment: [K, K] or its diagonal [K]; `also_rows`: rows of the matrix are read as they are too (an
    embedding that is the output head as well), so that no column may be neglected.
    """

    def __init__(self, name: str, moment: F32, *, also_rows: bool = False) -> None:
        self._name, self._feedback = name, None
        diagonal = np.diag(moment) if moment.ndim == 2 else moment
        mean = float(diagonal.mean(dtype=np.float64)) or 1.0
        share = _ROWS_SHARE if also_rows else 0.0
        self._importance = (diagonal / mean + (_LEAST + share)).astype(np.float32)
        if name == "int4" and moment.ndim == 2:
            self._feedback = Feedback.of(moment, share)

    def encode(self, values: F32) -> NDArray[np.uint8]:
        """Quantize values [N, K], any rows of the matrix from a multiple of 16 on."""
        if self._feedback is None or not np.isfinite(values).all():
            return encode(self._name, values, self._importance)
        return quantize_int4(
            values, self._feedback, lambda part, weight: encode(self._name, part, weight)
        )


_LEAST = 0.01  # importance that a column has which calibration never saw in use
_ROWS_SHARE = 0.1


def factor(moment: F32, identity: float = 0.0) -> F32:
    """H [K, K] -> U [K, K]; `identity` times the mean of the diagonal is added to H."""
    h: F64 = moment.astype(np.float64)
    mean = float(np.trace(h)) / len(h) or 1.0
    h[np.diag_indices_from(h)] += (_DAMPING + identity) * mean
    # Turned about, the lower factor is the upper one of H = R R^T, and U = R^-1.
    upper = np.linalg.cholesky(h[::-1, ::-1]).astype(np.float64)[::-1, ::-1]
    return _inverse_of_upper(upper).astype(np.float32)


def _inverse_of_upper(r: F64) -> F64:
    """Return the inverse of an upper triangular matrix, by halves, so that nearly all of it is
    products of matrices."""
    half = len(r) // 2
    if half < 32:
        inverse: F64 = np.linalg.inv(r).astype(np.float64)
        return inverse
    out = np.zeros_like(r)
    first = out[:half, :half] = _inverse_of_upper(r[:half, :half])
    last = out[half:, half:] = _inverse_of_upper(r[half:, half:])
    out[:half, half:] = -first @ (r[:half, half:] @ last)
    return out


def quantize_int4(values: F32, feedback: Feedback, search: Search) -> NDArray[np.uint8]:
    """Quantize values float32 [N, K] to tiles of int4."""
    u, rows, columns = feedback.u, *values.shape
    work: F32 = np.pad(values, ((0, -rows % TILE_ROWS), (0, 0)))[:, feedback.order]
    importance = (np.float32(1) / np.square(np.diag(u))).astype(np.float32)
    importance /= importance.mean()
    out = np.empty((len(work) // TILE_ROWS, columns // COLUMNS), INT4.TILE)
    for first in range(0, columns, COLUMNS):
        here = slice(first, first + COLUMNS)
        block, inside = np.divmod(feedback.order[here], COLUMNS)
        back = np.argsort(inside)  # to the columns' own order, in which a block lies
        found = search(np.ascontiguousarray(work[:, here][:, back]), importance[here][back])
        headers = tiles.headers_of_rows(found.view(INT4.TILE).reshape(-1, 1)["headers"])[:, 0]
        levels, errors = _round_block(work[:, here].T.copy(), headers, u[here, here])
        work[:, here.stop :] -= errors.T @ u[here, here.stop :]
        packed = pack_nibbles(levels[back].T)[:, None, :]
        out["headers"][:, block[0]] = headers.reshape(-1, TILE_ROWS)
        out["levels"][:, block[0]] = tiles.interleave(packed, INT4.GROUPS)[:, 0]
    return out.reshape(-1).view(np.uint8)


def _round_block(
    columns: F32, headers: NDArray[np.uint16], u: F32
) -> tuple[NDArray[np.uint8], F32]:
    """Round columns [32, N], with u [32, 32] -> levels [32, N], errors divided by u's diagonal [32,
    N]."""
    d = INT4.decode_step(headers >> np.uint16(6))
    inverse, z = reciprocal(d), (headers & 63).astype(np.float32) * np.float32(0.25)
    levels, errors = np.zeros(columns.shape, np.uint8), np.zeros_like(columns)
    with np.errstate(invalid="ignore"):
        for j, column in enumerate(columns):
            levels[j] = to_levels(column * inverse + z)
            decoded = np.where(inverse > 0, d * (levels[j] - z), 0)
            errors[j] = (column - decoded) / u[j, j]
            columns[j + 1 :] -= u[j, j + 1 :, None] * errors[j]
    return levels, errors
