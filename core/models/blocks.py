"""The blocks that decoders share: attention with its cache, feed-forwards, and the way from tokens
to logits.

An architecture defines its layer as a few calls of these. Caches of keys and values, kept queries,
gains of heads and ends of layers are wired here, for every model alike.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

from msgspec import Struct

from llm_lite.core.models.description.decoder import (
    EMBEDDING,
    EMBEDDING_NORM,
    HEAD,
    NORM_SCALE,
    NORM_SHIFT,
    POSITIONS,
    DecoderConfig,
)
from llm_lite.core.models.description.rope import FACTORS, LONG, MAGNITUDE, SHORT
from llm_lite.core.models.model import BuildOptions, ModelShape, Slice
from llm_lite.core.plan.attention_layers import DRAFT, HEAD_GAINS, cross_states
from llm_lite.core.plan.builder import Bucket, PlanBuilder, WeightSpec
from llm_lite.core.plan.expert_layers import EXPERT_SWITCHES
from llm_lite.core.plan.plan import LAYER_SHIFTS, Plan, Tensor

# The residual stream [T, columns] and a layer's number in, the stream behind that layer out.
Layer = Callable[[Tensor, int], Tensor]


class StackConfig(Protocol):
    """The fields of a config that blocks of any stack of layers read."""

    @property
    def eps(self) -> float: ...
    @property
    def shape(self) -> ModelShape: ...


_S = TypeVar("_S", bound=StackConfig)
_C = TypeVar("_C", bound=DecoderConfig)


def residual_stream(
    b: PlanBuilder, shape: ModelShape, x: Tensor, layer: Layer, cut: Slice | None = None
) -> Tensor:
    """Pass `x` through all layers, or through those that `cut` leaves; the plan knows where each
    ends, as the lens needs it."""
    for index in range(shape.layers) if cut is None else cut.widths(shape.layers):
        x = layer(x, index)
        if b.shift_slots:
            rows = b.shift_slots * shape.layers, x.shape[1]
            shifts = b.state(LAYER_SHIFTS, "f32", rows)
            x = b.shift(x, shifts, b.take_label(), layer=index)
        x = b.layer_end(x)
    return x


def slice_of(b: PlanBuilder, options: BuildOptions) -> Slice | None:
    """Return the slice of the model that the plan computes; None: all."""
    if b.sliced and options.draft_slice is None:
        raise ValueError("a bucket of a slice, but no slice in the options")
    return options.draft_slice if b.sliced else None


class Decoder(Struct, Generic[_S], frozen=True):
    """A decoder whose plan is being built: its config and its options."""

    b: PlanBuilder
    config: _S
    options: BuildOptions

    @property
    def causal(self) -> bool:
        """Return whether a token sees none of those behind it."""
        return bool(getattr(self.config, "causal", True))

    def norm(self, x: Tensor, weight: str, label: str, eps: float | None = None) -> Tensor:
        """Apply RMSNorm, or LayerNorm if there is a bias. `eps`: left out, the config's."""
        eps = self.config.eps if eps is None else eps
        scale, shift = f"{weight}.weight", f"{weight}.bias"
        by = self.b.weight(scale if self.b.has(scale) else NORM_SCALE)
        shift = shift if self.b.has(shift) else NORM_SHIFT
        if not self.b.has(shift):
            return self.b.rms_norm(x, by, eps, label)
        return self.b.layer_norm(x, by, self.b.weight(shift), eps, label)

    def linear(self, x: Tensor, weight: str, label: str) -> Tensor:
        """Return x . weight^T, plus the bias if there is one."""
        y = self.b.matmul(x, self.b.weight(f"{weight}.weight"), label)
        if not self.b.has(f"{weight}.bias"):
            return y
        return self.b.add_bias(y, self.b.weight(f"{weight}.bias"), label + ".biased")

    def residual(self, x: Tensor, y: Tensor, at: str, factor: float) -> Tensor:
        """Return x + factor * y."""
        if factor != 1.0:
            y = self.b.scale(y, at + ".scaled", factor=factor)
        return self.b.add(x, y, at + ".residual")


class Scales(Struct, frozen=True):
    """Factors of a model's ends; `logit_cap` bounds logits by tanh, 0: it does not."""

    embedding: float = 1.0
    logits: float = 1.0
    logit_cap: float = 0.0


