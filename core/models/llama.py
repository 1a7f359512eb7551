"""The llama family (Llama, SmolLM2, Mistral, ...), under the names of GGUF files.

Pre-norm decoder: RMSNorm, grouped-query attention with rotary positions, SwiGLU feed-forward.
GGUF keeps the rows of Q and K permuted so that rotary pairs are neighbours (2i, 2i+1); with
`rope.pairing` half_split they are (i, i+d/2), as Hugging Face's checkpoints have them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from llm_lite.core.errors import FileError, UnsupportedError
from llm_lite.core.formats.ranges import (
    EPSILON,
    LARGEST_CONTEXT,
    LARGEST_COUNT,
    ROPE_BASE,
    ROPE_FACTOR,
)
from llm_lite.core.models.blocks import cached_attention, residual_stream
from llm_lite.core.models.fields import Fields, KnownShape, check_shapes
from llm_lite.core.models.model import BuildOptions, Model, ModelShape
from llm_lite.core.plan.builder import Bucket, PlanBuilder, WeightSpec
from llm_lite.core.plan.plan import Plan, Tensor


@dataclass(frozen=True, slots=True)
class LlamaConfig:
    shape: ModelShape
    eps: float
    rotary_dim: int
    theta: float
    rope_scale: float  # positions are multiplied by it
    half_split: bool  # rotary pairs are (i, i + d/2); GGUF's files have neighbours


def read(metadata: Mapping[str, object], weights: Mapping[str, WeightSpec], path: Path) -> Model:
    config = _config(Fields(metadata, path, "llama."), weights, path)
    check_shapes("llama", _shapes(config, weights), weights, path)
    return Model(config.shape, partial(_plan, config, weights))


def shapes_of(
    metadata: Mapping[str, object], path: Path, *, rows: int
) -> list[tuple[str, tuple[int, ...]]]:
    """Every tensor of a model of these fields whose head is its embedding of `rows` rows."""
    known = {"token_embd.weight": KnownShape("token_embd.weight", "f32", (rows, 1))}
    return _shapes(_config(Fields(metadata, path, "llama."), known, path), known)


def _plan(
    config: LlamaConfig, weights: Mapping[str, WeightSpec], options: BuildOptions, bucket: Bucket
) -> Plan:
    b = PlanBuilder(weights, bucket, integer_activations=options.integer_activations)
    x = b.embed(b.weight("token_embd.weight"), "embedding")

    def layer(x: Tensor, index: int) -> Tensor:
        x = _attention_block(b, config, options, x, index)
        return _feed_forward_block(b, config, x, index)

    x = residual_stream(b, config.shape, x, layer)
    x = b.output_rows(x, "output.rows")
    x = b.rms_norm(x, b.weight("output_norm.weight"), config.eps, "output.norm")
    head = "output.weight" if "output.weight" in weights else "token_embd.weight"
    return b.finish(b.matmul(x, b.weight(head), "logits", float_inputs=True))


def _attention_block(
    b: PlanBuilder, config: LlamaConfig, options: BuildOptions, x: Tensor, layer: int
) -> Tensor:
    shape, at, w = config.shape, f"layers.{layer}.attention", f"blk.{layer}."
    h = b.rms_norm(x, b.weight(w + "attn_norm.weight"), config.eps, at + ".norm")
    q = b.matmul(h, b.weight(w + "attn_q.weight"), at + ".q")
    k = b.matmul(h, b.weight(w + "attn_k.weight"), at + ".k")
    v = b.matmul(h, b.weight(w + "attn_v.weight"), at + ".v")
    factors = b.weight("rope_freqs.weight") if b.has("rope_freqs.weight") else None
    rope = partial(
        b.rope,
        head_dim=shape.head_dim,
        rotary_dim=config.rotary_dim,
        theta=config.theta,
        scale=config.rope_scale,
        half_split=config.half_split,
        factors=factors,
    )
    q, k = rope(q, at + ".q_rope"), rope(k, at + ".k_rope")
    y = cached_attention(b, shape, options, q, (k, v), at, layer=layer)
    y = b.matmul(y, b.weight(w + "attn_output.weight"), at + ".output")
    return b.add(x, y, at + ".residual")


def _feed_forward_block(b: PlanBuilder, config: LlamaConfig, x: Tensor, layer: int) -> Tensor:
    at, w = f"layers.{layer}.feed_forward", f"blk.{layer}."
    h = b.rms_norm(x, b.weight(w + "ffn_norm.weight"), config.eps, at + ".norm")
    gate = b.matmul(h, b.weight(w + "ffn_gate.weight"), at + ".gate")
    up = b.matmul(h, b.weight(w + "ffn_up.weight"), at + ".up")
    h = b.silu_mul(gate, up, at + ".silu_mul")
    y = b.matmul(h, b.weight(w + "ffn_down.weight"), at + ".down")
    return b.add(x, y, at + ".residual")


def _config(fields: Fields, weights: Mapping[str, WeightSpec], path: Path) -> LlamaConfig:
    embedding = weights.get("token_embd.weight")
    if embedding is None:
        raise FileError(path, "tensor token_embd.weight is missing")
    if fields.integer("expert_count", 0, at_least=0):
        raise UnsupportedError(
            f"{path}: llama.expert_count: mixtures of experts are not known here"
        )
    scaling = fields.text("rope.scaling.type", "none")
    if scaling not in ("none", "linear"):
        raise UnsupportedError(
            f"{path}: llama.rope.scaling.type: expected none or linear, found {scaling[:40]!r}"
        )
    factor = (
        fields.number("rope.scaling.factor", 1.0, within=ROPE_FACTOR)
        if scaling == "linear"
        else 1.0
    )
    pairing = fields.text("rope.pairing", "interleaved")
    if pairing not in ("interleaved", "half_split"):
        raise fields.error(
            "rope.pairing", f"expected interleaved or half_split, found {pairing[:40]!r}"
        )
    width = fields.integer("embedding_length")
    heads = fields.integer("attention.head_count", at_most=LARGEST_COUNT)
    head_dim = fields.integer("attention.key_length", 0, at_least=0, at_most=LARGEST_COUNT)
    if not head_dim and width % heads:
        raise fields.error(
            "attention.head_count", f"{heads} heads do not divide a width of {width}"
        )
    head_dim = head_dim or width // heads
    value_dim = fields.integer("attention.value_length", head_dim, at_most=LARGEST_COUNT)
    kv_heads = fields.integer("attention.head_count_kv", heads, at_most=heads)
    rotary_dim = fields.integer("rope.dimension_count", head_dim, at_most=head_dim)
    if heads % kv_heads:
        raise fields.error("attention.head_count_kv", f"{kv_heads} does not divide {heads} heads")
    if value_dim != head_dim:
        raise fields.error("attention.value_length", f"expected {head_dim}, found {value_dim}")
    if head_dim % 2 or rotary_dim % 2:
        raise fields.error("rope.dimension_count", f"expected an even number, found {rotary_dim}")
    return LlamaConfig(
        shape=ModelShape(
            layers=fields.integer("block_count", at_most=LARGEST_COUNT),
            heads=heads,
            kv_heads=kv_heads,
            head_dim=head_dim,
            width=width,
            feed_forward=fields.integer("feed_forward_length"),
            vocabulary=embedding.shape[0],
            trained_context=fields.integer("context_length", at_most=LARGEST_CONTEXT),
        ),
        eps=fields.number("attention.layer_norm_rms_epsilon", within=EPSILON),
        rotary_dim=rotary_dim,
        theta=fields.number("rope.freq_base", 10000.0, within=ROPE_BASE),
        rope_scale=1.0 / factor,
        half_split=pairing == "half_split",
    )


def _shapes(
    config: LlamaConfig, weights: Mapping[str, WeightSpec]
) -> list[tuple[str, tuple[int, ...]]]:
    s = config.shape
    q, kv = s.heads * s.head_dim, s.kv_heads * s.head_dim
    shapes: list[tuple[str, tuple[int, ...]]] = [
        ("token_embd.weight", (s.vocabulary, s.width)),
        ("output_norm.weight", (s.width,)),
    ]
    if "output.weight" in weights:
        shapes.append(("output.weight", (s.vocabulary, s.width)))
    if "rope_freqs.weight" in weights:
        shapes.append(("rope_freqs.weight", (config.rotary_dim // 2,)))
    for layer in range(s.layers):
        shapes += [
            (f"blk.{layer}.attn_norm.weight", (s.width,)),
            (f"blk.{layer}.attn_q.weight", (q, s.width)),
            (f"blk.{layer}.attn_k.weight", (kv, s.width)),
            (f"blk.{layer}.attn_v.weight", (kv, s.width)),
            (f"blk.{layer}.attn_output.weight", (s.width, q)),
            (f"blk.{layer}.ffn_norm.weight", (s.width,)),
            (f"blk.{layer}.ffn_gate.weight", (s.feed_forward, s.width)),
            (f"blk.{layer}.ffn_up.weight", (s.feed_forward, s.width)),
            (f"blk.{layer}.ffn_down.weight", (s.width, s.feed_forward)),
        ]
    return shapes
