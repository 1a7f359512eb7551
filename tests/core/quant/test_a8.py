import numpy as np
import pytest

from llm_lite.core.plan.plan import row_bytes
from llm_lite.core.quant.blocks import a8
from llm_lite.core.quant.blocks.a8 import dequantize_rows, quantize_rows


def random_rows(tokens=13, width=96, seed=0):
    return np.random.default_rng(seed).normal(size=(tokens, width)).astype(np.float32)


def values(blocks):
    return dequantize_rows(blocks.q, blocks.scale, blocks.zero)


def test_follows_its_definition_value_by_value():
    x = random_rows()
    found = quantize_rows(x)
    for t, b in np.ndindex(found.scale.shape):
        block = x[t, 32 * b : 32 * b + 32]
        low, high = min(np.float32(0), block.min()), max(np.float32(0), block.max())
        scale = np.float32(high / np.float32(254)) - np.float32(low / np.float32(254))
        inverse = np.float32(np.float32(1) / scale)
        zero = round(float(low * inverse)) + 127  # round() is half to even
        levels = [round(float(v * inverse)) - zero for v in block]
        assert found.scale[t, b] == scale
        assert found.zero[t, b] == zero
        assert found.q[t, 32 * b : 32 * b + 32].tolist() == levels
        assert found.total[t, b] == sum(levels) + 32 * zero
        assert found.block_sum[t, b] == scale * np.float32(sum(levels) + 32 * zero)
    types = [found.q, found.scale, found.zero, found.total, found.block_sum]
    assert [a.dtype for a in types] == [np.int8, np.float32, np.int16, np.int16, np.float32]


def test_halves_go_to_even_and_the_ends_to_the_largest_levels():
    x = np.zeros((1, 32), np.float32)
    x[0, :7] = [200, -54, 0.5, 1.5, 2.5, -0.5, -1.5]
    found = quantize_rows(x)
    assert (found.scale[0, 0], found.zero[0, 0]) == (1.0, 73)
    assert found.q[0, :8].tolist() == [127, -127, -73, -71, -71, -73, -75, -73]
    assert values(found)[0, :8].tolist() == [200, -54, 0, 2, 2, 0, -2, 0]
    assert (found.total[0, 0], found.block_sum[0, 0]) == (148, 148.0)


@pytest.mark.parametrize("shift", [-3, 0, 0.5, 3])
def test_error_is_at_most_half_a_step(shift):
    x = random_rows(seed=2) + np.float32(shift)
    found = quantize_rows(x)
    error = np.abs(values(found) - x).reshape(*found.scale.shape, 32).max(2)
    assert (error <= found.scale * 0.501).all()


def test_zero_stays_zero():
    x = random_rows(40, 32) * np.float32(7)
    x[:, 3] = 0
    assert not values(quantize_rows(x))[:, 3].any()


def test_levels_lie_where_the_values_are():
    x = np.abs(random_rows())
    symmetric_step = x.reshape(13, 3, 32).max(2) / 127
    np.testing.assert_allclose(quantize_rows(x).scale, symmetric_step / 2, rtol=1e-6)
    x[:, ::32] *= -1
    assert (quantize_rows(x).scale < symmetric_step).any()


@pytest.mark.parametrize(("value", "q", "zero"), [(5.0, 127, 127), (-5.0, -127, -127)])
def test_of_a_constant_block_all_values_are_at_the_end(value, q, zero):
    found = quantize_rows(np.full((1, 32), value, np.float32))
    assert (found.q == q).all()
    assert (found.zero == zero).all()
    assert (found.total == 32 * (q + zero)).all()
    np.testing.assert_allclose(values(found), value, rtol=1e-6)


@pytest.mark.parametrize("outlier", [1e4, -1e4])
def test_one_outlier_is_kept_and_costs_the_others(outlier):
    x = random_rows(1, 32)
    x[0, 9] = outlier
    y = values(quantize_rows(x))
    assert y[0, 9] == pytest.approx(outlier, rel=4e-3)
    assert np.abs(np.delete(y - x, 9)).max() <= 1e4 / 254 * 0.501


@pytest.mark.parametrize("magnitude", [0, 1e-45, 1e-38, -1e-37])
def test_blocks_too_small_for_a_scale_are_zero(magnitude):
    found = quantize_rows(np.full((2, 64), magnitude, np.float32))
    for each in (found.q, found.scale, found.zero, found.total, found.block_sum):
        assert not each.any()


def test_smallest_usable_and_largest_block():
    for magnitude in (4e-36, 3.4e38):
        found = quantize_rows(np.full((1, 32), magnitude, np.float32))
        assert (found.q == 127).all()
        assert np.isfinite(found.scale).all()


def test_huge_values_of_both_signs_do_not_overflow():
    x = np.zeros((1, 32), np.float32)
    x[0, :2] = [3.4e38, -3.4e38]
    found = quantize_rows(x)
    assert np.isfinite(found.scale).all()
    np.testing.assert_allclose(values(found)[0, :3], [3.4e38, -3.4e38, 0], rtol=0.004)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_non_finite_block_stays_visible_and_alone(bad):
    x = random_rows(1)
    x[0, 40] = bad
    found = quantize_rows(x)
    assert not np.isfinite(found.scale[0, 1])
    assert not np.isfinite(found.block_sum[0, 1])
    assert not found.q[0, 32:64].any()
    assert (found.zero[0, 1], found.total[0, 1]) == (0, 0)
    assert not np.isfinite(values(found)[0, 32:64]).any()
    assert np.isfinite(found.scale[0, [0, 2]]).all()


def test_rows_of_bytes_are_read_as_they_lie():
    x = random_rows()
    found = quantize_rows(x)
    pairs = np.stack([found.zero, found.total], axis=2).reshape(13, -1)
    scales = np.stack([found.scale, found.block_sum], axis=2).reshape(13, -1)
    parts = (found.q, scales, pairs)
    data = np.concatenate([np.ascontiguousarray(p).view(np.uint8) for p in parts], axis=1)
    assert data.shape == (13, row_bytes("a8", 96))
    np.testing.assert_array_equal(a8.decode_rows(data, 96), values(found))


def test_rows_must_fill_blocks():
    with pytest.raises(AssertionError, match="33"):
        quantize_rows(np.zeros((1, 33), np.float32))
