"""The trace of one token, made in one request between two steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypedDict

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from llm_lite.core.errors import RequestError
from llm_lite.core.inspect.attention import AttentionSource
from llm_lite.core.inspect.inspected import InspectedSession
from llm_lite.core.inspect.lesson import wiring
from llm_lite.core.inspect.lesson.one_head import CachedKeys, head_view, liveliest, scores_of
from llm_lite.core.inspect.lesson.recording import TracedRun, TracedSession, run_of, run_of_text
from llm_lite.core.inspect.lesson.wiring import EmbeddingOps, LayerOps, Wiring, layer_ops, parts_of
from llm_lite.core.kv_cache.states import state_tensors
from llm_lite.core.messages.inspecting.lesson import (
    ANY_HEAD,
    MOST_LOGITS,
    MOST_NEURONS,
    MOST_TOKENS,
    MOST_VALUES,
    TEMPERATURES,
    CrossTrace,
    Curve,
    Distribution,
    FeedForwardTrace,
    FollowToken,
    Gate,
    HeadTrace,
    LayerGrowth,
    LayerTrace,
    Neuron,
    Norm,
    Positions,
    TokenLogit,
    TokenTrace,
    TracedShape,
    TracedSource,
    VectorPart,
)
from llm_lite.core.plan.attention_layers import AttentionLayer
from llm_lite.core.plan.cache_layers import cache_layers
from llm_lite.core.plan.plan import Plan, Program, tensor_row_bytes
from llm_lite.core.quant.modes import MADE
from llm_lite.core.records import replace


class HeadRows(Struct, frozen=True):
    """The rows of one token, all heads side by side: float32 [heads * d], key_raw [kv_heads *
    d]."""

    query_raw: F32
    query: F32
    key_raw: F32 | None
    outputs: F32


_NORMS: dict[str, Norm] = {"rms_norm": "rms", "layer_norm": "layer"}
_GATES: dict[str, Gate] = {"silu_mul": "silu", "gelu_mul": "gelu"}
_CURVES: dict[str, Curve] = {
    "silu_mul": "silu", "silu": "silu", "gelu_mul": "gelu", "gelu": "gelu", "gelu_erf": "gelu",
    "relu": "relu",
}  # fmt: skip


class _Rotary(TypedDict):
    rotary_dim: int
    half_split: bool
    theta: float


NO_LOGITS = Distribution((), (0.0,) * len(TEMPERATURES), None, 0)  # of a model without a head
F32 = NDArray[np.float32]
Rows = Mapping[int, F32]  # by index of the op that makes them
HeadLogits = Callable[[F32, int], F32]  # of hidden states [tokens, width] and a position: [V]


class _Wires(Struct, frozen=True):
    """A model's ops, and those of the opened layer."""

    run: TracedRun
    source: AttentionSource
    wiring: Wiring
    embedding: EmbeddingOps
    ops: LayerOps
    layer: AttentionLayer

    @property
    def every_layer(self) -> set[int]:
        """Return the ops that are read of every layer."""
        parts = [one for i in range(self.layers) for one in parts_of(self.wiring, i)]
        return {index for one in parts for index in (one.added, one.after)}

    @property
    def layers(self) -> int:
        return len(self.run.plan.layer_ends)

    @property
    def recorded(self) -> set[int]:
        return {*self.embedding.read, *self.ops.read, *self.every_layer}

    def shape(self) -> TracedShape:
        program = self.run.session.executor.program
        return traced_shape(program, self.wiring, self.ops, self.layer)

    def cached_keys(self, number: int, heads: int, visible: range) -> CachedKeys:
        """Return the keys and values of the model's attention `number`, whose op is `heads`."""
        keys, values = (self.run.plan.tensors[i] for i in self.wiring.op(heads).inputs[1:3])
        bias, layer = self.source.bias(number), self.source.layers[number]
        run = self.run
        return CachedKeys(run.read, layer, keys, values, run.position, visible, bias)


def trace_token(
    session: InspectedSession,
    source: AttentionSource,
    request: FollowToken,
    hidden: F32 | None = None,
) -> TokenTrace:
    """Return all numbers of a decoder's token. hidden: [tokens, width] of an encoder-decoder's
    source. Errors as of `trace_run`."""
    trace = trace_run(run_of(session, request.position), source, request)
    if hidden is None:
        return trace
    shape = replace(trace.shape, path="encoder_decoder")
    return replace(trace, shape=shape, source=_source(session.source_tokens, hidden))


