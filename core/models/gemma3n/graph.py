"""The graph of Gemma 3n (text), under the names of GGUF files.

Four residual streams that a layer updates together (AltUp, Baykal et al. 2023), a low-rank residual
beside attention (LAuReL, Menghani et al. 2024), an embedding of the token for every layer, which
stays on disk, sparse activations in the first layers, and two kinds of attention: full and sliding.
The last layers have no keys and values of their own, but read those of the last layer
before them that has, of their kind. Norms are x / rms(x) * weight.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Protocol

from llm_lite.core.models.blocks import cached_attention, residual_stream, slice_of
from llm_lite.core.models.gemma3n.config import PER_LAYER_TABLE, Gemma3nConfig
from llm_lite.core.models.model import BuildOptions
from llm_lite.core.plan.builder import Bucket, PlanBuilder, WeightSpec
from llm_lite.core.plan.plan import Plan, Tensor

_STREAM_EPS = 1e-5  # of the streams' mean square, where they are brought to the first one's size


class PerLayerConfig(Protocol):
    """The sizes of the embeddings that a token has for every layer."""

    @property
    def width(self) -> int: ...
    @property
    def layer_width(self) -> int: ...
    @property
    def table_layers(self) -> tuple[int, ...]: ...
    @property
    def eps(self) -> float: ...


def plan(
    config: Gemma3nConfig, weights: Mapping[str, WeightSpec], options: BuildOptions, bucket: Bucket
) -> Plan:
    b = PlanBuilder(weights, bucket, integer_activations=options.integer_activations)
    embedded = b.embed(b.weight("token_embd.weight"), "embedding")
    x = b.scale(embedded, "embedding.scaled", factor=math.sqrt(config.shape.width))
    per_layer = per_layer_inputs(b, config, x)
    x = _streams(b, config, x)
    layer = partial(_layer, b, config, options, per_layer)
    x = residual_stream(b, config.shape, x, layer, slice_of(b, options))
    x = b.output_rows(x, "output.rows")
    x = _joined(b, config, x)
    x = b.rms_norm(x, b.weight("output_norm.weight"), config.eps, "output.norm")
    logits = b.matmul(x, b.weight("token_embd.weight"), "logits", float_inputs=True)
    if config.softcap:
        logits = b.softcap(logits, "logits.cap", scale=1 / config.softcap, cap=config.softcap)
    return b.finish(logits)


def per_layer_inputs(b: PlanBuilder, config: PerLayerConfig, x: Tensor) -> Tensor:
    """[T, layers * layer_width]: of the token's identity and of its embedding, half each."""
    rows = _table_rows(b, config)
    rows = b.scale(rows, "per_layer.scaled", factor=math.sqrt(config.layer_width))
    h = b.matmul(x, b.weight("per_layer_model_proj.weight"), "per_layer.project")
    h = b.scale(h, "per_layer.project_scaled", factor=config.width**-0.5)
    h = b.rms_norm(h, b.weight("per_layer_proj_norm.weight"), config.eps, "per_layer.norm")
    return b.scale(b.add(h, rows, "per_layer.sum"), "per_layer.inputs", factor=math.sqrt(0.5))


def _table_rows(b: PlanBuilder, config: PerLayerConfig) -> Tensor:
    """[T, layers * layer_width]: of rows of the table what belongs to the layers that there are."""
    rows, n = b.table_rows(b.table(PER_LAYER_TABLE), "per_layer.rows"), config.layer_width
    found: Tensor | None = None
    for first, count in _runs(config.table_layers):
        if count * n == rows.shape[1]:
            return rows
        at = f"per_layer.rows.{first}"
        part = b.columns(rows, at, first=first * n, count=count * n)
        found = part if found is None else b.concat(found, part, at + ".joined")
    assert found is not None
    return found


