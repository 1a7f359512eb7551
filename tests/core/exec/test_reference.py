"""Every reference op against loops in float64 that share no code with it."""

import cmath
import math

import numpy as np
import pytest

from core.exec import reference
from core.plan.ops import OPS


def _random(*shape, seed=0):
    return np.random.default_rng([seed, *shape]).normal(size=shape).astype(np.float32)


def test_embed():
    table = _random(7, 5)
    y = reference.embed(table, np.array([6, 0, 6], np.int32))
    assert np.array_equal(y, np.stack([table[6], table[0], table[6]]))


@pytest.mark.parametrize("width", [1, 13, 127])
@pytest.mark.parametrize("eps", [1e-6, 1.0])
def test_rms_norm(width, eps):
    x, weight = _random(3, width), _random(width, seed=1)
    y = reference.rms_norm(x, weight, eps=eps)
    assert y.dtype == np.float32
    for row in range(3):
        mean = sum(float(v) ** 2 for v in x[row]) / width
        for i in range(width):
            expected = float(x[row, i]) / math.sqrt(mean + eps) * float(weight[i])
            assert y[row, i] == pytest.approx(expected, rel=1e-5, abs=1e-6)


def test_rms_norm_of_zeros_is_zero():
    assert not reference.rms_norm(np.zeros((1, 8), np.float32), _random(8), eps=1e-5).any()


def test_quantize_is_within_half_a_step():
    x = _random(4, 96) * np.float32(10)
    y = reference.quantize(x)
    for row in range(4):
        for first in range(0, 96, 32):
            block = x[row, first : first + 32]
            step = float(np.abs(block).max()) / 127
            error = np.abs(y[row, first : first + 32] - block)
            assert 0 < error.max() <= step * 0.5001


def test_matmul():
    x, weight = _random(3, 13), _random(5, 13, seed=2)
    y = reference.matmul(x, weight)
    for t in range(3):
        for n in range(5):
            expected = sum(float(x[t, k]) * float(weight[n, k]) for k in range(13))
            assert y[t, n] == pytest.approx(expected, rel=1e-5, abs=1e-5)


@pytest.mark.parametrize("half_split", [False, True])
@pytest.mark.parametrize("with_factors", [False, True])
@pytest.mark.parametrize(("head_dim", "rotary_dim"), [(8, 8), (12, 6), (2, 2)])
def test_rope_is_multiplication_by_a_complex_number(half_split, with_factors, head_dim, rotary_dim):
    heads, pairs, theta, scale = 3, rotary_dim // 2, 10000.0, 0.25
    x = _random(3, heads * head_dim)
    factors = np.linspace(1, 4, pairs, dtype=np.float32) if with_factors else None
    positions = np.array([0, 17, 4001], np.int32)
    y = reference.rope(
        x,
        factors,
        positions,
        head_dim=head_dim,
        rotary_dim=rotary_dim,
        theta=theta,
        scale=scale,
        half_split=half_split,
    )
    expected = x.astype(np.float64)
    for t in range(3):
        for head in range(heads):
            at = head * head_dim
            for i in range(pairs):
                a, b = (at + i, at + i + pairs) if half_split else (at + 2 * i, at + 2 * i + 1)
                angle = positions[t] * scale * theta ** (-2 * i / rotary_dim)
                if factors is not None:
                    angle /= factors[i]
                turned = complex(x[t, a], x[t, b]) * cmath.exp(1j * angle)
                expected[t, a], expected[t, b] = turned.real, turned.imag
    np.testing.assert_allclose(y, expected, atol=2e-6)
    assert np.array_equal(y[0], x[0]), "position 0 is not turned"


