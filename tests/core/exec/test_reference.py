"""Every reference op against loops in float64 that share no code with it."""

import cmath
import math
import statistics

import numpy as np
import pytest

from llm_lite.core.exec import reference
from llm_lite.core.exec.op_cases import FORMULAS
from llm_lite.core.plan.ops import OPS
from llm_lite.core.quant.registry import FORMATS
from llm_lite.core.quant.tensor import TensorData


def _random(*shape, seed=0):
    return np.random.default_rng([seed, *shape]).normal(size=shape).astype(np.float32)


def test_embed():
    table = _random(7, 5)
    y = reference.embed(table, np.array([6, 0, 6], np.int32))
    assert np.array_equal(y, np.stack([table[6], table[0], table[6]]))


def test_position_rows():
    table = _random(7, 5)
    y = reference.position_rows(table, np.array([4, 5, 6, 7, 900], np.int32))
    assert np.array_equal(y, np.stack([table[i] for i in (4, 5, 6, 6, 6)]))
    behind = reference.position_rows(table, np.array([0, 4, 5], np.int32), first=2)
    assert np.array_equal(behind, np.stack([table[i] for i in (2, 6, 6)]))


def test_type_rows():
    table, tokens = _random(2, 5), np.array([7, 3, 9, 4, 9, 5], np.int32)
    found = reference.type_rows(table, tokens, separator=9)
    assert np.array_equal(found, np.stack([table[i] for i in (0, 0, 0, 1, 1, 1)]))


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


@pytest.mark.parametrize("width", [1, 13, 127])
@pytest.mark.parametrize("eps", [1e-6, 1.0])
@pytest.mark.parametrize("biased", [True, False])
def test_layer_norm(width, eps, biased):
    x = _random(3, width) + np.float32(5)
    weight, bias = _random(width, seed=1), _random(width, seed=2)
    y = reference.layer_norm(x, weight, bias if biased else None, eps=eps)
    assert y.dtype == np.float32
    for row in range(3):
        values = [float(v) for v in x[row]]
        deviation = math.sqrt(statistics.pvariance(values) + eps)
        for i, value in enumerate(values):
            expected = (value - statistics.fmean(values)) / deviation * float(weight[i])
            expected += float(bias[i]) if biased else 0
            assert y[row, i] == pytest.approx(expected, rel=1e-5, abs=1e-5)


@np.errstate(over="ignore", invalid="ignore")
@pytest.mark.parametrize("large", [1e30, 3e38, np.inf, np.nan])
def test_a_layer_norm_that_overflows_is_nan(large):
    x = np.array([[large, large, -1, 2], [1, 2, 3, 5]], np.float32)
    y = reference.layer_norm(x, np.ones(4, np.float32), eps=1e-5)
    assert np.isnan(y[0]).all() and np.isfinite(y[1]).all()


def test_quantize_is_within_half_a_step():
    x = _random(4, 96) * np.float32(10)
    y = reference.quantize(x)
    for row in range(4):
        for first in range(0, 96, 32):
            block = x[row, first : first + 32]
            step = float(max(0, block.max()) - min(0, block.min())) / 254
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


def test_rope_grows_by_whole_lengths():
    x, positions = _random(4, 12), np.array([0, 99, 100, 350], np.int32)
    sizes = {"head_dim": 6, "rotary_dim": 4, "theta": 1e4, "scale": 1.0, "half_split": True}
    plain = reference.rope(x, None, positions, **sizes)
    grown = reference.rope(x, None, positions, temperature=0.5, temperature_length=100, **sizes)
    factors = [1, 1, 1 + 0.5 * math.log(2), 1 + 0.5 * math.log(4)]
    np.testing.assert_allclose(grown, plain * np.array(factors)[:, None], rtol=1e-6)
    assert np.array_equal(grown[:2], plain[:2])