def decoder_plan(
    layer: Callable[[Decoder[_C], Tensor, int], Tensor],
    config: _C,
    weights: Mapping[str, WeightSpec],
    options: BuildOptions,
    bucket: Bucket,
    *,
    scales_of: Callable[[_C], Scales] = lambda _: Scales(),
    final_norm: str = "output_norm",
    norms_embedding: bool = False,
    behind: Callable[[Decoder[_C], Tensor], None] = lambda d, x: None,
) -> Plan:
    """Build the plan from tokens to logits: embedding, layers, norm, and the head, which may be the
    embedding. `final_norm`: the stem of the weights of the norm behind the layers.
    `norms_embedding`: there is a norm before them even without weights. `behind` adds what a step
    leaves of the residual stream behind the last layer [T, width]. Where the model makes vectors
    of texts, the plan ends with the hidden states of all tokens, [T, width]."""
    b = PlanBuilder(weights, bucket, integer_activations=options.integer_activations)
    d, scales = Decoder(b, config, options), scales_of(config)
    x = b.embed(b.weight(EMBEDDING), "embedding")
    if scales.embedding != 1.0:
        x = b.scale(x, "embedding.scaled", factor=scales.embedding)
    if b.has(POSITIONS):
        x = b.add(x, b.position_rows(b.weight(POSITIONS), "positions"), "embedding.placed")
    has_weights = b.has(f"{EMBEDDING_NORM}.weight") and final_norm != EMBEDDING_NORM
    if norms_embedding or has_weights:
        x = d.norm(x, EMBEDDING_NORM, "embedding.norm")
    has_norm = b.has(f"{final_norm}.weight") or b.has(
        NORM_SCALE
    )  # post-norm layers end with theirs
    if config.embeds:

        def to_hidden(x: Tensor, index: int) -> Tensor:
            x, last = layer(d, x, index), index == config.layers - 1
            return d.norm(x, final_norm, "output.norm") if last and has_norm else x

        return b.finish(residual_stream(b, config.shape, x, to_hidden))
    x = residual_stream(b, config.shape, x, partial(layer, d))
    behind(d, x)
    x = b.output_rows(x, "output.rows")
    if has_norm:
        x = d.norm(x, final_norm, "output.norm")
    logits = through_head(b, x)
    if scales.logits != 1.0:
        logits = b.scale(logits, "logits.scaled", factor=scales.logits)
    if cap := scales.logit_cap:
        logits = b.softcap(logits, "logits.cap", scale=1 / cap, cap=cap)
    return b.finish(logits)


def through_head(b: PlanBuilder, x: Tensor) -> Tensor:
    """[outputs, width], normed -> logits [outputs, vocabulary], by the head or the embedding."""
    head = HEAD if b.has(HEAD) else EMBEDDING
    return b.matmul(x, b.weight(head), "logits", float_inputs=True)


