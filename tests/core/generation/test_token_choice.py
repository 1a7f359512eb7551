"""The kernels that read rows of logits, on every instruction set, against NumPy."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from llm_lite_kernels import _cpp
from numpy.typing import NDArray

from llm_lite.core.processor import available_isas
from tests.pairs import pairs

F32 = NDArray[np.float32]
KERNELS = {isa: _cpp.Logits(isa) for isa in available_isas()}
SIZES = (1, 3, 15, 16, 17, 127, 128, 129, 1000, 49152)


def rows(size: int) -> list[F32]:
    """Of normal numbers, of many equal ones, of some that cannot be."""
    random = np.random.default_rng(size)
    spread = random.normal(0, 5, size).astype(np.float32)
    masked = np.where(random.random(size) < 0.5, spread, -np.inf).astype(np.float32)
    masked[random.integers(size)] = 2.0
    return [spread, random.integers(0, 4, size).astype(np.float32), masked]


@pytest.mark.parametrize("isa", KERNELS)
def test_sum_of_exponentials(isa: str) -> None:
    for values in (row for size in SIZES for row in rows(size)):
        largest, total = KERNELS[isa].sum_exp(values)
        assert largest == values.max()
        assert total == pytest.approx(np.exp(values.astype(float) - largest).sum(), rel=1e-6)


@pytest.mark.parametrize("isa", KERNELS)
def test_what_is_no_number_is_seen(isa: str) -> None:
    for size, place, bad in pairs(SIZES, (0, 0.4, 1), (math.nan, math.inf)):
        values = rows(size)[0]
        values[round(place * (size - 1))] = bad
        largest, total = KERNELS[isa].sum_exp(values)
        assert not (math.isfinite(largest) and math.isfinite(total)), (size, place, bad)
    for size in SIZES:
        assert KERNELS[isa].sum_exp(np.full(size, -np.inf, np.float32))[0] == -math.inf


@pytest.mark.parametrize("isa", KERNELS)
def test_the_largest_fall_and_equal_ones_keep_their_order(isa: str) -> None:
    for values in (row for size in SIZES for row in rows(size)):
        falling = np.argsort(-values, kind="stable")
        size = len(values)
        for count in {0, 1, min(5, size), min(40, size), size}:
            found = KERNELS[isa].largest(values, count)
            np.testing.assert_array_equal(found, falling[:count])


def drawn(
    logits: F32,
    temperature: float,
    top_k: int,
    top_p: float,
    min_p: float,
    penalty: float,
    recent: list[int],
    uniform: float,
) -> int:
    """What `draw` is to give, with sorting and whole arrays."""
    scores = logits.copy()
    some = np.unique(np.array(recent, np.int64))
    factor = np.float32(penalty)
    scores[some] = np.where(scores[some] > 0, scores[some] / factor, scores[some] * factor)
    tokens = np.argsort(-scores, kind="stable")[: top_k or None]
    if temperature == 0:
        return int(tokens[0])
    p = softmax(scores[tokens])
    keep = (np.cumsum(p) - p < top_p) & (p >= min_p * p[0]) & (p > 0)
    keep[0] = True
    cooled = (scores[tokens][keep].astype(float) - scores[tokens[0]]) / temperature
    ends = np.cumsum(softmax(cooled))
    return int(tokens[keep][np.searchsorted(ends[:-1], uniform, side="right")])


def softmax(values: NDArray[np.floating]) -> NDArray[np.float64]:
    weights = np.exp(values.astype(float) - values.max())
    return weights / weights.sum()


@pytest.mark.parametrize("isa", KERNELS)
@given(
    seed=st.integers(0, 10_000),
    size=st.sampled_from([1, 2, 17, 129, 700]),
    temperature=st.sampled_from([0.0, 0.3, 1.0, 30.0]),
    top_k=st.sampled_from([0, 1, 3, 40, 5000]),
    top_p=st.sampled_from([0.0, 0.31, 0.9, 1.0]),
    min_p=st.sampled_from([0.0, 0.05, 1.0]),
    penalty=st.sampled_from([0.5, 1.0, 1.1, 3.0]),
    uniform=st.sampled_from([0.0, 0.123, 0.5, 0.87, 0.999]),
)
def test_a_draw_is_the_plain_one(
    isa: str,
    seed: int,
    size: int,
    temperature: float,
    top_k: int,
    top_p: float,
    min_p: float,
    penalty: float,
    uniform: float,
) -> None:
    random = np.random.default_rng(seed)
    logits = random.normal(0, 3, size).astype(np.float32)
    recent = random.integers(0, size, random.integers(0, 20)).tolist()
    options = (temperature, top_k, top_p, min_p, penalty, recent, uniform)
    assert KERNELS[isa].draw(logits, *options) == drawn(logits, *options)


def test_bad_requests_are_refused() -> None:
    kernels, values = KERNELS[available_isas()[0]], np.zeros(3, np.float32)
    for call in (
        lambda: kernels.largest(values, 4),
        lambda: kernels.largest(values, -1),
        lambda: kernels.sum_exp(values[:0]),
        lambda: kernels.sum_exp(values.reshape(1, 3)),
        lambda: kernels.draw(values, 1.0, 0, 1.0, 0.0, 1.1, [3], 0.5),
        lambda: kernels.draw(values, 1.0, 0, 1.0, 0.0, 1.1, [-1], 0.5),
    ):
        with pytest.raises(ValueError, match="expected"):
            call()
