"""The graph of Gemma 4 (text, dense): Gemma 3's layer with an embedding of the token for every
layer, keys and values that later layers share, and heads of two widths, of sliding and of full
attention.

Full layers rotate a part of each head, whose pairs lie as far apart as those of the whole head: the
other pairs have factors that leave no angle (`rope_freqs`, as in GGUF's files). Where a full layer
has no matrix of values, they are its keys before their norm. Values are normed too; every layer's
output is multiplied by a number. Sources: transformers' `modeling_gemma4.py`, gguf-py's constants.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial

from llm_lite.core.models.blocks import cached_attention, residual_stream
from llm_lite.core.models.description import decoder as shared
from llm_lite.core.models.description import rope
from llm_lite.core.models.gemma3n.config import owner_of
from llm_lite.core.models.gemma3n.graph import per_layer_inputs
from llm_lite.core.models.gemma4.config import Gemma4Config
from llm_lite.core.models.model import BuildOptions
from llm_lite.core.plan.builder import Bucket, PlanBuilder, WeightSpec
from llm_lite.core.plan.plan import Plan, Tensor


def plan(
    config: Gemma4Config, weights: Mapping[str, WeightSpec], options: BuildOptions, bucket: Bucket
) -> Plan:
    b = PlanBuilder(weights, bucket, integer_activations=options.integer_activations)
    x = b.embed(b.weight(shared.EMBEDDING), "embedding")
    x = b.scale(x, "embedding.scaled", factor=math.sqrt(config.width))
    inputs = per_layer_inputs(b, config, x) if config.layer_width else None
    x = residual_stream(b, config.shape, x, partial(_layer, b, config, options, inputs))
    x = b.output_rows(x, "output.rows")
    x = b.rms_norm(x, b.weight("output_norm.weight"), config.eps, "output.norm")
    head = shared.HEAD if b.has(shared.HEAD) else shared.EMBEDDING
    logits = b.matmul(x, b.weight(head), "logits", float_inputs=True)
    if config.softcap:
        logits = b.softcap(logits, "logits.cap", scale=1 / config.softcap, cap=config.softcap)
    return b.finish(logits)


def _layer(
    b: PlanBuilder,
    config: Gemma4Config,
    options: BuildOptions,
    inputs: Tensor | None,
    x: Tensor,
    layer: int,
) -> Tensor:
    at, w = f"layers.{layer}", f"blk.{layer}."
    h = b.rms_norm(x, b.weight(w + "attn_norm.weight"), config.eps, at + ".attention.norm")
    y = _attention(b, config, options, h, layer)
    y = b.rms_norm(
        y, b.weight(w + "post_attention_norm.weight"), config.eps, at + ".attention.post_norm"
    )
    x = b.add(x, y, at + ".attention.residual")
    x = _feed_forward(b, config, x, layer)
    if inputs is not None:
        x = _per_layer(b, config, x, inputs, layer)
    return b.scale(x, at + ".scaled", weight=b.weight(w + "layer_output_scale.weight"))


def _attention(
    b: PlanBuilder, config: Gemma4Config, options: BuildOptions, h: Tensor, layer: int
) -> Tensor:
    at, w, eps = f"layers.{layer}.attention", f"blk.{layer}.", config.eps
    shape, slides = config.shape_at(layer), config.sliding[layer]
    d = shape.head_dim
    rotate = partial(
        b.rope,
        head_dim=d,
        rotary_dim=d,
        theta=config.sliding_theta if slides else config.theta,
        half_split=True,
        factors=None if slides else b.weight(rope.FACTORS),
    )
    q = b.matmul(h, b.weight(w + "attn_q.weight"), at + ".q")
    q = b.rms_norm(q, b.weight(w + "attn_q_norm.weight"), eps, at + ".q_norm")
    q = rotate(q, at + ".q_rope")
    owner, kv = owner_of(layer, config.sliding, config.own_caches), None
    if owner == layer:
        k = b.matmul(h, b.weight(w + "attn_k.weight"), at + ".k")
        v = k
        if b.has(w + "attn_v.weight"):
            v = b.matmul(h, b.weight(w + "attn_v.weight"), at + ".v")
        k = b.rms_norm(k, b.weight(w + "attn_k_norm.weight"), eps, at + ".k_norm")
        kv = rotate(k, at + ".k_rope"), b.rms_norm(v, None, eps, at + ".v_norm", width=d)
    window = config.window if slides else 0
    y = cached_attention(
        b, shape, options, q, kv, at, layer=layer, owner=owner, window=window, scale=1.0
    )
    return b.matmul(y, b.weight(w + "attn_output.weight"), at + ".output")


def _feed_forward(b: PlanBuilder, config: Gemma4Config, x: Tensor, layer: int) -> Tensor:
    at, w = f"layers.{layer}.feed_forward", f"blk.{layer}."
    h = b.rms_norm(x, b.weight(w + "ffn_norm.weight"), config.eps, at + ".norm")
    gate = b.matmul(h, b.weight(w + "ffn_gate.weight"), at + ".gate")
    up = b.matmul(h, b.weight(w + "ffn_up.weight"), at + ".up")
    h = b.gelu_mul(gate, up, at + ".gelu_mul")
    y = b.matmul(h, b.weight(w + "ffn_down.weight"), at + ".down")
    y = b.rms_norm(y, b.weight(w + "post_ffw_norm.weight"), config.eps, at + ".post_norm")
    return b.add(x, y, at + ".residual")


def _per_layer(
    b: PlanBuilder, config: Gemma4Config, x: Tensor, inputs: Tensor, layer: int
) -> Tensor:
    """Return what the token's embedding for this layer adds."""
    at, w, n = f"layers.{layer}.per_layer", f"blk.{layer}.", config.layer_width
    gate = b.matmul(x, b.weight(w + "inp_gate.weight"), at + ".gate")
    h = b.columns(inputs, at + ".input", first=layer * n, count=n)
    h = b.gelu_mul(gate, h, at + ".gelu_mul")
    h = b.matmul(h, b.weight(w + "proj.weight"), at + ".project")
    h = b.rms_norm(h, b.weight(w + "post_norm.weight"), config.eps, at + ".norm")
    return b.add(x, h, at + ".residual")