def attention_block(
    d: Decoder[Any],
    x: Tensor,
    layer: int,
    *,
    pre_norm: str = "attn_norm",
    post_norm: str = "",
    qk_norm: bool = False,
    norms_rotated: bool = False,
    rotary: bool = True,
    theta: float | None = None,
    scale: float | None = None,
    factor: float = 1.0,
    softcap: float = 0.0,
    temperature: float = 0.0,
    sinks: str = "",
    bias: tuple[Tensor, int] | None = None,
    bidirectional: bool = False,
    gate: str = "",
) -> Tensor:
    """[T, width] -> [T, width]: x + factor * attention. Norms by the stems of their weights, ""
    where there is none. `qk_norm`: queries and keys are normed, a head or all heads at once, as
    wide as their weights; `norms_rotated`: once they are rotated. `rotary`: rotated by position;
    `theta`: by another base than the model's, unscaled. `scale` multiplies q . k, left out:
    1 / sqrt(head_dim). Windows are the config's. `temperature`: how fast queries grow behind the
    original context. `sinks`: the stem of a score a head that is one of its scores and has no
    value; "": none. `bias` by distance, as of `cached_attention`. `bidirectional`: all positions
    are seen; a window on both sides is then a `bias`. `gate`: the stem of what is made of the input
    and, by a sigmoid, multiplies what heads find.
    """
    at, w, config = f"layers.{layer}.attention", f"blk.{layer}.", d.config
    bidirectional = bidirectional or not d.causal
    h = d.norm(x, w + pre_norm, at + ".norm") if pre_norm else x
    q, k, v = (d.linear(h, f"{w}attn_{one}", f"{at}.{one}") for one in "qkv")
    if qk_norm and not norms_rotated:
        q, k = _normed(d, q, k, w, at)
    if rotary:
        q = rotate(d, q, at + ".q_rope", theta, temperature)
        k = rotate(d, k, at + ".k_rope", theta)
    if qk_norm and norms_rotated:
        q, k = _normed(d, q, k, w, at)
    if rotary:
        if theta is None and d.b.has(MAGNITUDE):
            q = d.b.scale(q, at + ".q_magnitude", weight=d.b.weight(MAGNITUDE))
        elif theta is None and config.rotary_magnitude != 1.0:
            scale = (scale or config.head_dim**-0.5) * config.rotary_magnitude**2
    window = config.window if config.sliding[layer] and not bidirectional else 0
    y = cached_attention(
        d.b,
        config.shape,
        d.options,
        q,
        (k, v),
        at,
        layer=layer,
        window=window,
        scale=scale,
        softcap=softcap,
        sinks=d.b.weight(f"{w}{sinks}.weight") if sinks else None,
        bias=bias,
        bidirectional=bidirectional,
    )
    if gate:
        y = d.b.sigmoid_mul(d.linear(h, w + gate, at + ".gate"), y, at + ".gated")
    y = d.linear(y, w + "attn_output", at + ".output")
    if post_norm:
        y = d.norm(y, w + post_norm, at + ".post_norm", config.post_norm_eps)
    return d.residual(x, y, at, factor)


def _normed(d: Decoder[Any], q: Tensor, k: Tensor, weights: str, at: str) -> tuple[Tensor, Tensor]:
    """Return queries and keys by norms of their own; `weights`: the beginning of their names."""
    q = d.norm(q, weights + "attn_q_norm", at + ".q_norm")
    return q, d.norm(k, weights + "attn_k_norm", at + ".k_norm")


def rotate(
    d: Decoder[Any], x: Tensor, label: str, theta: float | None, temperature: float = 0.0
) -> Tensor:
    """Rotate queries or keys [T, heads * head_dim] by their positions."""
    config, scaled = d.config, theta is None
    factors = _rotary_factors(d) if scaled else None
    linear = scaled and config.scaling == "linear"
    return d.b.rope(
        x,
        label,
        head_dim=config.head_dim,
        rotary_dim=config.rotary_dim,
        theta=config.theta if theta is None else theta,
        scale=1.0 / config.scaling_factor if linear else 1.0,
        half_split=config.pairing == "half_split",
        factors=None if factors is None else d.b.weight(factors),
        temperature=temperature,
        temperature_length=config.original_context if temperature else 1,
    )


def _rotary_factors(d: Decoder[Any]) -> str | None:
    """Return the tensor that frequencies are divided by: of two, the one for a context of this
    length."""
    if d.b.has(FACTORS):
        return FACTORS
    name = LONG if d.options.context > d.config.original_context else SHORT
    return name if d.b.has(name) else None


def plain_block(
    d: Decoder[Any],
    x: Tensor,
    layer: int,
    *,
    pre_norm: str = "ffn_norm",
    reads: Tensor | None = None,
    exact: bool = False,
) -> Tensor:
    """[T, width] -> [T, width]: x + down(gelu(up(norm(x)))). The norm by the stem of its weights,
    "" where there is none. `reads`: what is normed in the place of x, where attention and
    feed-forward are parallel. `exact`: GELU by the error function, not by tanh."""
    at, w = f"layers.{layer}.feed_forward", f"blk.{layer}."
    h = x if reads is None else reads
    h = d.norm(h, w + pre_norm, at + ".norm") if pre_norm else h
    h = d.linear(h, w + "ffn_up", at + ".up")
    h = d.b.gelu_erf(h, at + ".gelu") if exact else d.b.gelu(h, at + ".gelu")
    return d.residual(x, d.linear(h, w + "ffn_down", at + ".down"), at, 1.0)


