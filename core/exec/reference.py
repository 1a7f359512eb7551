"""NumPy: the living definition of every op, which all other executors are compared with.

A function per op, named as in the op table: float32 arrays in, float32 arrays out. Shapes: T
tokens, K inputs, N outputs, C cache positions, H query heads, G key/value heads, d head width.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from llm_lite.core.quant.blocks import a8
from llm_lite.core.quant.tensor import TensorData

F32 = NDArray[np.float32]
Array = NDArray[Any]


def embed(table: F32, tokens: NDArray[np.int32]) -> F32:
    """[V,K], [T] -> [T,K]"""
    return table[tokens]


def table_rows(table: TensorData, tokens: NDArray[np.int32]) -> F32:
    """[V,K] on disk, [T] -> [T,K]; tokens that the table does not have read row 0."""
    return table.rows(np.where(tokens < table.shape[0], tokens, 0))


def position_rows(table: F32, positions: NDArray[np.int32], *, first: int = 0) -> F32:
    """[V,K], [T] -> [T,K]: row `first` for position 0; positions that the table does not have read
    its last row."""
    return table[np.minimum(first + positions, len(table) - 1)]


def type_rows(table: F32, tokens: NDArray[np.int32], *, separator: int) -> F32:
    """[V,K], the tokens of one sequence [T] -> [T,K]: the first sentence's row up to its separator,
    the next sentence's behind it (Devlin et al. 2019); types beyond the table read its last row.
    """
    is_separator = tokens == separator
    types = np.cumsum(is_separator) - is_separator
    return table[np.minimum(types, len(table) - 1)]


def rms_norm(x: F32, weight: F32 | None = None, *, eps: float, width: int | None = None) -> F32:
    """[T,K], [width] -> [T,K], each `width` values (all, if left out) by themselves (Zhang and
    Sennrich 2019)."""
    width = width or x.shape[1]
    groups = x.reshape(len(x), x.shape[1] // width, width)
    mean_square: F32 = np.mean(np.square(groups), axis=2, keepdims=True, dtype=np.float32)
    y: F32 = groups / _root(mean_square + np.float32(eps))
    return (y if weight is None else y * weight).reshape(x.shape)


def layer_norm(x: F32, weight: F32, bias: F32 | None = None, *, eps: float) -> F32:
    """[T,K], [K], [K] -> [T,K] (Ba et al. 2016)."""
    mean: F32 = x.mean(axis=1, keepdims=True, dtype=np.float32)
    centred = x - mean
    variance: F32 = np.mean(np.square(centred), axis=1, keepdims=True, dtype=np.float32)
    y: F32 = centred / _root(variance + np.float32(eps)) * weight
    return y if bias is None else y + bias


def _root(x: F32) -> F32:
    """Return sqrt(x), and NaN where x overflowed: infinity would divide a row to 0 in silence."""
    root: F32 = np.sqrt(np.where(np.isinf(x), np.float32(np.nan), x))
    return root


def quantize(x: F32) -> F32:
    """[T,K] -> the values [T,K] that the int8 blocks of `core.quant.blocks.a8` stand for."""
    blocks = a8.quantize_rows(x)
    return a8.dequantize_rows(blocks.q, blocks.scale, blocks.zero)


def matmul(x: F32, weight: F32) -> F32:
    """[T,K], the first rows and columns of a weight [N,K] -> [T,N]"""
    return x @ weight.T


def rope(
    x: F32,
    factors: F32 | None,
    positions: NDArray[np.int32],
    *,
    head_dim: int,
    rotary_dim: int,
    theta: float,
    scale: float,
    half_split: bool,
    temperature: float = 0.0,
    temperature_length: int = 1,
) -> F32:
    """[T,H*d], factors [rotary_dim/2] (frequencies are divided by them), positions [T] -> [T,H*d]

    Pair i of a head's first `rotary_dim` values is rotated by
    position * scale * theta^(-2i/rotary_dim) (Su et al. 2021). Angles in float64:
    at position 10^5 float32 is off by 10^-2. Rows are multiplied by their `query_temperature`.
    """
    pairs = rotary_dim // 2
    frequency = np.float64(theta) ** (-np.arange(pairs) / pairs)
    if factors is not None:
        frequency = frequency / factors
    angle = positions[:, None] * (frequency * scale)
    cos, sin = (f(angle).astype(np.float32)[:, None, :] for f in (np.cos, np.sin))
    y = x.reshape(len(x), -1, head_dim).copy()
    even = np.s_[..., :pairs] if half_split else np.s_[..., 0:rotary_dim:2]
    odd = np.s_[..., pairs:rotary_dim] if half_split else np.s_[..., 1:rotary_dim:2]
    a, b = y[even].copy(), y[odd].copy()
    y[even] = a * cos - b * sin
    y[odd] = a * sin + b * cos
    if temperature > 0:
        y *= query_temperature(positions, temperature, temperature_length)[:, None, None]
    return y.reshape(x.shape)


def query_temperature(positions: Array, temperature: float, length: int) -> F32:
    """[T] -> [T]: 1 within the first `length` positions, then larger, so that attention to more
    positions stays as sharp (Llama 4)."""
    steps = np.log(1.0 + positions // length)
    return np.asarray(1 + np.float64(np.float32(temperature)) * steps, np.float32)


def store(rows: Array, cache: Array, start: int) -> None:
    """[T,K] into the cache [R,K]: position p lies in row p mod R. Both as the cache keeps them:
    rows of bytes (`core.quant.rows`). The op does so for each of its pairs."""
    cache[(start + np.arange(len(rows))) % len(cache)] = rows


def attention(
    q: F32,
    k_cache: Array,
    v_cache: Array,
    gains: F32,
    start: int,
    *,
    heads: int,
    kv_heads: int,
    head_dim: int,
    scale: float,
    window: int,
    layer: int,
    softcap: float = 0.0,
    sinks: F32 | None = None,
    bias: F32 | None = None,
    bias_before: int = 0,
    bidirectional: bool = False,
    cross: bool = False,
    first: int = 0,
    source: int = 0,
) -> F32:
    """[T,H*d], caches [C,G*d], gains [L,H], sinks [H], bias [H,N] -> [T,H*d]; head h reads
    key/value head h // (H/G).

    Row t is at position start + t and sees positions up to its own; with window > 0 only the last
    `window` of these (Vaswani et al. 2017; grouped queries: Ainslie et al. 2023). With softcap > 0
    scores are softcap * tanh(score / softcap) (Gemma 2). A sink is one score more, whose share is
    dropped (gpt-oss). Position p lies in row p mod C of the caches, which hold all that some row
    sees; positions before `first` are not seen.

    bias[h, bias_before + p - own position], at the nearest column there is, is added to a score
    (relative positions: Raffel et al. 2020; linear ones: Press et al. 2022, "ALiBi").
    bidirectional: every row sees all positions (Devlin et al. 2019). cross: every row sees the
    `source` positions that an encoder left, position p in row p (Vaswani et al. 2017).
    """
    tokens, length = len(q), source if cross else start + len(q)
    oldest = max(0, length - len(k_cache))
    places = np.arange(oldest, length) % len(k_cache)
    keys = k_cache[places].reshape(len(places), kv_heads, head_dim)
    values = v_cache[places].reshape(len(places), kv_heads, head_dim)
    visible = np.ones((tokens, length - oldest), bool)
    if not bidirectional and not cross:
        visible = _visible(tokens, start, window, first)[:, oldest:]
    distances = np.arange(oldest, length) - (start + np.arange(tokens))[:, None]
    y = np.empty((tokens, heads, head_dim), np.float32)
    for head in range(heads):
        group = head * kv_heads // heads
        query = q.reshape(tokens, heads, head_dim)[:, head]
        scores = query @ keys[:, group].T * np.float32(scale)
        if bias is not None:
            scores = scores + _by_distance(bias[head], bias_before, distances)
        if softcap > 0:
            scores = np.float32(softcap) * np.tanh(scores / np.float32(softcap))
        scores = np.where(visible, scores, -np.inf)
        sink = -math.inf if sinks is None else float(sinks[head])
        y[:, head] = softmax(scores, sink) @ values[:, group] * gains[layer, head]
    return y.reshape(q.shape)


def causal_conv(x: F32, weight: F32, state: F32, *, taps: int) -> tuple[F32, F32]:
    """[T,C], [C*taps], [taps-1,C] -> [T,C] and the state behind the last row: each column is
    convolved with its own taps, the last one with a row's own token."""
    rows = np.concatenate([state, x])
    kernel = weight.reshape(x.shape[1], taps)
    y = np.zeros_like(x)
    for tap in range(taps):
        y += rows[tap : tap + len(x)] * kernel[:, tap]
    return y, rows[len(x) :]


