"""Which ops of a plan make what the lesson shows, by their labels and by what reads their output.

Models name their ops alike (`core.models.blocks`); a part that a model lacks is None. Encoders, and
the cross-attention of encoder-decoders, have labels of their own and get a function here.
"""

from __future__ import annotations

from dataclasses import dataclass

from llm_lite.core.errors import RequestError
from llm_lite.core.plan.plan import Kind, Op, Plan

_ACTIVATIONS = ("silu_mul", "gelu_mul", "gelu")


class Wiring:
    """The ops of a plan by label, and which op makes a tensor."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self._by_label = {op.label: index for index, op in enumerate(plan.ops)}
        self._maker = {tensor: i for i, op in enumerate(plan.ops) for tensor in op.outputs}

    def at(self, label: str) -> int | None:
        return self._by_label.get(label)

    def last_of(self, *labels: str) -> int | None:
        """The last op of these that the plan has."""
        found = [self._by_label[label] for label in labels if label in self._by_label]
        return max(found, default=None)

    def maker(self, op: int, operand: int = 0) -> int:
        """The op that makes an operand of another, past its conversion to int8 blocks."""
        made = self._maker[self.plan.ops[op].inputs[operand]]
        return self.maker(made) if self.plan.ops[made].name == "quantize" else made

    def op(self, index: int) -> Op:
        return self.plan.ops[index]

    def size(self, index: int) -> int:
        """Columns of what the op makes."""
        return self.plan.tensors[self.plan.ops[index].outputs[0]].shape[1]


@dataclass(frozen=True, slots=True)
class LayerOps:
    """Indices of the ops whose outputs are read; in the order of the plan."""

    residual: int
    normed: int
    query_raw: int
    query: int
    key_raw: int | None
    heads: int  # the op `attention`
    attended: int  # the last op of what attention adds
    after_attention: int
    ff_normed: int
    gate: int | None
    up: int
    activation: int
    ff_output: int
    after: int

    @property
    def read(self) -> tuple[int, ...]:
        """Each once, in the order of the plan."""
        found = (
            self.residual, self.normed, self.query_raw, self.query, self.key_raw, self.heads,
            self.attended, self.after_attention, self.ff_normed, self.gate, self.up,
            self.activation, self.ff_output, self.after,
        )  # fmt: skip
        return tuple(sorted({index for index in found if index is not None}))


def layer_ops(wiring: Wiring, layer: int) -> LayerOps:
    """RequestError where the layer is built in a way that the lesson does not know."""
    at = f"layers.{layer}.attention"
    q, heads = wiring.at(f"{at}.q"), wiring.at(f"{at}.heads")
    if q is None or heads is None:
        raise RequestError("this model's layers are built in a way that the lesson does not know")
    query = wiring.maker(heads)
    turns = wiring.at(f"{at}.q_rope")
    raw = query if turns is None else wiring.maker(turns)
    turns = wiring.at(f"{at}.k_rope")
    key_raw = wiring.last_of(f"{at}.k", f"{at}.k.biased", f"{at}.k_norm")
    added = [f"{at}.{name}" for name in ("output", "output.biased", "post_norm", "scaled")]
    attended = wiring.last_of(*added)
    assert attended is not None, at
    norm = wiring.at(f"{at}.norm")
    residual = wiring.maker(q if norm is None else norm)
    after = wiring.plan.layer_ends[layer]
    return LayerOps(
        residual,
        wiring.maker(q),
        raw,
        query,
        key_raw if turns is None or key_raw is None else wiring.maker(turns),
        heads,
        attended,
        *_feed_forward(wiring, layer),
        after,
    )


def _feed_forward(wiring: Wiring, layer: int) -> tuple[int, int, int | None, int, int, int]:
    """after_attention, ff_normed, gate, up, activation, ff_output"""
    at = f"layers.{layer}.feed_forward"
    up = wiring.last_of(f"{at}.up", f"{at}.up.biased")
    gate = wiring.last_of(f"{at}.gate", f"{at}.gate.biased")
    last = wiring.last_of(*(f"{at}.{name}" for name in ("down", "down.biased")))
    activation = next(
        (wiring.at(f"{at}.{n}") for n in _ACTIVATIONS if wiring.at(f"{at}.{n}")), None
    )
    if up is None or last is None or activation is None:
        raise RequestError("this model's layers are built in a way that the lesson does not know")
    norm = wiring.at(f"{at}.norm")
    first = wiring.at(f"{at}.up")
    assert first is not None
    normed = wiring.maker(first)
    stream = wiring.maker(first if norm is None else norm)
    added = wiring.last_of(wiring.op(last).label, f"{at}.post_norm", f"{at}.scaled")
    assert added is not None
    return stream, normed, gate, up, activation, added


def after_attention(wiring: Wiring, layer: int) -> int:
    """The op that makes the residual between a layer's attention and its feed-forward."""
    at = f"layers.{layer}.feed_forward"
    norm = wiring.at(f"{at}.norm")
    first = norm if norm is not None else wiring.at(f"{at}.up")
    assert first is not None, at
    return wiring.maker(first)


def embedding_ops(wiring: Wiring) -> tuple[int, int | None, int]:
    """The op that reads the token's row, the one that reads its position's, and the last before
    the first layer."""
    row = wiring.at("embedding")
    if row is None:
        raise RequestError("this model's embedding is built in a way that the lesson does not know")
    last = wiring.last_of("embedding", "embedding.scaled", "embedding.placed")
    assert last is not None
    return row, wiring.at("positions"), last


def final_op(wiring: Wiring) -> int:
    """The op that makes what is multiplied to logits: behind the model's last norm."""
    plan = wiring.plan
    head = next(i for i in reversed(range(len(plan.ops))) if plan.ops[i].name == "matmul")
    return wiring.maker(head)


def weight_of(wiring: Wiring, op: int) -> tuple[int, ...]:
    """Shape of the weight that an op reads, () where it reads none."""
    tensors = (wiring.plan.tensors[i] for i in wiring.op(op).inputs)
    return next((t.shape for t in tensors if t.kind is Kind.WEIGHT), ())
