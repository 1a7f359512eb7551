"""Cases that stand for all combinations: every pair of values, and families on executors."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest

from tests.runners import BACKENDS
from tests.tiers import thorough, tiered

Case = tuple[Any, ...]
Pair = tuple[tuple[int, int], ...]  # two of (axis, value)


def each_pair(names: str, *axes: Sequence[Any], also: Iterable[Case] = ()) -> pytest.MarkDecorator:
    """Parametrizes a test by `pairs`: `names` are its arguments, one an axis."""
    return pytest.mark.parametrize(names, pairs(*axes, also=also))


def tiered_pairs(
    names: str, *axes: Sequence[Any], possible: Callable[..., bool] = lambda *case: True
) -> pytest.MarkDecorator:
    """Parametrize as `each_pair`, without cases that are not possible.

    `make test` runs as few of them as hold each value of each axis.
    """
    cases = [case for case in pairs(*axes) if possible(*case)]
    return tiered(names, cases, first=each_value(cases))


def each_value(cases: Sequence[Case]) -> list[Case]:
    """Return as few of the cases as hold each value of each axis."""
    chosen: list[Case] = []
    left = {value for case in cases for value in enumerate(case)}
    while left:
        chosen.append(max(cases, key=lambda case: len(left & set(enumerate(case)))))
        left -= set(enumerate(chosen[-1]))
    return chosen


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


def on_executors(families: Iterable[Any]) -> pytest.MarkDecorator:
    """Parametrize a test by (family, case, backend).

    In `make test` the C++ executor computes all cases, and each other one the first of a family.
    """
    return pytest.mark.parametrize(
        ("family", "case", "backend"),
        [
            (pytest.param if backend == "cpu" or not number else thorough)(
                family, case, backend, id=f"{family.name}-{case}-{backend}"
            )
            for family in families
            for number, case in enumerate(family.cases)
            for backend in BACKENDS
        ],
    )


def _held_by(case: tuple[int, ...], bits: defaultdict[Pair, int]) -> int:
    """The pairs of (axis, value)s of a case, each as its bit."""
    return sum(1 << bits[pair] for pair in itertools.combinations(enumerate(case), 2))