def _attention_by_loops(
    q, keys, values, start, *, heads, kv_heads, head_dim, scale, window, softcap=0.0, sinks=None
):
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
                score = dot * scale
                scores.append(softcap * math.tanh(score / softcap) if softcap else score)
            weights = [math.exp(s - max(scores)) for s in scores]
            total = sum(weights)
            if sinks is not None:
                total += math.exp(sinks[head] - max(scores))
            for position, weight in zip(range(first, own + 1), weights, strict=True):
                for i in range(head_dim):
                    value = float(values[position, group * head_dim + i])
                    y[t, head * head_dim + i] += weight / total * value
    return y


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
@pytest.mark.parametrize("window", [0, 1, 3])
@pytest.mark.parametrize("start", [0, 5])
@pytest.mark.parametrize(("heads", "kv_heads"), [(4, 4), (6, 2), (3, 1)])
@pytest.mark.parametrize(("softcap", "sinks"), [(0.0, 0.0), (0.4, 3.0), (50.0, 0.0), (0.0, 9.0)])
def test_attention(heads, kv_heads, start, window, dtype, softcap, sinks):
    tokens, head_dim, capacity = 4, 5, 12
    q = _random(tokens, heads * head_dim)
    keys = _random(capacity, kv_heads * head_dim, seed=1).astype(dtype)
    values = _random(capacity, kv_heads * head_dim, seed=2).astype(dtype)
    keys[start + tokens :] = values[start + tokens :] = np.nan  # nobody may look there
    sizes = {"heads": heads, "kv_heads": kv_heads, "head_dim": head_dim}
    options = {**sizes, "scale": 0.7, "window": window, "softcap": softcap}
    options["sinks"] = _random(1, heads, seed=4)[0] * np.float32(sinks) if sinks else None
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


@np.errstate(over="ignore")
def test_scores_of_any_size_are_capped_and_nan_stays():
    q = np.array([[1e30], [1e30], [np.nan]], np.float32)
    keys = np.array([[1e30], [-1e30], [0]], np.float32)  # scores of +-infinity and 0
    values = np.eye(3, dtype=np.float32)
    sizes = {"heads": 1, "kv_heads": 1, "head_dim": 1, "scale": 1.0, "window": 0, "layer": 0}
    gains = np.ones((1, 1), np.float32)
    weights = [
        reference.attention(q, keys, values[:, i : i + 1], gains, 0, softcap=3.0, **sizes)[:, 0]
        for i in range(3)
    ]
    found = np.stack(weights, axis=1)
    total = math.exp(3) + math.exp(-3)
    assert found[0].tolist() == [1, 0, 0]
    np.testing.assert_allclose(found[1], [math.exp(3) / total, math.exp(-3) / total, 0], rtol=1e-5)
    assert np.isnan(found[2]).all()


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_store_goes_round_its_cache_and_writes_no_other_rows(dtype):
    rows, cache = _random(3, 6), np.full((5, 6), 9, dtype)
    reference.store(rows, cache, 13)  # positions 13, 14 and 15 lie in rows 3, 4 and 0
    assert np.array_equal(cache[[3, 4, 0]], rows.astype(dtype))
    assert (cache[1:3] == 9).all()


@pytest.mark.parametrize("op", FORMULAS)
def test_an_elementwise_op_is_its_formula(op):
    params, formula = FORMULAS[op]
    inputs = [_random(7, 9, seed=seed) * np.float32(10) for seed in range(len(OPS[op].inputs))]
    inputs[0][0] = [0, 1e-3, -1e-30, 30, -30, 200, -200, 1e3, -1e3]
    y = getattr(reference, op)(*inputs, **params)
    assert y.dtype == np.float32
    for at in np.ndindex(7, 9):
        expected = formula(*(float(x[at]) for x in inputs))
        assert y[at] == pytest.approx(expected, rel=1e-5, abs=1e-5), at


def test_output_rows():
    a = _random(5, 3)
    assert np.array_equal(reference.output_rows(a, np.array([1, 4])), a[[1, 4]])
    assert np.array_equal(reference.output_rows(a, np.arange(5)), a)


def test_rms_norm_of_groups_is_that_of_each():
    x, weight = _random(3, 12), _random(4, seed=1)
    y = reference.rms_norm(x, weight, eps=1e-6, width=4)
    for first in (0, 4, 8):
        part = reference.rms_norm(x[:, first : first + 4], weight, eps=1e-6)
        assert np.allclose(y[:, first : first + 4], part, rtol=1e-6)
    ones = np.ones(4, np.float32)
    plain = reference.rms_norm(x, eps=1e-6, width=4)
    assert np.array_equal(plain, reference.rms_norm(x, ones, eps=1e-6, width=4))


