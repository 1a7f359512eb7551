"""Finds the ops of a plan that make what the lesson shows, by their labels and by what reads their
output.

Models name their ops alike (`core.models.blocks`); a part that a model lacks is None. A norm is
before a part of a layer, or behind its sum with the residual.
"""

from __future__ import annotations

from msgspec import Struct

from llm_lite.core.errors import RequestError
from llm_lite.core.plan.plan import Kind, Op, Plan, Tensor

_ACTIVATIONS = ("silu_mul", "gelu_mul", "gelu", "gelu_new", "relu", "silu")  # labels
_PASSED = ("quantize", "expert_rows")
_PARTS = ("attention", "state", "convolution", "cross_attention", "feed_forward")
# Labels of the first product of a part: queries, perhaps with gates of what they find, or what a
# recurrent state or a convolution is given, or neurons
_FIRST = ("q_and_gate", "q", "qkv", "gates_and_values", "up")


class Wiring:
    """The ops of a plan by label, and which op makes a tensor."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self._by_label = {op.label: index for index, op in enumerate(plan.ops)}
        self._maker = {tensor: i for i, op in enumerate(plan.ops) for tensor in op.outputs}

    def at(self, label: str) -> int | None:
        return self._by_label.get(label)

    def last_of(self, *labels: str) -> int | None:
        """Return the last op of these labels that the plan has."""
        found = [self._by_label[label] for label in labels if label in self._by_label]
        return max(found, default=None)

    def maker(self, op: int, operand: int = 0) -> int:
        """Return the op that makes an operand of another, past its conversion to int8 blocks and
        its rows for experts."""
        producer = self._maker[self.plan.ops[op].inputs[operand]]
        return self.maker(producer) if self.plan.ops[producer].name in _PASSED else producer

    def op(self, index: int) -> Op:
        return self.plan.ops[index]

    def size(self, index: int) -> int:
        """Return the columns of what the op makes."""
        return self.plan.tensors[self.plan.ops[index].outputs[0]].shape[1]


class LayerOps(Struct, frozen=True):
    """Indices of the ops whose outputs are read; in the order of the plan.

    `attention_sum`: residual + attention, where a norm stands behind it; else None. `cross`: of a
    layer that has cross-attention.
    """

    residual: int
    normed: int
    query_raw: int
    query: int
    key_raw: int | None
    heads: int  # the op `attention`
    attended: int  # the last op of what attention adds
    attention_sum: int | None
    after_attention: int
    cross: CrossOps | None
    ff_normed: int
    gate: int | None
    up: int
    activation: int
    ff_output: int
    after: int

    @property
    def read(self) -> tuple[int, ...]:
        """Return all these ops, each once, in the order of the plan."""
        found = (
            self.residual, self.normed, self.query_raw, self.query, self.key_raw, self.heads,
            self.attended, self.attention_sum, self.after_attention, self.ff_normed, self.gate,
            self.up, self.activation, self.ff_output, self.after,
        )  # fmt: skip
        cross = () if self.cross is None else self.cross.read
        return tuple(sorted({index for index in (*found, *cross) if index is not None}))


class CrossOps(Struct, frozen=True):
    """The same of a layer's cross-attention."""

    query: int
    heads: int
    attended: int
    after: int

    @property
    def read(self) -> tuple[int, ...]:
        return (self.query, self.heads, self.attended, self.after)


def layer_ops(wiring: Wiring, layer: int) -> LayerOps:
    """Find the ops of a layer. RequestError if the lesson does not know how it is built."""
    at = f"layers.{layer}.attention"
    q, heads = first_product(wiring, at), _required(wiring, f"{at}.heads")
    assert q is not None, at
    query = wiring.maker(heads)
    rotated = wiring.at(f"{at}.q_rope")
    raw = query if rotated is None else wiring.maker(rotated)
    rotated = wiring.at(f"{at}.k_rope")
    key_raw = wiring.last_of(f"{at}.k", f"{at}.k.biased", f"{at}.k_norm")
    norm = wiring.at(f"{at}.norm")
    return LayerOps(
        wiring.maker(q if norm is None or norm > q else norm),
        wiring.maker(q),
        raw,
        query,
        key_raw if rotated is None or key_raw is None else wiring.maker(rotated),
        heads,
        added_by(wiring, at),
        wiring.at(f"{at}.residual") if norm is not None and norm > q else None,
        parts_of(wiring, layer)[0].after,
        _cross(wiring, layer),
        *_feed_forward(wiring, layer),
        wiring.plan.layer_ends[layer],
    )


def _required(wiring: Wiring, label: str) -> int:
    found = wiring.at(label)
    if found is None:
        raise RequestError("this model's layers are built in a way that the lesson does not know")
    return found


def _cross(wiring: Wiring, layer: int) -> CrossOps | None:
    at = f"layers.{layer}.cross_attention"
    heads = wiring.at(f"{at}.heads")
    if heads is None:
        return None
    after = parts_of(wiring, layer)[1].after
    return CrossOps(wiring.maker(heads), heads, added_by(wiring, at), after)


