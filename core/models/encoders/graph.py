"""The graph of BERT's family: norms stand behind the residual, attention sees the whole text
(Devlin et al. 2019, https://arxiv.org/abs/1810.04805)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from llm_lite.core.models.blocks import Decoder, cached_attention, residual_stream
from llm_lite.core.models.description.decoder import EMBEDDING, HEAD, POSITIONS
from llm_lite.core.models.encoders.config import (
    HEAD_BIAS,
    HEAD_DENSE,
    HEAD_NORM,
    TYPES,
    EncoderConfig,
)
from llm_lite.core.models.model import BuildOptions
from llm_lite.core.plan.builder import Bucket, PlanBuilder, WeightSpec
from llm_lite.core.plan.plan import Plan, Tensor

_Encoder = Decoder[EncoderConfig]


def encoder_plan(
    config: EncoderConfig,
    weights: Mapping[str, WeightSpec],
    options: BuildOptions,
    bucket: Bucket,
) -> Plan:
    """Build the plan from tokens to hidden states [T, width], or to the logits of the masked-token
    head."""
    b = PlanBuilder(weights, bucket, integer_activations=options.integer_activations)
    d = Decoder(b, config, options)
    x = b.embed(b.weight(EMBEDDING), "embedding")
    if config.types:
        types = b.type_rows(b.weight(TYPES), "types", separator=config.separator)
        x = b.add(x, types, "embedding.typed")
    places = b.position_rows(b.weight(POSITIONS), "positions", first=config.first)
    x = d.norm(b.add(x, places, "embedding.placed"), "token_embd_norm", "embedding.norm")
    x = residual_stream(b, config.shape, x, partial(_layer, d))
    return b.finish(_head(d, x) if options.head and config.has_head else x)


def _layer(d: _Encoder, x: Tensor, layer: int) -> Tensor:
    """[T, width] -> [T, width]"""
    w, at = f"blk.{layer}.", f"layers.{layer}.attention"
    q, k, v = (d.linear(x, f"{w}attn_{one}", f"{at}.{one}") for one in "qkv")
    y = cached_attention(
        d.b, d.config.shape, d.options, q, (k, v), at, layer=layer, bidirectional=True
    )
    y = d.residual(x, d.linear(y, w + "attn_output", at + ".output"), at, 1.0)
    x = d.norm(y, w + "attn_output_norm", at + ".norm")
    at = f"layers.{layer}.feed_forward"
    h = _activated(d, d.linear(x, w + "ffn_up", at + ".up"), at)
    y = d.residual(x, d.linear(h, w + "ffn_down", at + ".down"), at, 1.0)
    return d.norm(y, w + "layer_output_norm", at + ".norm")


def _activated(d: _Encoder, x: Tensor, at: str) -> Tensor:
    label = f"{at}.{d.config.activation}"
    match d.config.activation:
        case "gelu_new":
            return d.b.gelu(x, label)
        case "relu":
            return d.b.relu(x, label)
        case "silu":
            return d.b.silu(x, label)
    return d.b.gelu_erf(x, label)


def _head(d: _Encoder, x: Tensor) -> Tensor:
    """[T, width] -> [O, vocabulary]: logits of what could be in place of each output token."""
    x = d.b.output_rows(x, "output.rows")
    x = d.norm(_activated(d, d.linear(x, HEAD_DENSE, "head.dense"), "head"), HEAD_NORM, "head.norm")
    by = d.b.weight(HEAD if d.b.has(HEAD) else EMBEDDING)
    if not d.b.has(HEAD_BIAS):
        return d.b.matmul(x, by, "logits", float_inputs=True)
    y = d.b.matmul(x, by, "logits.unbiased", float_inputs=True)
    return d.b.add_bias(y, d.b.weight(HEAD_BIAS), "logits")