def trace_run(run: TracedRun, source: AttentionSource, request: FollowToken) -> TokenTrace:
    """Return all numbers of the token that `run` computes again. Of `source`, only what is the
    same for all sequences of the model.

    RequestError where position, layer or head are not there, or the model is built in a way that is
    not known; NotFiniteError where what it computes are no numbers.
    """
    wires = _wires(run, source, request)
    final, logits = wiring.final_op(wires.wiring), len(wires.run.plan.ops) - 1
    rows = wires.run.record({*wires.recorded, final, logits})
    first = request.position + 1 - wires.layer.window if wires.layer.window else 0
    visible = range(max(0, first), request.position + 1)
    tokens = run.session.tokens()
    trace = _trace(wires, request, rows, visible, _before(request), tokens)
    return replace(
        trace,
        final=part(rows[final]),
        distribution=distribution(rows[logits], tokens[request.position + 1 :][:1]),
    )


def trace_text(
    session: TracedSession,
    source: AttentionSource,
    request: FollowToken,
    head_logits: HeadLogits | None,
) -> tuple[TokenTrace, F32]:
    """Return all numbers of a token of an encoder's text, and the hidden states [tokens, width] of
    all.

    head_logits: the masked-token head; None where the model has none. Errors as of `trace_token`.
    """
    wires = _wires(run_of_text(session, request.position), source, request)
    rows = wires.run.record(wires.recorded)
    states, tokens = wires.run.states(), session.tokens()
    trace = _trace(wires, request, rows, range(len(tokens)), _around(request, len(tokens)), tokens)
    shape = replace(trace.shape, path="encoder", has_head=head_logits is not None)
    if head_logits is None:
        return replace(trace, shape=shape), states
    logits = session.checked(head_logits(states, request.position), "the logits of the text")
    found = distribution(logits, (tokens[request.position],))
    return replace(trace, shape=shape, distribution=found), states


def _wires(run: TracedRun, source: AttentionSource, request: FollowToken) -> _Wires:
    wires = Wiring(run.plan)
    layers = len(run.plan.layer_ends)
    if not 0 <= request.layer < layers:
        raise RequestError(f"layer {request.layer}: the model has {layers} layers")
    layer = source.layers[request.layer]
    if not layer.attends:
        open_ones = [str(i) for i, one in enumerate(source.layers) if one.attends]
        raise RequestError(
            f"layer {request.layer} has a recurrent state: the lesson opens layers that attend, "
            f"{', '.join(open_ones)}"
        )
    if request.head != ANY_HEAD and not 0 <= request.head < layer.heads:
        last = layer.heads - 1
        raise RequestError(f"head {request.head}: layer {request.layer} has heads 0 to {last}")
    ops = layer_ops(wires, request.layer)
    return _Wires(run, source, wires, wiring.embedding_ops(wires), ops, layer)


def _before(request: FollowToken) -> range:
    """Return the positions whose scores are in the trace: the last MOST_TOKENS at most, the token's
    own among them."""
    first = max(0, request.first, request.position + 1 - MOST_TOKENS)
    return range(min(first, request.position), request.position + 1)