def delta_rule(
    qkv: F32,
    decay: F32,
    beta: F32,
    rate: F32,
    bias: F32,
    state: F32,
    *,
    heads: int,
    key_heads: int,
    key_dim: int,
    value_dim: int,
    tiled: bool = False,
) -> tuple[F32, F32]:
    """[T, G*dk | G*dk | H*dv], [T,H], [T,H], [H], [H], [H*dk,dv] -> [T,H*dv] and the state behind
    the last row (Yang et al. 2024, https://arxiv.org/abs/2412.06464, equation 10): a head's state
    decays, and then what the key reads of it moves towards the value."""
    sizes = {"heads": heads, "key_heads": key_heads, "key_dim": key_dim}
    given = DeltaInputs.of(qkv, decay, beta, rate, bias, **sizes, tiled=tiled)
    q, k, v, kept, written = given.q, given.k, given.v, given.kept, given.written
    tokens = len(qkv)
    s = state.reshape(heads, key_dim, value_dim)
    y = np.empty((tokens, heads, value_dim), np.float32)
    for t in range(tokens):
        s = s * kept[t, :, None, None]
        read = np.einsum("hk,hkv->hv", k[t], s)
        change = (v[t] - read) * written[t, :, None]
        s = s + k[t, :, :, None] * change[:, None]
        y[t] = np.einsum("hk,hkv->hv", q[t], s)
    return y.reshape(tokens, heads * value_dim), s.reshape(state.shape)