def _runs(numbers: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield first number and count of each run of consecutive numbers."""
    for _, group in itertools.groupby(enumerate(numbers), lambda item: item[1] - item[0]):
        run = [number for _, number in group]
        yield run[0], len(run)


def _streams(b: PlanBuilder, config: Gemma3nConfig, x: Tensor) -> Tensor:
    """[T, streams * width]: the embedding, and projections of it of the same size."""
    streams = x
    for i in range(config.streams - 1):
        at = f"streams.{i + 1}"
        h = b.matmul(x, b.weight(f"altup_proj.{i}.weight"), at + ".project")
        h = b.match_rms(h, x, _STREAM_EPS, at + ".match")
        streams = b.concat(streams, h, at)
    return streams


def _joined(b: PlanBuilder, config: Gemma3nConfig, streams: Tensor) -> Tensor:
    """[O, width]: the mean of the streams, each projected back and of the first one's size."""
    first = total = b.columns(streams, "join.0", first=0, count=config.shape.width)
    for i in range(1, config.streams):
        at = f"join.{i}"
        h = b.columns(streams, at, first=i * config.shape.width, count=config.shape.width)
        h = b.matmul(h, b.weight(f"altup_unembd_proj.{i - 1}.weight"), at + ".project")
        total = b.add(total, b.match_rms(h, first, _STREAM_EPS, at + ".match"), at + ".sum")
    return b.scale(total, "join.mean", factor=1 / config.streams)


def _layer(
    b: PlanBuilder,
    config: Gemma3nConfig,
    options: BuildOptions,
    per_layer: Tensor,
    streams: Tensor,
    layer: int,
) -> Tensor:
    at, w, width = f"layers.{layer}", f"blk.{layer}.", config.shape.width
    active = partial(b.columns, first=config.active * width, count=width)
    routed = _route(b, config, active(streams, at + ".predict.active"), layer, "predict")
    coefs = b.matmul(routed, b.weight(w + "altup_predict_coef.weight"), at + ".predict.coefs")
    predicted = b.altup_predict(streams, coefs, at + ".predict")
    x = active(predicted, at + ".active")
    x = _attention_block(b, config, options, x, layer)
    x = _feed_forward_block(b, config, options, x, layer)
    routed = _route(b, config, x, layer, "correct")
    coefs = b.matmul(routed, b.weight(w + "altup_correct_coef.weight"), at + ".correct.coefs")
    y = b.altup_correct(predicted, x, coefs, at + ".correct", active=config.active)
    first = active(y, at + ".corrected")
    return b.add_streams(y, _per_layer_block(b, config, first, per_layer, layer), at, first=1)


def _route(b: PlanBuilder, config: Gemma3nConfig, x: Tensor, layer: int, stage: str) -> Tensor:
    """[T, streams]: how much each stream is like the active one, -1 to 1."""
    at, w = f"layers.{layer}.{stage}", f"blk.{layer}."
    h = b.rms_norm(x, b.weight(w + "altup_router_norm.weight"), config.eps, at + ".norm")
    h = b.matmul(h, b.weight(w + "altup_router.weight"), at + ".router")
    return b.softcap(h, at + ".routed", scale=1 / config.shape.width, cap=1.0)


def _attention_block(
    b: PlanBuilder, config: Gemma3nConfig, options: BuildOptions, x: Tensor, layer: int
) -> Tensor:
    """Add attention and the low-rank residual, both of the normed input, to the residual."""
    at, w, eps = f"layers.{layer}.attention", f"blk.{layer}.", config.eps
    h = b.rms_norm(x, b.weight(w + "attn_norm.weight"), eps, at + ".norm")
    low = b.matmul(h, b.weight(w + "laurel_l.weight"), at + ".laurel.left")
    low = b.matmul(low, b.weight(w + "laurel_r.weight"), at + ".laurel.right")
    low = b.rms_norm(low, b.weight(w + "laurel_post_norm.weight"), eps, at + ".laurel.norm")
    low = b.add(h, low, at + ".laurel")
    y = _attention(b, config, options, h, layer)
    y = b.matmul(y, b.weight(w + "attn_output.weight"), at + ".output")
    y = b.rms_norm(y, b.weight(w + "post_attention_norm.weight"), eps, at + ".post_norm")
    y = b.add(b.add(x, y, at + ".gated"), low, at + ".sum")
    return b.scale(y, at + ".residual", factor=math.sqrt(0.5))


def _attention(
    b: PlanBuilder, config: Gemma3nConfig, options: BuildOptions, h: Tensor, layer: int
) -> Tensor:
    shape, at, w = config.shape, f"layers.{layer}.attention", f"blk.{layer}."
    d, sliding = shape.head_dim, config.sliding[layer]
    theta = config.sliding_theta if sliding else config.theta
    rope = partial(b.rope, head_dim=d, rotary_dim=d, theta=theta, half_split=True)
    q = b.matmul(h, b.weight(w + "attn_q.weight"), at + ".q")
    q = b.rms_norm(q, b.weight(w + "attn_q_norm.weight"), config.eps, at + ".q_norm")
    q = rope(q, at + ".q_rope")
    owner, kv = config.cache_of(layer), None
    if owner == layer:
        k = b.matmul(h, b.weight(w + "attn_k.weight"), at + ".k")
        k = b.rms_norm(k, b.weight(w + "attn_k_norm.weight"), config.eps, at + ".k_norm")
        v = b.matmul(h, b.weight(w + "attn_v.weight"), at + ".v")
        v = b.rms_norm(v, None, config.eps, at + ".v_norm", width=d)
        kv = rope(k, at + ".k_rope"), v
    window = config.window if sliding else 0
    return cached_attention(
        b, shape, options, q, kv, at, layer=layer, owner=owner, window=window, scale=1.0
    )


def _feed_forward_block(
    b: PlanBuilder, config: Gemma3nConfig, options: BuildOptions, x: Tensor, layer: int
) -> Tensor:
    """Add the feed-forward; a slice has its first units only, which are ordered by importance
    (MatFormer)."""
    at, w = f"layers.{layer}.feed_forward", f"blk.{layer}."
    cut = slice_of(b, options)
    units = cut.widths(config.layers)[layer] if cut else config.feed_forward[layer]
    h = b.rms_norm(x, b.weight(w + "ffn_norm.weight"), config.eps, at + ".norm")
    part = units, config.width
    gate = b.matmul(h, b.weight(w + "ffn_gate.weight"), at + ".gate", cut=part)
    up = b.matmul(h, b.weight(w + "ffn_up.weight"), at + ".up", cut=part)
    if config.sparsity[layer] > -math.inf:
        gate = b.sparsify(gate, at + ".sparse_gate", deviations=config.sparsity[layer])
    h = b.gelu_mul(gate, up, at + ".gelu_mul")
    part = config.width, units
    y = b.matmul(h, b.weight(w + "ffn_down.weight"), at + ".down", cut=part)
    y = b.rms_norm(y, b.weight(w + "post_ffw_norm.weight"), config.eps, at + ".post_norm")
    return b.add(x, y, at + ".residual")


def _per_layer_block(
    b: PlanBuilder, config: Gemma3nConfig, x: Tensor, per_layer: Tensor, layer: int
) -> Tensor:
    """Return what the token's embedding for this layer adds to the streams behind the first."""
    at, w, n = f"layers.{layer}.per_layer", f"blk.{layer}.", config.layer_width
    if config.correct_scale:
        x = b.scale(x, at + ".scaled", weight=b.weight(w + "altup_correct_scale.weight"))
    gate = b.matmul(x, b.weight(w + "inp_gate.weight"), at + ".gate")
    h = b.columns(per_layer, at + ".input", first=layer * n, count=n)
    h = b.gelu_mul(gate, h, at + ".gelu_mul")
    h = b.matmul(h, b.weight(w + "proj.weight"), at + ".project")
    return b.rms_norm(h, b.weight(w + "post_norm.weight"), config.eps, at + ".norm")