def _around(request: FollowToken, count: int) -> range:
    """Return the positions of a text that is seen whole: MOST_TOKENS at most, the token's own in
    their middle."""
    first = max(0, min(request.position - MOST_TOKENS // 2, count - MOST_TOKENS))
    return range(first, min(count, first + MOST_TOKENS))


def _trace(
    wires: _Wires, request: FollowToken, rows: Rows, visible: range, sentence: range,
    tokens: tuple[int, ...],
) -> TokenTrace:  # fmt: skip
    ops, embedding, layer = wires.ops, wires.embedding, wires.layer
    cached = wires.cached_keys(request.layer, ops.heads, visible)
    seen = range(max(sentence.start, visible.start), min(sentence.stop, visible.stop))
    head = request.head
    if head == ANY_HEAD:
        head = liveliest(cached, seen, rows[ops.query].reshape(layer.heads, layer.head_dim))
    gain = _gain(wires, ops.heads, head)
    raw = None if ops.key_raw is None else rows[ops.key_raw]
    own = HeadRows(rows[ops.query_raw], rows[ops.query], raw, rows[ops.heads])
    opened = LayerTrace(
        part(rows[ops.residual]),
        part(rows[ops.normed]),
        trace_head(cached, head, own, seen, gain),
        part(rows[ops.attended]),
        part(rows[ops.after_attention]),
        _feed_forward(rows, ops),
        part(rows[ops.after]),
        None if ops.attention_sum is None else part(rows[ops.attention_sum]),
        _cross(wires, request, rows, head),
    )
    sentence_tokens = tuple((place, tokens[place]) for place in sentence)
    return TokenTrace(
        request.position,
        tokens[request.position],
        request.layer,
        head,
        wires.shape(),
        sentence_tokens,
        part(rows[embedding.row]),
        None if embedding.place is None else part(rows[embedding.place]),
        part(rows[embedding.last]),
        opened,
        _growth(wires, rows),
        part(rows[ops.after]),
        NO_LOGITS,
        None if embedding.segment is None else part(rows[embedding.segment]),
        None if embedding.sum is None else part(rows[embedding.sum]),
    )


def _gain(wires: _Wires, heads: int, head: int) -> float:
    number = int(wires.wiring.op(heads).params["layer"])
    return float(wires.run.session.gains[number][head])


def _cross(wires: _Wires, request: FollowToken, rows: Rows, head: int) -> CrossTrace | None:
    """Return the trace of the same head in the layer's cross-attention, over the source."""
    ops = wires.ops.cross
    if ops is None:
        return None
    number = int(wires.wiring.op(ops.heads).params["layer"])
    cached = wires.cached_keys(number, ops.heads, range(wires.run.step.source))
    own = HeadRows(rows[ops.query], rows[ops.query], None, rows[ops.heads])
    shown = range(min(MOST_TOKENS, wires.run.step.source))
    trace = trace_head(cached, head, own, shown, _gain(wires, ops.heads, head))
    return CrossTrace(trace, part(rows[ops.attended]), part(rows[ops.after]))


def _source(tokens: tuple[int, ...], hidden: F32) -> tuple[TracedSource, ...]:
    some = zip(tokens[:MOST_TOKENS], hidden, strict=False)
    return tuple(TracedSource(place, token, part(row)) for place, (token, row) in enumerate(some))


def _feed_forward(rows: Rows, ops: LayerOps) -> FeedForwardTrace:
    values, up = rows[ops.activation], rows[ops.up]
    gate = None if ops.gate is None else rows[ops.gate]
    size = np.abs(values)
    strongest = np.argsort(-size, kind="stable")[:MOST_NEURONS].tolist()
    neurons = tuple(
        Neuron(i, None if gate is None else float(gate[i]), float(up[i]), float(values[i]))
        for i in strongest
    )
    strong = int((size >= size.max() / 10).sum())
    return FeedForwardTrace(
        part(rows[ops.ff_normed]), neurons, strong, len(values), part(rows[ops.ff_output])
    )


def _growth(wires: _Wires, rows: Rows) -> tuple[LayerGrowth, ...]:
    """Return what every layer adds, as the difference of the residuals around it; where norms are
    behind the sums, as it comes out of its part. Where a model keeps several residuals in parallel
    (Gemma 3n), the first one counts."""
    found, before = [], rows[wires.embedding.last]
    is_behind = wires.ops.attention_sum is not None
    for layer in range(wires.layers):
        sizes = []
        for one in parts_of(wires.wiring, layer):
            after = rows[one.after]
            width = min(len(before), len(after))
            added = rows[one.added] if is_behind else after[:width] - before[:width]
            sizes.append(rms(added))
            before = after
        width = wires.wiring.size(wires.ops.normed)
        found.append(LayerGrowth(sizes[0], sizes[-1], rms(before[:width]), sum(sizes[1:-1])))
    return tuple(found)


def distribution(logits: NDArray[np.float32], next_token: Sequence[int]) -> Distribution:
    """Return the distribution of logits float32 [V]; `next_token`: the one that follows, if one
    does. Texts are empty: `with_texts` fills them in."""
    order = np.argsort(-logits, kind="stable")
    top, rest = order[:MOST_LOGITS], order[MOST_LOGITS:]
    below = logits[rest].astype(np.float64) - float(logits[order[0]])
    tails = tuple(float(np.exp(below / temperature).sum()) for temperature in TEMPERATURES)
    went_on, rank = None, 0
    for token in next_token:
        went_on = TokenLogit(token, "", float(logits[token]))
        rank = int((logits > logits[token]).sum()) + 1
    likeliest = tuple(TokenLogit(int(i), "", float(logits[i])) for i in top)
    return Distribution(likeliest, tails, went_on, rank)


def traced_shape(
    program: Program, wires: Wiring, ops: LayerOps, layer: AttentionLayer
) -> TracedShape:
    """Return the model's sizes. `program`: its caches are what the model keeps of a position."""
    plan = wires.plan
    at = wires.op(ops.heads).label.removesuffix(".heads")
    norm = wires.at(f"{at}.norm")
    owners = cache_layers(plan)
    cached = [tensor for owner in owners for tensor in owner.tensors]
    embedding = wiring.embedding_ops(wires)
    logits = wires.op(len(plan.ops) - 1)
    activation, states = wires.op(ops.activation).name, _states(program, plan)
    return TracedShape(
        layers=len(plan.layer_ends),
        width=wires.size(ops.normed),
        heads=layer.heads,
        kv_heads=layer.kv_heads,
        head_dim=layer.head_dim,
        feed_forward=wires.size(ops.activation),
        vocabulary=program.vocabulary,
        context=program.context,
        norm="none" if norm is None else _NORMS[wires.op(norm).name],
        post_norm=wires.at(f"{at}.post_norm") is not None,
        qk_norm=wires.at(f"{at}.q_norm") is not None,
        positions=_positions(wires, at, layer),
        **_rotary(wires, at),
        scale=layer.scale,
        softcap=layer.softcap,
        window=layer.window,
        gate=_GATES.get(activation, "none"),
        logit_cap=logits.params["cap"] if logits.name == "softcap" else 0.0,
        cache_bytes=sum(map(tensor_row_bytes, cached)),
        cache_layers=len(owners),
        cache_values=sum(tensor.shape[1] for tensor in cached),
        places=_rows_of(wires, embedding.place),
        embedding_factor=_factor(wires, "embedding.scaled"),
        residual_factor=_factor(wires, f"{at}.scaled"),
        norm_behind=ops.attention_sum is not None,
        final_norm=wires.at("output.norm") is not None,
        curve=_CURVES[activation],
        segments=_rows_of(wires, embedding.segment),
        embedding_norm=embedding.sum is not None,
        parallel=wiring.is_parallel(wires, at.removesuffix(".attention")),
        output_gate=wires.at(f"{at}.gated") is not None,
        state_layers=states.layers,
        state_values=states.values,
    )


class _StateSizes(Struct, frozen=True):
    """Layers with a recurrent state, and the numbers of all these states together."""

    layers: int
    values: int


def _states(program: Program, plan: Plan) -> _StateSizes:
    tensors = state_tensors(plan)
    slots = program.pages.states if program.pages else 1
    values = sum(tensor.shape[0] // slots * tensor.shape[1] for tensor in tensors)
    layers = len({tensor.name.rpartition(".")[2] for tensor in tensors})
    return _StateSizes(layers, values)


def _rows_of(wires: Wiring, op: int | None) -> int:
    """Return the rows of the table that an op reads; 0 if there is no op."""
    return 0 if op is None else wiring.weight_of(wires, op)[0]


def _factor(wires: Wiring, label: str) -> float:
    op = wires.at(label)
    return 1.0 if op is None else wires.op(op).params["factor"]


def _rotary(wires: Wiring, at: str) -> _Rotary:
    rotated = wires.at(f"{at}.q_rope")
    if rotated is None:
        return _Rotary(rotary_dim=0, half_split=False, theta=0.0)
    params = wires.op(rotated).params
    half_split = bool(params["half_split"])
    return _Rotary(
        rotary_dim=int(params["rotary_dim"]), half_split=half_split, theta=params["theta"]
    )


def _positions(wires: Wiring, at: str, layer: AttentionLayer) -> Positions:
    if wires.at(f"{at}.q_rope") is not None:
        return "rotary"
    if layer.bias is not None:
        return "bias"
    place = wiring.embedding_ops(wires).place
    if place is None:
        return "none"
    return "sines" if wiring.weight_name(wires, place).startswith(MADE) else "learned"


def trace_head(
    cached: CachedKeys, head: int, rows: HeadRows, seen: range, gain: float
) -> HeadTrace:
    """Trace a head. `seen`: the positions in the trace, which the head sees all. Key and value are
    the token's own, or those of the last position if the head sees another text."""
    layer, d = cached.layer, cached.layer.head_dim
    own = slice(head * d, (head + 1) * d)
    group = head * layer.kv_heads // layer.heads
    view = head_view(cached, head, rows.query[own])
    keys, values = (cached.of_head(tensor, head, seen) for tensor in (cached.keys, cached.values))
    inside = slice(seen.start - view.first, seen.stop - view.first)
    at = cached.position - seen.start if cached.position in seen and not layer.cross else -1
    raw = None if rows.key_raw is None else rows.key_raw[group * d : (group + 1) * d]
    outputs = rows.outputs.reshape(layer.heads, d)
    return HeadTrace(
        part(rows.query_raw[own]),
        part(rows.query[own]),
        None if raw is None else part(raw),
        part(keys[at]),
        part(values[at]),
        scores_of(view, seen, keys, values),
        len(view.dots) - len(seen),
        _outside(view.probabilities, inside),
        _outside(view.unscaled, inside),
        view.sink,
        view.sink_unscaled,
        gain,
        part(outputs[head]),
        tuple(rms(output) for output in outputs),
    )


def _outside(shares: F32, inside: slice) -> float:
    """Return the sum of the shares that are not inside."""
    beyond = shares[: inside.start], shares[inside.stop :]
    return float(sum(some.sum(dtype=np.float64) for some in beyond))


def part(vector: NDArray[np.float32]) -> VectorPart:
    """Return the parts that are shown of a vector float32 [n]."""
    return VectorPart(tuple(vector[:MOST_VALUES].tolist()), len(vector), rms(vector))


def rms(vector: NDArray[np.float32]) -> float:
    """Return sqrt(mean(x^2)), summed in float64: squares of large activations overflow float32."""
    return float(np.sqrt(np.square(vector, dtype=np.float64).mean()))