class DeltaInputs(Struct, frozen=True):
    """Queries, keys, values and gates of the delta rule, of T tokens and H heads."""

    q: F32  # [T,H,dk], of length 1 / sqrt(dk)
    k: F32  # [T,H,dk], of length 1
    v: F32  # [T,H,dv]
    kept: F32  # [T,H]: the part of the state that a token leaves, between 0 and 1
    written: F32  # [T,H]: how far a token moves the state towards its value, between 0 and 1

    @classmethod
    def of(
        cls,
        qkv: F32,
        decay: F32,
        beta: F32,
        rate: F32,
        bias: F32,
        *,
        heads: int,
        key_heads: int,
        key_dim: int,
        tiled: bool,
    ) -> DeltaInputs:
        """Return what the inputs of the op `delta_rule` stand for."""
        tokens, keys = len(qkv), key_heads * key_dim
        q, k, v = np.split(qkv, (keys, 2 * keys), axis=1)
        q, k = (_of_length_one(one.reshape(tokens, key_heads, key_dim)) for one in (q, k))
        own = np.arange(heads) % key_heads if tiled else np.arange(heads) // (heads // key_heads)
        return cls(
            q[:, own] / np.float32(math.sqrt(key_dim)),
            k[:, own],
            v.reshape(tokens, heads, -1),
            kept_part(decay, rate, bias),
            _sigmoid(beta),
        )


def kept_part(decay: F32, rate: F32, bias: F32) -> F32:
    """[T,H], [H], [H] -> [T,H]: the part of a state that a token leaves."""
    # log(1 + exp(x)), which is x where exp(x) is more than float32 holds
    kept: F32 = np.exp(rate * np.logaddexp(np.float32(0), decay + bias))
    return kept


