"""Cases that hold every pair of values of every two axes: far fewer than all combinations."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

import pytest

Case = tuple[Any, ...]
Pair = tuple[tuple[int, int], ...]  # two of (axis, value)


def each_pair(names: str, *axes: Sequence[Any], also: Iterable[Case] = ()) -> pytest.MarkDecorator:
    """Parametrizes a test by `pairs`: `names` are its arguments, one an axis."""
    return pytest.mark.parametrize(names, pairs(*axes, also=also))


def pairs(*axes: Sequence[Any], also: Iterable[Case] = ()) -> list[Case]:
    """Values by axis -> cases, the same in every run; `also` are cases that once failed.

    Greedy, as AETG (Cohen et al. 1997): each case takes the combination with the most new pairs.
    """
    numbers = [range(len(axis)) for axis in axes]
    chosen = [tuple(axis.index(v) for axis, v in zip(axes, case, strict=True)) for case in also]
    bits: defaultdict[Pair, int] = defaultdict(itertools.count().__next__)
    held = {case: _held_by(case, bits) for case in itertools.product(*numbers)}
    left = (1 << len(bits)) - 1
    for case in chosen:
        left &= ~held[case]
    while left:
        chosen.append(max(held, key=lambda case: (held[case] & left).bit_count()))
        left &= ~held[chosen[-1]]
    return [tuple(axis[i] for axis, i in zip(axes, case, strict=True)) for case in chosen]


def _held_by(case: tuple[int, ...], bits: defaultdict[Pair, int]) -> int:
    """The pairs of (axis, value)s of a case, each as its bit."""
    return sum(1 << bits[pair] for pair in itertools.combinations(enumerate(case), 2))