def _feed_forward(wiring: Wiring, layer: int) -> tuple[int, int | None, int, int, int]:
    """Return ff_normed, gate, up, activation, ff_output."""
    at = f"layers.{layer}.feed_forward"
    first = _required(wiring, f"{at}.up")
    if wiring.at(f"{at}.route") is not None:
        raise RequestError("the lesson does not show mixtures of experts yet")
    up = wiring.last_of(f"{at}.up", f"{at}.up.biased")
    activation = wiring.last_of(*(f"{at}.{name}" for name in _ACTIVATIONS))
    if up is None or activation is None:
        raise RequestError("this model's layers are built in a way that the lesson does not know")
    gate = wiring.last_of(f"{at}.gate", f"{at}.gate.biased")
    return wiring.maker(first), gate, up, activation, added_by(wiring, at)


def added_by(wiring: Wiring, at: str) -> int:
    """Return the last op of what a part of a layer adds to the residual."""
    ends = (
        "output",
        "output.biased",
        "down",
        "down.biased",
        "sum",
        "sum.shared",
        "post_norm",
        "scaled",
    )
    found = wiring.last_of(*(f"{at}.{name}" for name in ends))
    if found is None:
        raise RequestError("this model's layers are built in a way that the lesson does not know")
    return found


class LayerPart(Struct, frozen=True):
    """A part of a layer: what it adds to the residual, and the op that makes the residual behind
    it, its norm among it where one stands there."""

    added: int
    after: int


def parts_of(wiring: Wiring, layer: int) -> tuple[LayerPart, ...]:
    """Return attention or what has a recurrent state, cross-attention if there is one, and
    feed-forward."""
    at = f"layers.{layer}"
    names = [n for n in _PARTS if first_product(wiring, f"{at}.{n}") is not None]
    streams = [_stream_of(wiring, f"{at}.{name}") for name in names]
    ends = streams[1:]
    if is_parallel(wiring, at):
        ends = [_required(wiring, f"{at}.attention.residual")]
    ends.append(wiring.plan.layer_ends[layer])
    added = (added_by(wiring, f"{at}.{name}") for name in names)
    return tuple(map(LayerPart, added, ends))


def is_parallel(wiring: Wiring, at: str) -> bool:
    """Return whether the feed-forward of a layer, "layers.0", is given what attention is."""
    if first_product(wiring, f"{at}.attention") is None:
        return False
    return _stream_of(wiring, f"{at}.feed_forward") == _stream_of(wiring, f"{at}.attention")


def first_product(wiring: Wiring, at: str) -> int | None:
    """Return the first product of a part; None if the layer lacks the part."""
    found = (wiring.at(f"{at}.{name}") for name in _FIRST)
    return next((index for index in found if index is not None), None)


def _stream_of(wiring: Wiring, at: str) -> int:
    """Return the op that makes the residual which a part is given."""
    first, norm = first_product(wiring, at), wiring.at(f"{at}.norm")
    assert first is not None, at
    return wiring.maker(first if norm is None or norm > first else norm)


class EmbeddingOps(Struct, frozen=True):
    """The ops that read the rows of the token, its segment and its position; their sum where a norm
    stands behind it; and the last op before the first layer."""

    row: int
    segment: int | None
    place: int | None
    sum: int | None
    last: int

    @property
    def read(self) -> tuple[int, ...]:
        found = (self.row, self.segment, self.place, self.sum, self.last)
        return tuple(index for index in found if index is not None)


def embedding_ops(wiring: Wiring) -> EmbeddingOps:
    row = wiring.at("embedding")
    if row is None:
        raise RequestError("this model's embedding is built in a way that the lesson does not know")
    sums = ("embedding", "embedding.scaled", "embedding.typed", "embedding.placed")
    added, norm = wiring.last_of(*sums), wiring.at("embedding.norm")
    assert added is not None
    return EmbeddingOps(
        row,
        wiring.at("types"),
        wiring.at("positions"),
        None if norm is None else added,
        added if norm is None else norm,
    )


def final_op(wiring: Wiring) -> int:
    """Return the op whose output is multiplied to logits: it is behind the model's last norm."""
    plan = wiring.plan
    head = next(i for i in reversed(range(len(plan.ops))) if plan.ops[i].name == "matmul")
    return wiring.maker(head)


def weight_of(wiring: Wiring, op: int) -> tuple[int, ...]:
    """Return the shape of the weight that an op reads, () if it reads none."""
    found = _weight(wiring, op)
    return () if found is None else found.shape


def weight_name(wiring: Wiring, op: int) -> str:
    found = _weight(wiring, op)
    return "" if found is None else found.name


def _weight(wiring: Wiring, op: int) -> Tensor | None:
    tensors = (wiring.plan.tensors[i] for i in wiring.op(op).inputs)
    return next((t for t in tensors if t.kind is Kind.WEIGHT), None)
