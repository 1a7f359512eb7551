"""The trace of one token, made in one request between two steps."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from llm_lite.core.errors import RequestError
from llm_lite.core.inspect.inspected import InspectedSession
from llm_lite.core.inspect.lesson import one_head, wiring
from llm_lite.core.inspect.lesson.distribution import distribution
from llm_lite.core.inspect.lesson.recording import record, step_of
from llm_lite.core.inspect.lesson.shape import traced_shape
from llm_lite.core.inspect.lesson.vectors import part, rms
from llm_lite.core.inspect.lesson.wiring import LayerOps, Wiring, layer_ops
from llm_lite.core.messages.inspecting.lesson import (
    ANY_HEAD,
    MOST_NEURONS,
    MOST_TOKENS,
    FeedForwardTrace,
    FollowToken,
    HeadTrace,
    LayerGrowth,
    LayerTrace,
    Neuron,
    TokenTrace,
)
from llm_lite.core.plan.attention_layers import AttentionLayer
from llm_lite.core.plan.cache_layers import CacheLayer
from llm_lite.core.plan.plan import Plan

F32 = NDArray[np.float32]
Rows = Mapping[int, F32]  # by index of the op that makes them


@dataclass(frozen=True, slots=True)
class _Opened:
    """The layer and head that are opened, and what is known of the token there."""

    session: InspectedSession
    wiring: Wiring
    ops: LayerOps
    layer: AttentionLayer
    owner: CacheLayer
    head: int
    position: int
    rows: Rows


def follow(
    session: InspectedSession, layers: tuple[AttentionLayer, ...], asked: FollowToken
) -> TokenTrace:
    """All numbers of the token. `layers`: those of the model, with their sinks.

    RequestError where position, layer or head are not there, or the model is built in a way that
    is not known; NotFiniteError where what it computes are no numbers.
    """
    plan, step = step_of(session, asked.position)
    _check(asked, layers)
    wires = Wiring(plan)
    ops = layer_ops(wires, asked.layer)
    embedding = wiring.embedding_ops(wires)
    final = wiring.final_op(wires)
    between = [wiring.after_attention(wires, layer) for layer in range(len(layers))]
    wanted = {i for i in (*embedding, final, *between, *plan.layer_ends) if i is not None}
    rows = record(session, plan, step, (*wanted, *ops.read))
    layer = layers[asked.layer]
    owner = next(one for one in session.cache.layers if one.keys.name == layer.keys)
    sentence = _sentence(asked)
    head = asked.head
    if head == ANY_HEAD:
        queries = rows[ops.query].reshape(layer.heads, layer.head_dim)
        seen = _seen(layer, sentence)
        head = one_head.liveliest(session, owner, layer, seen, queries)
    opened = _Opened(session, wires, ops, layer, owner, head, asked.position, rows)
    row, place, embedded = embedding
    return TokenTrace(
        asked.position,
        int(step.tokens[0]),
        asked.layer,
        head,
        traced_shape(session, wires, ops, layer),
        tuple(zip(sentence, session.tokens()[sentence.start : sentence.stop], strict=True)),
        part(rows[row]),
        None if place is None else part(rows[place]),
        part(rows[embedded]),
        _layer(opened, sentence),
        _growth(plan, rows, embedded, between),
        part(rows[final]),
        distribution(rows[len(plan.ops) - 1], session.tokens()[asked.position + 1 :][:1]),
    )


def _check(asked: FollowToken, layers: tuple[AttentionLayer, ...]) -> None:
    if not 0 <= asked.layer < len(layers):
        raise RequestError(f"layer {asked.layer}: the model has {len(layers)} layers")
    heads = layers[asked.layer].heads
    if asked.head != ANY_HEAD and not 0 <= asked.head < heads:
        raise RequestError(f"head {asked.head}: layer {asked.layer} has heads 0 to {heads - 1}")


def _sentence(asked: FollowToken) -> range:
    """Positions whose scores are told: the last MOST_TOKENS at most, the token's own among them."""
    first = max(0, asked.first, asked.position + 1 - MOST_TOKENS)
    return range(min(first, asked.position), asked.position + 1)


def _seen(layer: AttentionLayer, sentence: range) -> range:
    """What of the sentence its last token sees in this layer."""
    first = sentence.stop - layer.window if layer.window else 0
    return range(max(sentence.start, first), sentence.stop)


def _layer(o: _Opened, sentence: range) -> LayerTrace:
    rows, ops = o.rows, o.ops
    before, between = rows[ops.residual], rows[ops.after_attention]
    return LayerTrace(
        part(before),
        part(rows[ops.normed]),
        _head(o, sentence),
        part(rows[ops.attended]),
        part(between),
        _feed_forward(rows, ops),
        part(rows[ops.after]),
    )


def _head(o: _Opened, sentence: range) -> HeadTrace:
    d, layer, rows = o.layer.head_dim, o.layer, o.rows
    own = slice(o.head * d, (o.head + 1) * d)
    group = o.head * layer.kv_heads // layer.heads
    query = rows[o.ops.query][own]
    view = one_head.look(o.session, o.owner, layer, o.head, o.position, query)
    seen = _seen(layer, sentence)
    keys, values = (
        one_head.rows_of(o.session, o.owner, tensor, layer, o.head, seen)
        for tensor in o.owner.tensors
    )
    inside = slice(seen.start - view.first, seen.stop - view.first)
    outputs = rows[o.ops.heads].reshape(layer.heads, d)
    raw = None if o.ops.key_raw is None else rows[o.ops.key_raw][group * d : (group + 1) * d]
    gains = o.session.gains
    return HeadTrace(
        part(rows[o.ops.query_raw][own]),
        part(query),
        None if raw is None else part(raw),
        part(keys[-1]),
        part(values[-1]),
        one_head.scores_of(view, seen, keys, values),
        len(view.dots) - len(seen),
        _outside(view.probabilities, inside),
        _outside(view.unscaled, inside),
        view.sink,
        view.sink_unscaled,
        float(gains[int(o.wiring.op(o.ops.heads).params["layer"])][o.head]),
        part(outputs[o.head]),
        tuple(rms(output) for output in outputs),
    )


def _outside(shares: F32, inside: slice) -> float:
    """The sum of those that are not inside."""
    return float(shares[: inside.start].sum(dtype=np.float64))


def _feed_forward(rows: Rows, ops: LayerOps) -> FeedForwardTrace:
    values, up = rows[ops.activation], rows[ops.up]
    gate = None if ops.gate is None else rows[ops.gate]
    size = np.abs(values)
    strongest = np.argsort(-size, kind="stable")[:MOST_NEURONS].tolist()
    neurons = tuple(
        Neuron(i, math.nan if gate is None else float(gate[i]), float(up[i]), float(values[i]))
        for i in strongest
    )
    strong = int((size >= size.max() / 10).sum())
    return FeedForwardTrace(
        part(rows[ops.ff_normed]), neurons, strong, len(values), part(rows[ops.ff_output])
    )


def _growth(plan: Plan, rows: Rows, embedded: int, between: list[int]) -> tuple[LayerGrowth, ...]:
    """What every layer adds, as the difference of the residuals around it. Where a model keeps
    several residuals beside each other (Gemma 3n), the first is told."""
    found, before = [], rows[embedded]
    for middle, end in zip(between, plan.layer_ends, strict=True):
        halfway, after = rows[middle], rows[end]
        width = min(len(before), len(halfway), len(after))
        parts = halfway[:width] - before[:width], after[:width] - halfway[:width]
        found.append(LayerGrowth(rms(parts[0]), rms(parts[1]), rms(after[:width])))
        before = after
    return tuple(found)
