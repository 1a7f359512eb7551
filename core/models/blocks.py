"""What decoders share, and a model definition could forget: caches, query rings, gains, layer ends.

A definition says how a layer's queries, keys and values are made; what keeps them, what looks
inside later and what weighs the heads is wired here, for every model alike.
"""

from __future__ import annotations

from collections.abc import Callable

from llm_lite.core.models.model import BuildOptions, ModelShape
from llm_lite.core.plan.attention_layers import HEAD_GAINS
from llm_lite.core.plan.builder import PlanBuilder
from llm_lite.core.plan.plan import Tensor

# The residual stream [T, columns] and a layer's number in, the stream behind that layer out.
Layer = Callable[[Tensor, int], Tensor]


def residual_stream(b: PlanBuilder, shape: ModelShape, x: Tensor, layer: Layer) -> Tensor:
    """`x` through all layers; the plan knows where each ends, as the lens needs it."""
    for index in range(shape.layers):
        x = b.layer_end(layer(x, index))
    return x


def cached_attention(
    b: PlanBuilder,
    shape: ModelShape,
    options: BuildOptions,
    q: Tensor,
    kv: tuple[Tensor, Tensor] | None,
    at: str,
    *,
    layer: int,
    owner: int | None = None,
    window: int = 0,
    scale: float | None = None,
    softcap: float = 0.0,
) -> Tensor:
    """q [T, heads * head_dim], rotated, over the cache -> [T, heads * head_dim].

    `kv` are this layer's keys, rotated, and its values, each [T, kv_heads * head_dim], stored
    before they are read. None where the layer reads the cache of an earlier one, `owner`.
    `window`: the last positions that a token sees, its own among them; 0: all. `scale` multiplies
    q . k; left out: 1 / sqrt(head_dim). With `softcap` > 0 scores are softcap * tanh(score /
    softcap). Queries are kept for attention maps as `options` says, and every head's output is
    multiplied by its gain.
    """
    caches = _caches(b, shape, options, layer if owner is None else owner, window)
    kept = [] if kv is None else list(zip(kv, caches, strict=True))
    if options.query_rows:
        ring = (options.query_rows, shape.heads * shape.head_dim)
        kept.append((q, b.state(f"q_ring.{layer}", options.q_dtype, ring)))
    if kept:
        b.store(kept, at + ".store")
    return b.attention(
        q,
        *caches,
        b.state(HEAD_GAINS, "f32", (shape.layers, shape.heads), fill=1.0),
        at + ".heads",
        layer=layer,
        heads=shape.heads,
        kv_heads=shape.kv_heads,
        head_dim=shape.head_dim,
        window=window,
        scale=scale,
        softcap=softcap,
    )


def _caches(
    b: PlanBuilder, shape: ModelShape, options: BuildOptions, owner: int, window: int
) -> tuple[Tensor, Tensor]:
    """Keys and values [C, kv_heads * head_dim] of a layer: all positions, or with a window a ring
    of those that a step's tokens may look at."""
    rows, d = options.context, shape.head_dim
    if window and not options.whole_caches:
        rows = min(rows, window + options.buckets[-1].max_tokens)
    size = (rows, shape.kv_heads * d)
    return (
        b.state(f"k_cache.{owner}", options.k_dtype, size, block=d),
        b.state(f"v_cache.{owner}", options.v_dtype, size, block=d),
    )