@pytest.mark.parametrize("dtype", ["f32", "q4_1", "int4", "int8"])
def test_table_rows(dtype):
    values = _random(21, 64)
    table = TensorData("t", dtype, values.shape, FORMATS[dtype].quantize(values))
    y = reference.table_rows(table, np.array([20, 0, 3, 21, 99], np.int32))
    assert np.array_equal(y, table.dequantize()[[20, 0, 3, 0, 0]])


def test_gelu_mul_is_near_that_by_erf():
    gate, up = _random(2, 9) * np.float32(3), _random(2, 9, seed=1)
    y = reference.gelu_mul(gate, up)
    for i, (g, u) in enumerate(zip(gate.flat, up.flat, strict=True)):
        g, u = float(g), float(u)
        inner = math.sqrt(2 / math.pi) * (g + 0.044715 * g**3)
        expected = 0.5 * g * (1 + math.tanh(inner)) * u
        assert y.flat[i] == pytest.approx(expected, rel=1e-4, abs=1e-6)
        assert y.flat[i] == pytest.approx(0.5 * g * (1 + math.erf(g / 2**0.5)) * u, abs=5e-3)


def test_scale():
    x, weight = _random(2, 5), _random(5, seed=1)
    assert np.allclose(reference.scale(x, factor=0.5), x / 2)
    assert np.allclose(reference.scale(x, weight, factor=3.0), 3 * x * weight, rtol=1e-6)


def test_shift():
    x, shifts = _random(3, 5), _random(4, 5, seed=1)
    y = reference.shift(x, shifts, layer=2)
    for t in range(3):
        for column in range(5):
            assert y[t, column] == np.float32(x[t, column] + shifts[2, column])


def test_add_bias():
    x, bias = _random(3, 13), _random(13, seed=1)
    y = reference.add_bias(x, bias)
    assert y.dtype == np.float32
    for t, n in np.ndindex(3, 13):
        assert y[t, n] == pytest.approx(float(x[t, n]) + float(bias[n]), abs=1e-6)


def test_sparsify():
    x = _random(3, 401)
    y = reference.sparsify(x, deviations=1.5)
    for row in range(3):
        values = [float(v) for v in x[row]]
        cutoff = statistics.fmean(values) + 1.5 * statistics.pstdev(values)
        assert np.allclose(y[row], [max(0.0, v - cutoff) for v in values], atol=1e-6)
    assert 0 < (y > 0).mean() < 0.15


def test_columns_and_concat():
    x = _random(2, 7)
    parts = [reference.columns(x, first=i, count=n) for i, n in ((0, 3), (3, 1), (4, 3))]
    joined = reference.concat(reference.concat(parts[0], parts[1]), parts[2])
    assert [part.shape for part in parts] == [(2, 3), (2, 1), (2, 3)]
    assert np.array_equal(joined, x)


def test_match_rms():
    x, target = _random(3, 11), _random(3, 11, seed=1) * np.float32(5)
    y = reference.match_rms(x, target, eps=1e-5)
    assert np.allclose(np.square(y).mean(1), np.square(target).mean(1), rtol=1e-5)
    assert np.allclose(y / x, (y / x)[:, :1], rtol=1e-5)
    little = reference.match_rms(x * np.float32(1e-6), target, eps=1e-5)
    wanted = math.sqrt(float(np.square(target[0]).mean()) / 1e-5) * 1e-6
    assert np.allclose(little[0], x[0] * wanted, rtol=1e-4)


def test_altup_predict():
    x, coefs = _random(2, 3 * 5), _random(2, 9, seed=1)
    y = reference.altup_predict(x, coefs)
    for t, i, k in np.ndindex(2, 3, 5):
        mixed = sum(float(coefs[t, 3 * i + j]) * float(x[t, 5 * j + k]) for j in range(3))
        assert y[t, 5 * i + k] == pytest.approx(float(x[t, 5 * i + k]) + mixed, abs=1e-5)


@pytest.mark.parametrize("active", [0, 2])
def test_altup_correct(active):
    x, activated, coefs = _random(2, 3 * 5), _random(2, 5, seed=1), _random(2, 3, seed=2)
    y = reference.altup_correct(x, activated, coefs, active=active)
    for t, i, k in np.ndindex(2, 3, 5):
        innovation = float(activated[t, k]) - float(x[t, 5 * active + k])
        expected = float(x[t, 5 * i + k]) + (float(coefs[t, i]) + 1) * innovation
        assert y[t, 5 * i + k] == pytest.approx(expected, abs=1e-5)


