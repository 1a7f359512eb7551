"""Numbers that tell what a head does, from its map. Definitions; the device computes the same.

`maps` are float32 [heads, T, C]: rows of attention at `positions` [T] over positions 0..C-1, each
row a distribution over the positions up to its own. `tokens` [C] are the ids at all positions. A
score is the mean over the rows in which it can be told, float32 [heads]; nan where there is none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

F32 = NDArray[np.float32]
Numbers = Sequence[int] | NDArray[np.integer]


def entropy(maps: F32, positions: Numbers, tokens: Numbers) -> F32:
    """-sum p log p in nats: 0 for a head that looks at one position, log n for one at all."""
    logs = np.log(np.where(maps > 0, maps, 1))
    return _mean(-(maps * logs).sum(axis=2), np.ones(len(positions), np.bool_))


def first_token(maps: F32, positions: Numbers, tokens: Numbers) -> F32:
    """Share of the first position, the attention sink (Xiao et al. 2023), in rows after it."""
    return _mean(maps[:, :, 0], np.asarray(positions) > 0)


def previous_token(maps: F32, positions: Numbers, tokens: Numbers) -> F32:
    """Share of the position before, in rows after the first (Elhage et al. 2021)."""
    return _share(maps, np.asarray(positions)[:, None] - 1 == _keys(maps))


def duplicate_token(maps: F32, positions: Numbers, tokens: Numbers) -> F32:
    """Share of earlier positions with the row's own token, where there are any (Wang et al.
    2022)."""
    own, key = np.asarray(positions)[:, None], _keys(maps)
    ids = np.asarray(tokens)
    return _share(maps, (ids[own] == ids[key]) & (key < own))


def induction(maps: F32, positions: Numbers, tokens: Numbers) -> F32:
    """Share of positions right behind earlier ones with the row's own token, where there are any
    (Olsson et al. 2022): what came next the last times."""
    own, key = np.asarray(positions)[:, None], _keys(maps)
    ids = np.asarray(tokens)
    before = ids[np.maximum(key - 1, 0)]
    return _share(maps, (ids[own] == before) & (key > 0) & (key - 1 < own) & (key <= own))


Score = Callable[[F32, Numbers, Numbers], F32]

SCORES: Mapping[str, Score] = MappingProxyType(
    {
        "entropy": entropy,
        "first token": first_token,
        "previous token": previous_token,
        "duplicate token": duplicate_token,
        "induction": induction,
    }
)


def _keys(maps: F32) -> NDArray[np.intp]:
    return np.arange(maps.shape[2])[None, :]


def _share(maps: F32, wanted: NDArray[np.bool_]) -> F32:
    """Mean sum over the `wanted` [T, C] entries, of rows that have any."""
    shares = np.einsum("htc,tc->ht", maps, wanted.astype(np.float32))
    return _mean(shares, np.asarray(wanted.any(axis=1)))


def _mean(values: NDArray[np.floating], rows: NDArray[np.bool_]) -> F32:
    """[heads, T] -> [heads], over the rows that count."""
    if not rows.any():
        return np.full(len(values), np.nan, np.float32)
    mean: F32 = values[:, rows].mean(axis=1, dtype=np.float64).astype(np.float32)
    return mean
