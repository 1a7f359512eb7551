import math

import numpy as np
import pytest

from llm_lite.core.metrics import divergence
from llm_lite.core.metrics.divergence import Estimate, compare, percentile, perplexity


def naive(reference, tested, targets):
    """Token by token, as the definitions are written."""
    for p_logits, q_logits, target in zip(reference, tested, targets, strict=True):
        p = np.exp(p_logits.astype(float)) / np.exp(p_logits.astype(float)).sum()
        q = np.exp(q_logits.astype(float)) / np.exp(q_logits.astype(float)).sum()
        kl = sum(a * math.log(a / b) for a, b in zip(p, q, strict=True))
        yield kl, math.log(p[target]), math.log(q[target]), p.argmax() == q.argmax()


@pytest.mark.parametrize("block", [1, 8 * 127 * 3, 1 << 20])
def test_rows_are_the_definition(monkeypatch, block):
    monkeypatch.setattr(divergence, "_BLOCK_BYTES", block)
    random = np.random.default_rng(1)
    reference = random.normal(0, 3, (13, 127)).astype(np.float32)
    tested = reference + random.normal(0, 0.5, (13, 127)).astype(np.float32)
    targets = random.integers(0, 127, 13)
    rows = compare(reference, tested, targets)
    kld, log_p, log_q, same = zip(*naive(reference, tested, targets), strict=True)
    np.testing.assert_allclose(rows.kld, kld, rtol=1e-9)
    np.testing.assert_allclose(rows.log_p_reference, log_p, rtol=1e-9)
    np.testing.assert_allclose(rows.log_p, log_q, rtol=1e-9)
    assert rows.same_top.tolist() == list(same) and len(set(same)) == 2


def test_direction_and_equality():
    """KL(p || q) with p = (1/2, 1/2), q = (3/4, 1/4), and not the other way."""
    p, q = np.log([[1.0, 1.0]]).astype(np.float32), np.log([[3.0, 1.0]]).astype(np.float32)
    forth, back = (compare(a, b, np.array([0])).kld[0] for a, b in ((p, q), (q, p)))
    assert forth == pytest.approx(0.5 * math.log(4 / 3), rel=1e-6)
    assert back == pytest.approx(0.75 * math.log(1.5) + 0.25 * math.log(0.5), rel=1e-6)
    assert compare(q, q, np.array([1])).kld[0] == 0.0


def test_what_the_reference_rules_out_costs_nothing():
    p = np.array([[0.0, -np.inf]], np.float32)
    q = np.array([[0.0, 0.0]], np.float32)
    assert compare(p, q, np.array([0])).kld[0] == pytest.approx(math.log(2))
    assert compare(p, p, np.array([0])).kld[0] == 0.0
    assert compare(q, p, np.array([0])).kld[0] == math.inf


def test_estimates():
    values = np.array([1.0, 2.0, 4.0, 5.0])
    assert Estimate.of(values) == Estimate(3.0, math.sqrt(2.5 / 3))
    assert math.isnan(Estimate.of(values[:1]).error)
    found = perplexity(np.log([0.5, 0.125]))
    assert found.mean == pytest.approx(4.0)
    assert found.error == pytest.approx(4.0 * math.log(2))
    assert percentile(np.array([0.0, 1.0, 2.0, 10.0]), 50) == 1.5
    assert percentile(np.array([0.0, 10.0]), 99) == pytest.approx(9.9)