def _of_length_one(x: F32) -> F32:
    """Return vectors [..., d] divided by their lengths; the epsilon is the models' own."""
    one: F32 = x / np.sqrt((x * x).sum(axis=-1, keepdims=True) + np.float32(1e-6))
    return one


def silu(x: F32) -> F32:
    """[T,N] -> [T,N]: also called swish (Ramachandran et al. 2017)."""
    return x * _sigmoid(x)


def _sigmoid(x: F32) -> F32:
    with np.errstate(over="ignore"):  # exp(-x) may be inf, and the quotient then 0
        sigmoid: F32 = np.reciprocal(np.exp(-x) + np.float32(1))
    return sigmoid


_AFTER_ALL = np.float32(-3e38)  # what an expert is worth that is chosen after all others


def route(
    logits: F32,
    bias: F32 | None = None,
    gains: F32 | None = None,
    switches: F32 | None = None,
    *,
    count: int,
    layer: int = 0,
    sigmoid: bool,
    late: bool,
    normalized: bool,
    factor: float,
    groups: int,
    chosen_groups: int,
) -> tuple[F32, F32]:
    """[T,E], [E], [E], [L,2*E] -> experts and shares, [T,count] each (Shazeer et al. 2017,
    https://arxiv.org/abs/1701.06538; groups and bias: https://arxiv.org/abs/2412.19437, section
    2.1). Without a bias logits choose as their scores would: of two that differ, the scores may be
    equal once they are rounded."""
    scores = _sigmoid(logits) if sigmoid else softmax(logits)
    worth = logits if bias is None and groups == 1 else scores + (0 if bias is None else bias)
    if groups > 1:
        of_group = worth.reshape(len(worth), groups, -1)
        best = np.sort(of_group, axis=2)[:, :, -2:].sum(axis=2, dtype=np.float32)
        left_out = _highest(best, groups)[:, chosen_groups:]
        of_group = of_group.copy()
        np.put_along_axis(of_group, left_out[:, :, None], -np.inf, axis=1)
        worth = of_group.reshape(worth.shape)
    if switches is not None:
        factors, choice = np.split(switches[layer], 2)
        worth = np.where(choice > 1, np.inf, np.where(choice < 1, _AFTER_ALL, worth))
    experts = _highest(worth, count)
    shares = np.take_along_axis(scores, experts, axis=1)
    if late:
        shares = softmax(np.take_along_axis(logits, experts, axis=1))
    if normalized:
        shares = shares / shares.sum(axis=1, keepdims=True, dtype=np.float32)
    shares = shares * np.float32(factor) * (1 if gains is None else gains[experts])
    if switches is not None:
        shares = shares * factors[experts]
    return experts.astype(np.float32), shares.astype(np.float32)


def _highest(values: Array, count: int) -> NDArray[np.intp]:
    """[T,N] -> the columns of the highest [T,count], the highest first; of equals the first."""
    return np.argsort(-values, axis=1, kind="stable")[:, :count]


def expert_places(experts: F32, *, count: int) -> tuple[F32, F32]:
    """[T,k] of `count` experts -> places [T,k] among all choices in the order of their experts, and
    starts [1,count+1]."""
    flat = experts.reshape(-1).astype(np.intp)
    places = np.empty(flat.size, np.float32)
    places[np.argsort(flat, kind="stable")] = np.arange(flat.size)
    starts = np.concatenate([[0], np.cumsum(np.bincount(flat, minlength=count))])
    return places.reshape(experts.shape), starts[None].astype(np.float32)


def expert_rows(x: F32, places: F32) -> F32:
    """[T,K], [T,k] -> [T*k,K]"""
    y = np.empty((places.size, x.shape[1]), np.float32)
    y[places.astype(np.intp)] = x[:, None]
    return y


def expert_matmul(x: F32, weight: F32, starts: F32) -> F32:
    """[T*k,K], [E*N,K], [1,E+1] -> [T*k,N]. Each row by itself: BLAS adds in another order for
    another number of rows, and how many an expert has depends on other tokens."""
    of_expert = weight.reshape(starts.shape[1] - 1, -1, weight.shape[1])
    return np.stack([of_expert[e] @ row for e, row in zip(_experts(starts), x, strict=True)])


