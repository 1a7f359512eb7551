import numpy as np
import pytest

from core.quant.a8 import dequantize_rows, quantize_rows


def random_rows(tokens=13, width=96, seed=0):
    return np.random.default_rng(seed).normal(size=(tokens, width)).astype(np.float32)


def test_follows_its_definition_value_by_value():
    x = random_rows()
    q, scale, block_sum = quantize_rows(x)
    for t, b in np.ndindex(scale.shape):
        block = x[t, 32 * b : 32 * b + 32]
        expected = np.float32(np.abs(block).max() / np.float32(127))
        levels = [round(float(v * np.float32(np.float32(1) / expected))) for v in block]
        assert scale[t, b] == expected
        assert q[t, 32 * b : 32 * b + 32].tolist() == levels  # round() is half to even
        assert block_sum[t, b] == expected * np.float32(sum(levels))
    assert (q.dtype, scale.dtype, block_sum.dtype) == (np.int8, np.float32, np.float32)


def test_halves_go_to_even_and_the_largest_to_127():
    x = np.zeros((1, 32), np.float32)
    x[0, :6] = [127, 0.5, 1.5, 2.5, -0.5, -1.5]
    q, scale, block_sum = quantize_rows(x)
    assert q[0, :6].tolist() == [127, 0, 2, 2, 0, -2]
    assert scale.tolist() == [[1.0]]
    assert block_sum.tolist() == [[129.0]]


def test_error_is_at_most_half_a_step():
    x = random_rows(seed=2)
    q, scale, _ = quantize_rows(x)
    error = np.abs(dequantize_rows(q, scale) - x).reshape(*scale.shape, 32).max(2)
    assert (error <= scale * 0.501).all()


@pytest.mark.parametrize("magnitude", [0, 1e-45, 1e-38])
def test_blocks_too_small_for_a_scale_are_zero(magnitude):
    q, scale, block_sum = quantize_rows(np.full((2, 64), magnitude, np.float32))
    assert not q.any()
    assert not scale.any()
    assert not block_sum.any()


def test_smallest_usable_and_largest_block():
    for magnitude in (2e-36, 3e38):
        q, scale, _ = quantize_rows(np.full((1, 32), magnitude, np.float32))
        assert (q == 127).all()
        assert np.isfinite(scale).all()


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_non_finite_block_stays_visible_and_alone(bad):
    x = random_rows(1)
    x[0, 40] = bad
    q, scale, block_sum = quantize_rows(x)
    assert not np.isfinite(scale[0, 1])
    assert not np.isfinite(block_sum[0, 1])
    assert not q[0, 32:64].any()
    assert np.isfinite(scale[0, [0, 2]]).all()


def test_rows_must_fill_blocks():
    with pytest.raises(AssertionError, match="33"):
        quantize_rows(np.zeros((1, 33), np.float32))