def test_add_streams():
    x, a = _random(2, 3 * 5), _random(2, 5, seed=1)
    y = reference.add_streams(x, a, first=1)
    assert np.array_equal(y[:, :5], x[:, :5])
    assert np.array_equal(y[:, 5:10], x[:, 5:10] + a)
    assert np.array_equal(y[:, 10:], x[:, 10:] + a)
    assert np.array_equal(x, _random(2, 3 * 5))


def test_softmax_rows():
    scores = np.array([[0.0, math.log(3)], [1e30, 1e30], [-np.inf, -5.0]], np.float32)
    expected = [[0.25, 0.75], [0.5, 0.5], [0.0, 1.0]]
    np.testing.assert_allclose(reference.softmax(scores), expected, rtol=1e-6)


def test_columns_in_runs():
    x = np.arange(12, dtype=np.float32)[None]
    assert reference.columns(x, first=1, count=4, run=2, stride=5).tolist() == [[1, 2, 6, 7]]


def test_causal_conv_by_hand():
    x = np.array([[1, 10], [2, 20]], np.float32)
    taps = np.array([100, 10, 1, 0, 0, 2], np.float32)  # of the first column, then of the second
    before = np.array([[3, 30], [4, 40]], np.float32)
    y, state = reference.causal_conv(x, taps, before, taps=3)
    assert y.tolist() == [[341, 20], [412, 40]] and state.tolist() == x.tolist()
    y, state = reference.causal_conv(x[:1], taps, before, taps=3)
    assert y.tolist() == [[341, 20]] and state.tolist() == [[4, 40], [1, 10]]


def test_delta_rule_by_hand():
    """Two tokens of one head: the second overwrites what its key reads of the first."""
    key = np.array([3.0, 4.0], np.float32)
    qkv = np.array([[1, 0, *key, 10], [0, 2, *key, 20]], np.float32)  # q, k and one value
    open_gate, closed = np.full((2, 1), 40.0, np.float32), np.full((2, 1), -40.0, np.float32)
    ones = {"rate": -np.ones(1, np.float32), "bias": np.zeros(1, np.float32)}
    shape = {"heads": 1, "key_heads": 1, "key_dim": 2, "value_dim": 1}
    zeros = np.zeros((2, 1), np.float32)
    y, state = reference.delta_rule(qkv, closed, open_gate, state=zeros, **ones, **shape)
    assert np.allclose(state, np.array([[0.6], [0.8]]) * 20, atol=1e-4), "nothing is forgotten"
    assert np.allclose(y, [[0.6 * 10 / 2**0.5], [0.8 * 20 / 2**0.5]], atol=1e-4)
    y, state = reference.delta_rule(qkv, closed, closed, state=zeros, **ones, **shape)
    assert np.allclose(state, 0, atol=1e-4) and np.allclose(y, 0, atol=1e-4), "nothing is written"
    y, state = reference.delta_rule(
        qkv[:1], open_gate[:1], closed[:1], state=zeros + 5, **ones, **shape
    )
    assert np.allclose(state, 0, atol=1e-4), "all is forgotten"


def test_every_op_has_its_test_here():
    tests = " ".join([*FORMULAS, *(name for name in globals() if name.startswith("test_"))])
    assert [name for name in OPS if name not in tests] == []


ROUTES = [
    {},
    {"normalized": True, "factor": 2.5},
    {"late": True},
    {"sigmoid": True, "normalized": True},
    {"sigmoid": True, "groups": 3, "chosen_groups": 2},
]


