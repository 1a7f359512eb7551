"""Rows of an int4 cache: round trips, what the rotation is for, and what is no number."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray

from llm_lite.core.errors import UnsupportedError
from llm_lite.core.plan.checks import expect_blocks
from llm_lite.core.plan.plan import row_bytes
from llm_lite.core.quant import rows

F32 = NDArray[np.float32]
BLOCKS = (8, 16, 24, 64, 80, 96, 128, 256)


def error(x: F32, dtype: str, block: int) -> float:
    """Root mean square, relative to that of x."""
    found = rows.decode(rows.encode(x, dtype, block), dtype, x.shape[1], block)
    return float(np.sqrt(np.mean(np.square(found - x)) / np.mean(np.square(x))))


@pytest.mark.parametrize("block", BLOCKS)
def test_the_rotation_is_a_hadamard_matrix(block: int) -> None:
    n = rows.rotated_together(block)
    matrix = np.kron(np.eye(block // n), _hadamard(n))
    x = np.random.default_rng(1).integers(-9, 9, (3, 2 * block)).astype(np.float32)
    expected = (x.reshape(-1, block) @ matrix).reshape(x.shape)
    np.testing.assert_array_equal(rows.rotate(x, block), expected)
    np.testing.assert_array_equal(rows.rotate(rows.rotate(x, block), block), n * x)


def _hadamard(n: int) -> NDArray[np.float64]:
    """Sylvester's, from its definition."""
    one = np.ones((1, 1))
    while len(one) < n:
        one = np.block([[one, one], [one, -one]])
    return one


@pytest.mark.parametrize("block", BLOCKS)
def test_a_row_takes_half_a_byte_a_value_and_a_scale_a_head(block: int) -> None:
    data = rows.encode(np.ones((2, 3 * block), np.float32), "i4", block)
    assert data.shape == (2, 3 * block // 2 + 8)  # three scales, padded to words
    assert data.shape[1] == row_bytes("i4", 3 * block, block)


@given(
    st.sampled_from(BLOCKS),
    st.integers(0, 2**32 - 1),
    st.floats(-30, 30),
)
def test_what_is_decoded_and_encoded_again_keeps_its_bytes(
    block: int, seed: int, exponent: float
) -> None:
    random = np.random.default_rng(seed)
    x = (random.standard_t(2, (4, 2 * block)) * 2.0**exponent).astype(np.float32)
    data = rows.encode_i4(x, block)
    again = rows.encode_i4(rows.decode_i4(data, 2 * block, block), block)
    scales = np.ascontiguousarray(data[:, block : block + 4]).view(np.float16)
    normal = (np.isfinite(scales) & (scales >= np.finfo(np.float16).tiny)).all(axis=1)
    np.testing.assert_array_equal(again[normal], data[normal])


@given(
    hnp.arrays(
        np.float32,
        (2, 32),
        elements=st.floats(-(2.0**10), 2.0**10, width=32, allow_subnormal=False),
    )
)
def test_no_value_is_further_off_than_levels_of_its_head_allow(x: F32) -> None:
    """A rotated value is off by half a level or less, so all 16 together by that often."""
    found = rows.decode_i4(rows.encode_i4(x, 16), 32, 16)
    off = np.square(found.astype(np.float64) - x).reshape(2, 2, 16).sum(axis=2)
    level = np.abs(rows.rotate(x, 16)).reshape(2, 2, 16).max(axis=2).astype(np.float64) / 7.5
    allowed = (level * 0.51 + 1e-6) ** 2  # H / sqrt(n) keeps lengths, H / n shortens
    assert (off <= allowed).all()


def test_a_large_channel_costs_the_others_little() -> None:
    """As keys have them: beside levels of one scale without a rotation."""
    x = np.random.default_rng(2).normal(0, 1, (200, 64)).astype(np.float32)
    x[:, 17] += 20
    plain = np.abs(x).max(axis=1, keepdims=True) / 7.5
    others = np.arange(64) != 17
    rounded = (np.floor(np.clip(x / plain + 8, 0, 15)) - 7.5) * plain
    found = rows.decode_i4(rows.encode_i4(x, 64), 64, 64)
    lost, kept = (np.square(y - x)[:, others].mean() for y in (rounded, found))
    assert kept < lost / 3


def test_it_is_as_near_as_four_bits_can_be() -> None:
    """16 even levels of a normal distribution are off by 0.1075 at best (Max 1960)."""
    x = np.random.default_rng(3).normal(0, 1, (500, 128)).astype(np.float32)
    assert 0.1075 < error(x, "i4", 128) < 0.12
    assert error(x, "i8", 128) < 0.01


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 3e38])
def test_what_is_no_number_stays_visible_in_its_head_alone(bad: float) -> None:
    x = np.random.default_rng(4).normal(0, 1, (1, 48)).astype(np.float32)
    x[0, 20:22] = bad
    found = rows.decode_i4(rows.encode_i4(x, 16), 48, 16)
    assert not np.isfinite(found[0, 16:32]).any()
    assert np.isfinite(found[0, :16]).all() and np.isfinite(found[0, 32:]).all()


def test_nothing_is_exactly_nothing() -> None:
    zeros = np.zeros((2, 16), np.float32)
    assert not rows.decode_i4(rows.encode_i4(zeros, 8), 16, 8).any()
    assert not rows.decode_i4(np.zeros((2, row_bytes("i4", 16, 8)), np.uint8), 16, 8).any()


@pytest.mark.parametrize(("dtype", "block", "words"), [("i4", 12, 8), ("i8", 6, 4)])
def test_heads_of_no_whole_words_are_refused_by_a_sentence(
    dtype: str, block: int, words: int
) -> None:
    with pytest.raises(UnsupportedError) as refused:
        expect_blocks("k_cache.0", dtype, block, (10, 2 * block))
    assert str(refused.value) == (
        f"an int{dtype[1]} cache needs heads whose number of values is a multiple of {words}, and "
        f"this model's have {block}: choose fp16 for keys and values"
    )