def gated_block(
    d: Decoder[Any],
    x: Tensor,
    layer: int | str,
    *,
    pre_norm: str = "ffn_norm",
    post_norm: str = "",
    gelu: bool = False,
    factor: float = 1.0,
    reads: Tensor | None = None,
) -> Tensor:
    """[T, width] -> [T, width]: x + factor * down(act(gate) * up) (Shazeer 2020), by SiLU or GELU.
    Norms by the stems of their weights, "" where there is none. `reads` as of `plain_block`."""
    at, w = f"layers.{layer}.feed_forward", f"blk.{layer}."
    h = x if reads is None else reads
    h = d.norm(h, w + pre_norm, at + ".norm") if pre_norm else h
    gate = d.linear(h, w + "ffn_gate", at + ".gate")
    up = d.linear(h, w + "ffn_up", at + ".up")
    if gelu:
        h = d.b.gelu_mul(gate, up, at + ".gelu_mul")
    else:
        h = d.b.silu_mul(gate, up, at + ".silu_mul")
    y = d.linear(h, w + "ffn_down", at + ".down")
    if post_norm:
        y = d.norm(y, w + post_norm, at + ".post_norm", d.config.post_norm_eps)
    return d.residual(x, y, at, factor)


def cached_attention(
    b: PlanBuilder,
    shape: ModelShape,
    options: BuildOptions,
    q: Tensor,
    kv: tuple[Tensor, Tensor] | None,
    at: str,
    *,
    layer: int,
    owner: int | str | None = None,
    window: int = 0,
    scale: float | None = None,
    softcap: float = 0.0,
    sinks: Tensor | None = None,
    bias: tuple[Tensor, int] | None = None,
    bidirectional: bool = False,
    first: int = 0,
) -> Tensor:
    """Compute attention of q [T, heads * head_dim], rotated, over the cache -> [T, heads *
    head_dim].

    `kv` are this layer's keys, rotated, and its values, each [T, kv_heads * head_dim], stored
    before they are read. None where the layer reads the cache of an earlier one, `owner`. `window`:
    the last positions that a token sees, its own among them; 0: all. `scale` multiplies q . k; left
    out: 1 / sqrt(head_dim). With `softcap` > 0 scores are softcap * tanh(score / softcap). `sinks`
    [heads]: scores that take a share and have no value. `bias` [heads, columns] by distance, with
    its column for a distance of 0. `bidirectional`: all positions are seen. `first`: the first
    position that is. Queries are kept for attention maps as `options` says, a slice's not, and
    every head's output is multiplied by its gain.
    """
    caches = _caches(b, shape, options, layer if owner is None else owner, window)
    kept = [] if kv is None else list(zip(kv, caches, strict=True))
    kept += [] if b.sliced else _kept_queries(b, shape, options, q, layer, window)
    if kept:
        b.store(kept, at + ".store")
    table, before = bias or (None, 0)
    return b.attention(
        q,
        *caches,
        _gains(b, shape, options),
        at + ".heads",
        layer=layer,
        heads=shape.heads,
        kv_heads=shape.kv_heads,
        head_dim=shape.head_dim,
        window=window,
        scale=scale,
        softcap=softcap,
        sinks=sinks,
        bias=table,
        bias_before=before,
        bidirectional=bidirectional,
        first=first,
    )


def store_for_drafts(d: Decoder[Any], k: Tensor, v: Tensor, label: str) -> None:
    """Store keys, rotated, and values [T, kv_heads * head_dim] of the block that drafts, whose
    attention is in another plan: `cached_attention` with the `owner` DRAFT."""
    caches = _caches(d.b, d.config.shape, d.options, DRAFT)
    d.b.store(list(zip((k, v), caches, strict=True)), label)


def cross_attention(
    b: PlanBuilder,
    shape: ModelShape,
    options: BuildOptions,
    q: Tensor,
    at: str,
    *,
    layer: int,
    scale: float | None = None,
) -> Tensor:
    """Compute attention of q [T, heads * head_dim] over what the encoder left of its source -> [T,
    heads * head_dim]."""
    number = shape.layers + layer
    if kept := _kept_queries(b, shape, options, q, number):
        b.store(kept, at + ".store")
    return b.attention(
        q,
        *cross_caches(b, shape, options, layer),
        _gains(b, shape, options),
        at + ".heads",
        layer=number,
        heads=shape.heads,
        kv_heads=shape.kv_heads,
        head_dim=shape.head_dim,
        scale=scale,
        cross=True,
    )


