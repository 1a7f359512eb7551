"""Cases that hold every pair of values of every two axes: far fewer than all combinations."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Any

import pytest

Case = tuple[Any, ...]


def each_pair(names: str, *axes: Sequence[Any], also: Iterable[Case] = ()) -> pytest.MarkDecorator:
    """Parametrizes a test by `pairs`: `names` are its arguments, one an axis."""
    return pytest.mark.parametrize(names, pairs(*axes, also=also))


def pairs(*axes: Sequence[Any], also: Iterable[Case] = ()) -> list[Case]:
    """Values by axis -> cases, the same in every run; `also` are cases that once failed.

    Greedy, as AETG (Cohen et al. 1997): each case takes the combination with the most new pairs.
    """
    numbers = [range(len(axis)) for axis in axes]
    chosen = [tuple(axis.index(v) for axis, v in zip(axes, case, strict=True)) for case in also]
    left = set().union(*map(_pairs_of, itertools.product(*numbers)))
    left -= set().union(*map(_pairs_of, chosen))
    while left:
        chosen.append(max(itertools.product(*numbers), key=lambda c: len(_pairs_of(c) & left)))
        left -= _pairs_of(chosen[-1])
    return [tuple(axis[i] for axis, i in zip(axes, case, strict=True)) for case in chosen]


def _pairs_of(case: tuple[int, ...]) -> set[tuple[tuple[int, int], ...]]:
    """Of (axis, value)s, each two."""
    return set(itertools.combinations(enumerate(case), 2))