def _attention_by_loops(q, keys, values, start, *, heads, kv_heads, head_dim, scale, window):
    y = np.zeros(q.shape)
    for t in range(len(q)):
        own = start + t
        first = max(0, own - window + 1) if window else 0
        for head in range(heads):
            group = head // (heads // kv_heads)
            query = q[t, head * head_dim : (head + 1) * head_dim]
            scores = []
            for position in range(first, own + 1):
                key = keys[position, group * head_dim : (group + 1) * head_dim]
                dot = sum(float(a) * float(b) for a, b in zip(query, key, strict=True))
                scores.append(dot * scale)
            weights = [math.exp(s - max(scores)) for s in scores]
            for position, weight in zip(range(first, own + 1), weights, strict=True):
                for i in range(head_dim):
                    value = float(values[position, group * head_dim + i])
                    y[t, head * head_dim + i] += weight / sum(weights) * value
    return y


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
@pytest.mark.parametrize("window", [0, 1, 3])
@pytest.mark.parametrize("start", [0, 5])
@pytest.mark.parametrize(("heads", "kv_heads"), [(4, 4), (6, 2), (3, 1)])
def test_attention(heads, kv_heads, start, window, dtype):
    tokens, head_dim, capacity = 4, 5, 12
    q = _random(tokens, heads * head_dim)
    keys = _random(capacity, kv_heads * head_dim, seed=1).astype(dtype)
    values = _random(capacity, kv_heads * head_dim, seed=2).astype(dtype)
    keys[start + tokens :] = values[start + tokens :] = np.nan  # nobody may look there
    sizes = {"heads": heads, "kv_heads": kv_heads, "head_dim": head_dim}
    options = {**sizes, "scale": 0.7, "window": window}
    gains = _random(3, heads, seed=3)
    y = reference.attention(q, keys, values, gains, start, layer=1, **options)
    assert y.dtype == np.float32
    expected = _attention_by_loops(q, keys, values, start, **options)
    expected = expected.reshape(tokens, heads, head_dim) * gains[1][:, None]
    np.testing.assert_allclose(y, expected.reshape(y.shape), atol=1e-5)


def test_attention_survives_large_scores():
    q = np.full((2, 2), 1e4, np.float32)
    keys = np.array([[1e4, 1e4], [-1e4, -1e4]], np.float32)
    values = np.array([[1, 2], [3, 4]], np.float32)
    sizes = {"heads": 1, "kv_heads": 1, "head_dim": 2, "scale": 1.0, "window": 0, "layer": 0}
    y = reference.attention(q, keys, values, np.ones((1, 1), np.float32), 0, **sizes)
    assert y.tolist() == [[1, 2], [1, 2]]


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_kv_store_writes_its_rows_and_no_others(dtype):
    k, v = _random(2, 6), _random(2, 6, seed=1)
    k_cache, v_cache = np.full((5, 6), 9, dtype), np.full((5, 6), 9, dtype)
    reference.kv_store(k, v, k_cache, v_cache, 2)
    assert np.array_equal(k_cache[2:4], k.astype(dtype))
    assert np.array_equal(v_cache[2:4], v.astype(dtype))
    for cache in (k_cache, v_cache):
        assert (cache[[0, 1, 4]] == 9).all()


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_query_store_goes_round_its_ring(dtype):
    q, ring = _random(3, 6), np.full((5, 6), 9, dtype)
    reference.query_store(q, ring, 13)  # positions 13, 14 and 15 lie in rows 3, 4 and 0
    assert np.array_equal(ring[[3, 4, 0]], q.astype(dtype))
    assert (ring[1:3] == 9).all()


def test_silu_mul():
    gate = np.array([[-1000, -20, -1, 0, 1, 20, 1000]], np.float32)
    up = np.array([[3, -2, 0.5, 7, -4, 1, 0.25]], np.float32)
    y = reference.silu_mul(gate, up)
    for i, g in enumerate(gate[0].astype(float)):
        sigmoid = 1 / (1 + math.exp(-g)) if g > -700 else 0.0
        assert y[0, i] == pytest.approx(g * sigmoid * float(up[0, i]), rel=1e-6, abs=1e-12)


def test_add_and_output_rows():
    a, b = _random(5, 3), _random(5, 3, seed=1)
    assert np.array_equal(reference.add(a, b), a + b)
    assert np.array_equal(reference.output_rows(a, 2), a[[3, 4]])
    assert np.array_equal(reference.output_rows(a, 5), a)


def test_softmax_rows():
    scores = np.array([[0.0, math.log(3)], [1e30, 1e30], [-np.inf, -5.0]], np.float32)
    expected = [[0.25, 0.75], [0.5, 0.5], [0.0, 1.0]]
    np.testing.assert_allclose(reference.softmax(scores), expected, rtol=1e-6)


def test_every_op_has_its_test_here():
    tests = " ".join(name for name in globals() if name.startswith("test_"))
    assert [name for name in OPS if name not in tests] == []