def cross_caches(
    b: PlanBuilder, shape: ModelShape, options: BuildOptions, layer: int
) -> tuple[Tensor, Tensor]:
    """Return keys and values [source, kv_heads * head_dim] of a decoder's layer, which its
    encoder's program writes and its own reads. `shape` is the decoder's."""
    d = shape.head_dim
    size = (options.source, shape.kv_heads * d)
    names = cross_states(layer)
    return (
        b.state(names[0], options.k_dtype, size, block=d),
        b.state(names[1], options.v_dtype, size, block=d),
    )


def leave_cross(d: Decoder[Any], x: Tensor, stem: str, layer: int) -> None:
    """Store keys and values of an encoder's output [T, width], for a layer of its decoder, whose
    weights begin with `stem`."""
    at = f"layers.{layer}.cross_attention"
    k, v = (d.linear(x, stem + one, f"{at}.{one}") for one in "kv")
    caches = cross_caches(d.b, d.config.shape, d.options, layer)
    d.b.store(list(zip((k, v), caches, strict=True)), at + ".store")


def recurrent_state(
    b: PlanBuilder, options: BuildOptions, name: str, rows: int, columns: int
) -> Tensor:
    """Return a state [slots * rows, columns] that does not grow with the text."""
    slots = options.pages.states if options.pages else 1
    if not slots:
        raise ValueError(f"{name}: pages without slots of states")
    return b.state(name, "f32", (slots * rows, columns))


def _kept_queries(
    b: PlanBuilder,
    shape: ModelShape,
    options: BuildOptions,
    q: Tensor,
    number: int,
    window: int = 0,
) -> list[tuple[Tensor, Tensor]]:
    """Return queries and the state that keeps them, in as many pages as the layer's keys; [] if
    none are kept. `number`: of `shape.attentions`."""
    if not options.query_rows:
        return []
    ring = options.query_ring
    rows = options.rows_with(ring, windowed=options.slides(window))
    size = (rows, shape.heads * shape.head_dim)
    return [(q, b.state(f"q_ring.{number}", options.q_dtype, size, ring=ring))]


def keep_choices(d: Decoder[_S], experts: Tensor, shares: Tensor, layer: int) -> None:
    """Keep which experts a layer's tokens chose, and what each weighs, [T, chosen] each, of as many
    positions as queries are kept of."""
    if d.b.sliced or not d.options.query_rows:
        return
    ring = d.options.query_ring
    size = (d.options.rows_with(ring), experts.shape[1])
    kept = [
        (rows, d.b.state(f"{name}_ring.{layer}", "f32", size, ring=ring))
        for rows, name in ((experts, "experts"), (shares, "shares"))
    ]
    d.b.store(kept, f"layers.{layer}.feed_forward.route.store")


def expert_switches(d: Decoder[_S], experts: int) -> Tensor:
    """Return what each sequence says of the experts of every layer, [slots * layers, 2 * experts],
    1 at first, which changes nothing."""
    slots = d.options.pages.slots if d.options.pages else 1
    size = (slots * d.config.shape.layers, 2 * experts)
    return d.b.state(EXPERT_SWITCHES, "f32", size, fill=1.0)


def _gains(b: PlanBuilder, shape: ModelShape, options: BuildOptions) -> Tensor:
    """Return the gains of all heads [slots * attentions, heads], 1 at first."""
    slots = options.pages.slots if options.pages else 1
    return b.state(HEAD_GAINS, "f32", (slots * shape.attentions, shape.heads), fill=1.0)


def _caches(
    b: PlanBuilder,
    shape: ModelShape,
    options: BuildOptions,
    owner: int | str,
    window: int = 0,
) -> tuple[Tensor, Tensor]:
    """Return keys and values [C, kv_heads * head_dim] of a layer: all positions, or with a window a
    ring of those that a step's tokens may attend to, and so many pages of other sequences."""
    d, rings = shape.head_dim, options.slides(window)
    ring = options.ring_of(window + options.buckets[-1].max_tokens if rings else options.context)
    size = (options.rows_with(ring, windowed=rings), shape.kv_heads * d)
    return (
        b.state(f"k_cache.{owner}", options.k_dtype, size, block=d, ring=ring),
        b.state(f"v_cache.{owner}", options.v_dtype, size, block=d, ring=ring),
    )