def expert_bias(x: F32, bias: F32, starts: F32) -> F32:
    """[T*k,N], [E*N], [1,E+1] -> [T*k,N]"""
    return x + bias.reshape(-1, x.shape[1])[_experts(starts)]


def _experts(starts: F32) -> NDArray[np.intp]:
    """Return the expert of each row [T*k]."""
    counts = np.diff(starts[0].astype(np.intp))
    return np.repeat(np.arange(len(counts)), counts)


def expert_sum(x: F32, places: F32, shares: F32) -> F32:
    """[T*k,N], [T,k], [T,k] -> [T,N]"""
    y = np.zeros((len(places), x.shape[1]), np.float32)
    for place, share in zip(places.T.astype(np.intp), shares.T, strict=True):
        y += share[:, None] * x[place]
    return y


def token_gate(x: F32, h: F32, weight: F32) -> F32:
    """[T,N], [T,K], [K] -> [T,N]"""
    return _sigmoid((h * weight).sum(axis=1, keepdims=True, dtype=np.float32)) * x


def silu_mul(gate: F32, up: F32) -> F32:
    """[T,N] twice -> [T,N]: SwiGLU's gate (Shazeer 2020)."""
    return silu(gate) * up


def clamped_silu_mul(gate: F32, up: F32, *, alpha: float, limit: float) -> F32:
    """[T,N] twice -> [T,N]: the gate of gpt-oss (https://github.com/openai/gpt-oss)."""
    bound = np.float32(limit)
    gate, up = np.minimum(gate, bound), np.clip(up, -bound, bound)
    return gate * _sigmoid(np.float32(alpha) * gate) * (up + 1)


def sigmoid_mul(gate: F32, x: F32) -> F32:
    """[T,N] twice -> [T,N]: a gate that opens between 0 and 1."""
    return _sigmoid(gate) * x


def relu(x: F32) -> F32:
    """[T,N] -> [T,N]"""
    return np.maximum(x, np.float32(0))


def erf(x: Array) -> NDArray[np.float64]:
    """Return the error function of each value."""
    return np.fromiter(map(math.erf, x.flat), np.float64, x.size).reshape(x.shape)


def gelu_erf(x: F32) -> F32:
    """[T,N] -> [T,N]: as it is defined (Hendrycks and Gimpel 2016), erf in float64."""
    half = np.float64(0.5) * x
    return (half * (1 + erf(x * math.sqrt(0.5)))).astype(np.float32)


def gelu(x: F32) -> F32:
    """[T,N] -> [T,N]: by its tanh approximation (Hendrycks and Gimpel 2016)."""
    cubic = x + np.float32(0.044715) * x * x * x
    half: F32 = np.float32(0.5) * np.tanh(cubic * np.float32(math.sqrt(2 / math.pi)))
    return x * (half + np.float32(0.5))


def gelu_mul(gate: F32, up: F32) -> F32:
    """[T,N] twice -> [T,N]"""
    return gelu(gate) * up


def add(a: F32, b: F32) -> F32:
    return a + b


def mul(a: F32, b: F32) -> F32:
    return a * b


def shift(x: F32, shifts: F32, *, layer: int) -> F32:
    """[T,N], [L,N] -> [T,N]: a vector is added to what a layer leaves of each token, as steering
    vectors are (Turner et al. 2023, https://arxiv.org/abs/2308.10248)."""
    return x + shifts[layer]


def add_bias(x: F32, bias: F32) -> F32:
    """[T,N], [N] -> [T,N]"""
    return x + bias


def scale(x: F32, weight: F32 | None = None, *, factor: float) -> F32:
    """[T,K], [K] -> [T,K]"""
    y = x * np.float32(factor)
    return y if weight is None else y * weight


def softcap(x: F32, *, scale: float, cap: float) -> F32:
    """Limit values to -cap .. cap; where x * scale is small they are close to x * scale * cap."""
    return np.float32(cap) * np.tanh(x * np.float32(scale))


