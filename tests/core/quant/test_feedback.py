"""Rounding with error feedback loses less of the products than the best blocks by themselves."""

import numpy as np
import pytest

from llm_lite.core.quant import quantizer, search
from llm_lite.core.quant.blocks.tiles import INT4
from llm_lite.core.quant.quantizer import Calibrated, encode


def correlated(columns, tokens=400, seed=0):
    """Inputs whose columns say much the same, as those of a model do; `seed` of the tokens."""
    rng, few = np.random.default_rng(seed), columns // 4
    mixed = np.random.default_rng(100).standard_normal((few, columns))
    own = rng.standard_normal((tokens, columns))
    x = rng.standard_normal((tokens, few)) @ mixed + 0.3 * own
    return (x * np.linspace(2, 1, columns)).astype(np.float32)


def moment_of(x):
    return (x.T @ x / len(x)).astype(np.float32)


def lost(values, data, x):
    """Of the products, as a share."""
    off = x @ (values - INT4.dequantize(data, values.shape)).T
    return float(np.square(off).sum() / np.square(x @ values.T).sum())


@pytest.mark.parametrize("columns", [32, 96, 160, 288])
@pytest.mark.parametrize("identity", [0.0, 0.5])
def test_factor_is_that_of_the_inverse(columns, identity):
    h = moment_of(correlated(columns)).astype(np.float64)
    u = quantizer.factor(h.astype(np.float32), identity).astype(np.float64)
    h[np.diag_indices(columns)] += (0.01 + identity) * np.trace(h) / columns
    assert np.array_equal(u, np.triu(u))
    assert np.abs(u.T @ u @ h - np.eye(columns)).max() < 1e-3


def test_columns_are_taken_by_blocks_the_most_used_first():
    moment = np.diag(np.arange(96, dtype=np.float32) % 70 + 1)
    order = quantizer.Feedback.of(moment).order
    expected = [range(69, 63, -1), range(95, 69, -1), range(63, 31, -1), range(31, -1, -1)]
    assert order.tolist() == [column for part in expected for column in part]


def test_inputs_that_are_all_zero_have_a_factor():
    assert np.all(np.isfinite(quantizer.factor(np.zeros((64, 64), np.float32))))


def test_feedback_loses_less_of_the_products():
    values = np.random.default_rng(1).standard_normal((48, 192)).astype(np.float32)
    x = correlated(192)
    plain = lost(values, search.quantize_int4(values, np.ones(192, np.float32)), x)
    by = quantizer.Feedback.of(moment_of(x))
    assert lost(values, quantizer.quantize_int4(values, by, search.quantize_int4), x) < 0.5 * plain
    assert lost(values, Calibrated("int4", moment_of(x)).encode(values), x) < 0.5 * plain
    unseen = correlated(192, seed=1)
    assert lost(values, Calibrated("int4", moment_of(x)).encode(values), unseen) < 0.5 * plain


@pytest.mark.parametrize("name", ["int4", "int8"])
def test_a_diagonal_weighs_columns(name):
    """Where only the squares of inputs are known, those that are large come out closer."""
    values = np.random.default_rng(2).standard_normal((32, 64)).astype(np.float32)
    diagonal = np.ones(64, np.float32)
    diagonal[7] = 3000
    found = Calibrated(name, diagonal).encode(values)
    assert np.array_equal(
        found, encode(name, values, diagonal / diagonal.mean(dtype=np.float64) + np.float32(0.01))
    )
    assert not np.array_equal(found, encode(name, values))


def test_rows_that_are_read_count_too():
    """A column that no product uses is not neglected where rows are read as they are."""
    x = correlated(64)
    x[:, 3] = 0
    values = np.random.default_rng(4).standard_normal((32, 64)).astype(np.float32)
    off = []
    for also_rows in (False, True):
        data = Calibrated("int4", moment_of(x), also_rows=also_rows).encode(values)
        off.append(np.square(values - INT4.dequantize(data, values.shape)).sum())
    assert off[1] < off[0]


def test_pieces_of_rows_make_the_same_bytes():
    values = np.random.default_rng(5).standard_normal((40, 96)).astype(np.float32)
    by = Calibrated("int4", moment_of(correlated(96)))
    whole = by.encode(values)
    assert np.array_equal(whole, np.concatenate([by.encode(values[:16]), by.encode(values[16:])]))


def test_values_that_are_not_finite_are_left_to_the_search():
    values = np.ones((16, 32), np.float32)
    values[0, 0] = np.nan
    found = Calibrated("int4", moment_of(correlated(32))).encode(values)
    assert INT4.non_finite(found)
