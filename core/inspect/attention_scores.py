"""Scores that characterise a head by its map: the one definition of names, order and meaning.

`maps` are float32 [heads, T, C]: rows of attention at `positions` [T] over positions 0..C-1, each
row a distribution over the positions up to its own. `tokens` [C] are the ids at all positions. A
score is the mean over the rows in which it is defined, float32 [heads]; nan where there is none.

A device that sums rows as they are computed (kernels_glsl/attention_map_scores.comp) keeps the sums
of all SCORES, in their order, and then the number of rows of each kind of ROWS; `means` divides.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Literal

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

F32 = NDArray[np.float32]
Numbers = Sequence[int] | NDArray[np.integer]
Rows = Literal["all", "later", "repeats"]
# Kinds of rows: every one; those after the first; those whose token stands at an earlier position.
ROWS: tuple[Rows, ...] = ("all", "later", "repeats")


def entropy(maps: F32, positions: Numbers, tokens: Numbers) -> F32:
    """-sum p log p in nats: 0 for a head that attends to one position, log n for one that
    attends to all alike."""
    logs = np.log(np.where(maps > 0, maps, 1))
    return -(maps * logs).sum(axis=2)


def previous_token(maps: F32, positions: Numbers, tokens: Numbers) -> F32:
    """Return the share of the position before (Elhage et al. 2021)."""
    return _share(maps, np.asarray(positions)[:, None] - 1 == _keys(maps))


def duplicate_token(maps: F32, positions: Numbers, tokens: Numbers) -> F32:
    """Return the share of earlier positions with the row's own token (Wang et al. 2022)."""
    own, key = np.asarray(positions)[:, None], _keys(maps)
    ids = np.asarray(tokens)
    return _share(maps, (ids[own] == ids[key]) & (key < own))


def induction(maps: F32, positions: Numbers, tokens: Numbers) -> F32:
    """Return the share of positions right behind earlier ones with the row's own token (Olsson et
    al. 2022): what came next the last times."""
    own, key = np.asarray(positions)[:, None], _keys(maps)
    ids = np.asarray(tokens)
    before = ids[np.maximum(key - 1, 0)]
    return _share(maps, (ids[own] == before) & (key > 0) & (key <= own))


def first_token(maps: F32, positions: Numbers, tokens: Numbers) -> F32:
    """Return the share of the first position, the attention sink (Xiao et al. 2023)."""
    return maps[:, :, 0]


class Score(Struct, frozen=True):
    """A score of heads: `of` gives a value for each row, float32 [heads, T]; `rows` are those
    that count."""

    label: str
    rows: Rows
    of: Callable[[F32, Numbers, Numbers], F32]
    nats: bool = False  # else a share of a row, 0 to 1

    def __call__(self, maps: F32, positions: Numbers, tokens: Numbers) -> F32:
        """Return the mean over the rows that count, float32 [heads]."""
        counted = of_kind(self.rows, positions, tokens)
        if not counted.any():
            return np.full(len(maps), np.nan, np.float32)
        values = self.of(maps, positions, tokens)[:, counted]
        mean: F32 = values.mean(axis=1, dtype=np.float64).astype(np.float32)
        return mean


SCORES: Mapping[str, Score] = MappingProxyType(
    {
        "entropy": Score("Entropy", "all", entropy, nats=True),
        "previous": Score("Previous token", "later", previous_token),
        "duplicate": Score("Duplicate token", "repeats", duplicate_token),
        "induction": Score("Induction", "repeats", induction),
        "first": Score("First token", "later", first_token),
    }
)


def of_kind(rows: Rows, positions: Numbers, tokens: Numbers) -> NDArray[np.bool_]:
    """[T]: which of the rows at these positions are of a kind."""
    own = np.asarray(positions)
    if rows == "all":
        return np.ones(len(own), np.bool_)
    return own > 0 if rows == "later" else repeats(tokens)[own]


def repeats(tokens: Numbers) -> NDArray[np.bool_]:
    """[C]: whose token stands at an earlier position too."""
    ids = np.asarray(tokens)
    found = np.ones(len(ids), np.bool_)
    found[np.unique(ids, return_index=True)[1]] = False
    return found


def sums_of(maps: F32, positions: Numbers, tokens: Numbers) -> F32:
    """Return the sums of all SCORES over these rows, and then the number of rows of each kind of
    ROWS, float32 [heads, len(SCORES) + len(ROWS)]."""
    counted = {kind: of_kind(kind, positions, tokens) for kind in ROWS}
    found = [
        score.of(maps, positions, tokens)[:, counted[score.rows]].sum(axis=1)
        for score in SCORES.values()
    ]
    found += [np.full(len(maps), counted[kind].sum()) for kind in ROWS]
    return np.stack(found, axis=1).astype(np.float32)


def means(sums: F32) -> dict[str, F32]:
    """Return by name the means [heads] of sums [heads, len(SCORES) + len(ROWS)]; else nan."""
    found = {}
    for column, (name, score) in enumerate(SCORES.items()):
        count = sums[:, len(SCORES) + ROWS.index(score.rows)]
        value = sums[:, column] / np.maximum(count, 1)
        found[name] = np.where(count > 0, value, np.nan).astype(np.float32)
    return found


def _keys(maps: F32) -> NDArray[np.intp]:
    return np.arange(maps.shape[2])[None, :]


def _share(maps: F32, wanted: NDArray[np.bool_]) -> F32:
    """[heads, T]: the sum over the `wanted` [T, C] entries of each row."""
    shares: F32 = np.einsum("htc,tc->ht", maps, wanted.astype(np.float32))
    return shares