def sparsify(x: F32, *, deviations: float) -> F32:
    """[T,N] -> [T,N]: what exceeds its row's mean by so many standard deviations, by how much; of
    a normal distribution a fixed share, "Gaussian top-k" (Gemma 3n)."""
    mean: F32 = x.mean(axis=1, keepdims=True, dtype=np.float32)
    variance: F32 = np.mean(np.square(x - mean), axis=1, keepdims=True, dtype=np.float32)
    deviation = _root(variance)
    return np.maximum(x - (mean + deviation * np.float32(deviations)), np.float32(0))


def columns(x: F32, *, first: int, count: int, run: int = 0, stride: int = 0) -> F32:
    """[T,K] -> [T,count]: columns that follow each other, or of every `stride` columns from `first`
    on the first `run`."""
    places, run, stride = np.arange(count), run or count, stride or count
    # row by row in memory, as products of one row and of several sum alike only then
    return x.take(first + places // run * stride + places % run, axis=1)


def concat(a: F32, b: F32) -> F32:
    """[T,K], [T,N] -> [T,K+N]"""
    return np.concatenate([a, b], axis=1)


def match_rms(x: F32, target: F32, *, eps: float) -> F32:
    """[T,K] twice -> x [T,K], each row as large as the target's."""
    wanted: F32 = np.mean(np.square(target), axis=1, keepdims=True, dtype=np.float32)
    found: F32 = np.mean(np.square(x), axis=1, keepdims=True, dtype=np.float32)
    ratio: F32 = (_root(wanted) / _root(np.maximum(found, eps))).astype(np.float32)
    return x * ratio


def altup_predict(x: F32, coefs: F32) -> F32:
    """[T,S*K], [T,S*S] -> [T,S*K] (Baykal et al. 2023, "Alternating Updates")"""
    streams = math.isqrt(coefs.shape[1])
    parts = x.reshape(len(x), streams, -1)
    mixed: F32 = coefs.reshape(-1, streams, streams) @ parts
    return (parts + mixed).reshape(x.shape)


def altup_correct(x: F32, activated: F32, coefs: F32, *, active: int) -> F32:
    """[T,S*K], [T,K], [T,S] -> [T,S*K]"""
    parts = x.reshape(len(x), coefs.shape[1], -1)
    innovation = (activated - parts[:, active])[:, None]
    return (parts + innovation * (coefs + np.float32(1))[:, :, None]).reshape(x.shape)


def add_streams(x: F32, a: F32, *, first: int) -> F32:
    """[T,S*K], [T,K] -> [T,S*K]"""
    parts = x.reshape(len(x), -1, a.shape[1]).copy()
    parts[:, first:] += a[:, None]
    return parts.reshape(x.shape)


def output_rows(x: F32, tokens: NDArray[np.int32]) -> F32:
    """[T,K], [O] -> the rows of these tokens [O,K]"""
    return x[tokens]


def softmax(scores: Array, sink: float = -math.inf) -> Array:
    """Return the softmax over the last axis and the sink, whose share is dropped; scores are
    shifted by the maximum."""
    most = np.maximum(scores.max(axis=-1, keepdims=True), np.float32(sink))
    weights = np.exp(scores - most)
    whole = weights.sum(axis=-1, keepdims=True) + np.exp(np.float32(sink) - most)
    probabilities: Array = weights / whole
    return probabilities


def _by_distance(bias: F32, before: int, distances: NDArray[np.int64]) -> F32:
    """[N], [T,C] -> [T,C]: column `before` for a distance of 0, the nearest there is for others."""
    return bias[np.clip(distances + before, 0, len(bias) - 1)]


def _visible(tokens: int, start: int, window: int, first: int) -> NDArray[np.bool_]:
    """[T, start+T]: True if row t may attend to position p, which is `first` or later."""
    own = start + np.arange(tokens)[:, None]
    position = np.arange(start + tokens)[None, :]
    causal = (position <= own) & (position >= first)
    return causal & (position > own - window) if window > 0 else causal
