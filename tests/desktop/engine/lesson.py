"""A trace without a model, for engines that tests write."""

from __future__ import annotations

import math

from llm_lite.core.messages import FollowToken, TokenFollowed, TokenTrace
from llm_lite.core.messages.inspecting.lesson import (
    ANY_HEAD,
    TEMPERATURES,
    Distribution,
    FeedForwardTrace,
    HeadTrace,
    LayerGrowth,
    LayerTrace,
    Neuron,
    TokenLogit,
    TokenScore,
    TracedShape,
    VectorPart,
)
from llm_lite.core.records import replace

SHAPE = TracedShape(
    layers=30, width=576, heads=9, kv_heads=3, head_dim=64, feed_forward=1536, vocabulary=49152,
    context=8192, norm="rms", post_norm=False, qk_norm=False, positions="rotary", rotary_dim=64,
    half_split=True, theta=100000.0, places=0, embedding_factor=1.0, residual_factor=1.0,
    cache_layers=30, cache_values=11520, scale=0.125, softcap=0.0, window=0, gate="silu",
    logit_cap=0.0, cache_bytes=23040, curve="silu",
)  # fmt: skip


def vector(size: int = 64, seed: int = 1) -> VectorPart:
    values = tuple(math.sin(seed * (i + 1)) for i in range(min(size, 64)))
    return VectorPart(values, size, 0.7)


def trace(asked: FollowToken) -> TokenTrace:
    places = range(asked.first, asked.position + 1)[-8:]
    share = 1 / len(places)
    key = vector().values
    scores = tuple(TokenScore(p, 8.0, 1.0, share, share, key, key) for p in places)
    head = HeadTrace(
        vector(), vector(64, 2), vector(), vector(), vector(), scores, 0, 0.0, 0.0, 0.0, 0.0, 1.0,
        vector(), (0.5,) * 9,
    )  # fmt: skip
    wide = vector(576)
    network = FeedForwardTrace(
        wide, (Neuron(7, 1.0, 2.0, 3.0), Neuron(9, 0.1, 1.0, -1.0)), 2, 1536, wide
    )
    opened = LayerTrace(wide, wide, head, wide, wide, network, wide)
    top = tuple(TokenLogit(i, f" word{i}", 10.0 - i) for i in range(16))
    return TokenTrace(
        asked.position, 314, asked.layer, 0 if asked.head == ANY_HEAD else asked.head, SHAPE,
        tuple((p, 300 + p) for p in places), wide, None, wide, opened,
        (LayerGrowth(0.5, 1.0, 2.0),) * 30, wide,
        Distribution(top, (0.0,) * len(TEMPERATURES), top[0], 1),
    )  # fmt: skip


def followed(asked: FollowToken, *, encodes: bool = False) -> TokenFollowed:
    """Of an encoder with a masked-token head, where the model `encodes`."""
    told = trace(asked)
    if encodes:
        shape = replace(SHAPE, path="encoder", has_head=True)
        told = replace(told, shape=shape)
    return TokenFollowed(told)