@pytest.mark.parametrize("how", ROUTES, ids=str)
@pytest.mark.parametrize("biased", [False, True])
def test_route(how, biased):
    how = {"sigmoid": False, "late": False, "normalized": False, "factor": 1.0} | how
    groups = {"groups": 1, "chosen_groups": 1} | {k: how.pop(k) for k in [*how] if "groups" in k}
    logits, bias = _random(4, 6), _random(6, seed=1) if biased else None
    experts, shares = reference.route(logits, bias, count=2, **how, **groups)
    assert experts.dtype == shares.dtype == np.float32
    for row in range(4):
        exponents = [math.exp(float(x)) for x in logits[row]]
        scores = [e / (1 + e) if how["sigmoid"] else e / sum(exponents) for e in exponents]
        worth = [s + (float(bias[i]) if biased else 0.0) for i, s in enumerate(scores)]
        each = 6 // groups["groups"]
        parts = [sorted(range(g * each, (g + 1) * each)) for g in range(groups["groups"])]
        parts.sort(key=lambda part: -sum(sorted(worth[i] for i in part)[-2:]))
        allowed = [i for part in parts[: groups["chosen_groups"]] for i in part]
        best = sorted(allowed, key=lambda i: -worth[i])[:2]
        assert experts[row].tolist() == best
        weighed = [exponents[i] if how["late"] else scores[i] for i in best]
        whole = sum(weighed) if how["late"] or how["normalized"] else 1.0
        expected = [w / whole * how["factor"] for w in weighed]
        assert shares[row] == pytest.approx(expected, rel=1e-5)
    gains = _random(6, seed=2)
    _, gained = reference.route(logits, bias, gains, count=2, **how, **groups)
    assert np.allclose(gained, shares * gains[experts.astype(int)])


def test_route_by_switches():
    logits = np.array([[3, 2, 1, 0, -1]], np.float32)
    switches = np.ones((2, 10), np.float32)
    switches[1, :5] = [0.5, 0, 1, 1, 1]
    how = dict(count=3, sigmoid=True, late=False, normalized=False, factor=1.0)  # noqa: C408
    how |= {"groups": 1, "chosen_groups": 1}
    plain, shares = reference.route(logits, None, None, switches, **how)
    assert plain.tolist() == [[0, 1, 2]]
    found, less = reference.route(logits, None, None, switches, layer=1, **how)
    assert found.tolist() == [[0, 1, 2]] and np.allclose(less, shares * [[0.5, 0, 1]])
    switches[1, 5:] = [0, 1, 1, 1, 2]  # the first after all others, the last before
    found, less = reference.route(logits, None, None, switches, layer=1, **how)
    scores = 1 / (1 + np.exp(-logits[0]))
    assert found.tolist() == [[4, 1, 2]] and np.allclose(less, [[scores[4], 0, scores[2]]])


def test_expert_places():
    experts = np.array([[2, 0], [0, 3], [2, 2]], np.float32)
    places, starts = reference.expert_places(experts, count=5)
    assert starts.tolist() == [[0, 2, 2, 5, 6, 6]]
    assert places.tolist() == [[2, 0], [1, 5], [3, 4]]


def test_expert_rows():
    x, places = _random(3, 7), np.array([[2, 0], [1, 5], [3, 4]], np.float32)
    rows = reference.expert_rows(x, places)
    assert np.array_equal(rows, np.stack([x[i] for i in (0, 1, 0, 2, 2, 1)]))


STARTS = np.array([[0, 2, 2, 5]], np.float32)  # of three experts, one of which has no rows


def test_expert_matmul():
    x, weight = _random(5, 4), _random(6, 4)
    y = reference.expert_matmul(x, weight, STARTS)
    for row, expert in enumerate((0, 0, 2, 2, 2)):
        for n in range(2):
            terms = zip(x[row], weight[2 * expert + n], strict=True)
            expected = sum(float(a) * float(b) for a, b in terms)
            assert y[row, n] == pytest.approx(expected, rel=1e-5, abs=1e-6)


def test_expert_bias():
    x, bias = _random(5, 2), _random(6)
    y = reference.expert_bias(x, bias, STARTS)
    assert np.array_equal(y, x + np.stack([bias[0:2]] * 2 + [bias[4:6]] * 3))


def test_expert_sum():
    x, places, shares = _random(4, 3), np.array([[3, 0], [1, 2]], np.float32), _random(2, 2)
    y = reference.expert_sum(x, places, shares)
    for token in range(2):
        for n in range(3):
            pairs = zip(shares[token], places[token], strict=True)
            expected = sum(float(share) * float(x[int(place), n]) for share, place in pairs)
            assert y[token, n] == pytest.approx(expected, rel=1e-5, abs=1e-6)


def test_token_gate():
    x, h, weight = _random(3, 5), _random(3, 4), _random(4)
    y = reference.token_gate(x, h, weight)
    for row in range(3):
        dot = sum(float(a) * float(b) for a, b in zip(h[row], weight, strict=True))
        assert y[row] == pytest.approx(x[row] / (1 + math.exp(-dot)), rel=1e-5, abs=1e-6)
