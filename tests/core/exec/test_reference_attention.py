"""Attention that is not causal, of another sequence, or biased by distance, against plain loops."""

from __future__ import annotations

import math

import numpy as np
import pytest

from llm_lite.core.exec import reference


def _random(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def _by_loops(q, keys, values, seen, score_of):
    """One head: `seen` gives the positions that a row sees, `score_of` what is added to a score."""
    y = np.zeros(q.shape)
    for t, row in enumerate(q.astype(np.float64)):
        positions = list(seen(t))
        scores = [0.5 * row @ keys[p].astype(np.float64) + score_of(t, p) for p in positions]
        weights = [math.exp(s - max(scores)) for s in scores]
        for position, weight in zip(positions, weights, strict=True):
            y[t] += weight / sum(weights) * values[position]
    return y


SIZES = {"heads": 1, "kv_heads": 1, "head_dim": 5, "scale": 0.5, "window": 0, "layer": 0}
GAINS = np.ones((1, 1), np.float32)


def _cached(rows, used):
    cache = _random(rows, 5, seed=rows + used)
    cache[used:] = np.nan  # nobody may look there
    return cache


def test_bidirectional_attention_sees_the_whole_sequence():
    q, keys, values = _random(4, 5), _cached(9, 4), _cached(10, 4)[:9]
    y = reference.attention(q, keys, values, GAINS, 0, bidirectional=True, **SIZES)
    expected = _by_loops(q, keys, values, lambda t: range(4), lambda t, p: 0.0)
    np.testing.assert_allclose(y, expected, atol=1e-5)


@pytest.mark.parametrize("start", [0, 40])
def test_cross_attention_sees_the_whole_source(start):
    q, keys, values = _random(3, 5), _cached(9, 7), _cached(10, 7)[:9]
    y = reference.attention(q, keys, values, GAINS, start, cross=True, source=7, **SIZES)
    expected = _by_loops(q, keys, values, lambda t: range(7), lambda t, p: 0.0)
    np.testing.assert_allclose(y, expected, atol=1e-5)


@pytest.mark.parametrize(("before", "columns"), [(0, 1), (2, 3), (2, 5), (8, 9), (1, 4)])
@pytest.mark.parametrize("bidirectional", [False, True])
def test_a_bias_by_distance(before, columns, bidirectional):
    q, keys, values = _random(4, 5), _cached(9, 7), _cached(10, 7)[:9]
    start = 0 if bidirectional else 3
    length, bias = start + 4, _random(1, columns, seed=5) * 3

    def added(t, p):
        return float(bias[0, min(max(p - (start + t) + before, 0), columns - 1)])

    options = {"bias": bias, "bias_before": before, "bidirectional": bidirectional, **SIZES}
    y = reference.attention(q, keys, values, GAINS, start, **options)
    seen = (lambda t: range(length)) if bidirectional else (lambda t: range(start + t + 1))
    np.testing.assert_allclose(y, _by_loops(q, keys, values, seen, added), atol=1e-5)
