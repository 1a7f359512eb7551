"""The tensors that attention maps are computed from: found in a plan's ops, for any model."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from msgspec import Struct

from llm_lite.core.plan.ops import STATEFUL
from llm_lite.core.plan.plan import LEFT_OUT, Plan

DRAFT = "draft"  # in names, in the place of a layer's number: the block that drafts
HEAD_GAINS = "head_gains"  # state f32 [slots * layers, heads]; 1: untouched, 0: ablated


def cross_states(layer: int) -> tuple[str, str]:
    """Return the names of the states that hold an encoder's keys and values for a layer of its
    decoder."""
    return f"cross_k.{layer}", f"cross_v.{layer}"


class AttentionLayer(Struct, frozen=True):
    """One attention op; a head's map is softmax(q . k * scale) over positions up to each row's,
    with a `softcap` softmax(softcap * tanh(q . k * scale / softcap)). Its sink is one score more,
    whose share is not shown. A bias by distance is added to q . k * scale, as the op says."""

    queries: str | None  # state [R, heads*head_dim], position p in row p mod R; None: not kept
    keys: str  # state [C, kv_heads*head_dim], position p in row p mod C
    heads: int
    kv_heads: int
    head_dim: int
    scale: float
    window: int  # 0: all positions
    key_dtype: str = "f32"  # "f32", "f16", "i8" or "i4"
    key_rows: int = 0  # C; below the context in a ring
    softcap: float = 0.0  # 0: none
    sinks: tuple[float, ...] = ()  # of each head; (): none
    bias: str | None = None  # weight [heads, columns]
    bias_before: int = 0  # its column for a distance of 0
    bidirectional: bool = False  # rows see all positions of their sequence
    cross: bool = False  # rows see all positions of the source, whose keys an encoder left

    @property
    def attends(self) -> bool:
        """Return False for a layer that has a recurrent state instead."""
        return self.heads > 0

    @property
    def is_causal(self) -> bool:
        """Return True if rows see no position behind their own."""
        return not (self.bidirectional or self.cross)

    def sink(self, head: int) -> float:
        return self.sinks[head] if self.sinks else -math.inf


# In place of a layer that does not attend: it has no heads whose maps there are.
RECURRENT = AttentionLayer(None, "", heads=0, kv_heads=1, head_dim=1, scale=1.0, window=0)


def attention_layers(
    plan: Plan, vector: Callable[[str], Sequence[float]] = lambda name: ()
) -> tuple[AttentionLayer, ...]:
    """Return the attention layers in the order of their numbers: self-attention layer by layer,
    then cross-attention. Layers that share a cache name the same keys; those with a recurrent state
    are RECURRENT. `vector`: the values of a weight; without it sinks are left out."""
    layers: list[tuple[int, AttentionLayer]] = []
    stored: dict[int, str] = {}  # where a tensor's rows are kept
    for op in plan.ops:
        if op.name == "store":
            kept = [plan.tensors[i].name for i in op.outputs]
            stored |= dict(zip(op.inputs, kept, strict=True))
        elif op.name == "attention":
            keys = plan.tensors[op.inputs[1]]
            more = (plan.tensors[i].name if i != LEFT_OUT else None for i in op.inputs[4:])
            sinks, bias = (*more, None, None)[:2]
            layer = AttentionLayer(
                queries=stored.get(op.inputs[0]),
                keys=keys.name,
                heads=int(op.params["heads"]),
                kv_heads=int(op.params["kv_heads"]),
                head_dim=int(op.params["head_dim"]),
                scale=op.params["scale"],
                window=int(op.params["window"]),
                key_dtype=keys.dtype,
                key_rows=keys.ring_rows,
                softcap=op.params["softcap"],
                sinks=tuple(vector(sinks)) if sinks else (),
                bias=bias,
                bias_before=int(op.params["bias_before"]),
                bidirectional=bool(op.params["bidirectional"]),
                cross=bool(op.params["cross"]),
            )
            layers.append((int(op.params["layer"]), layer))
    if any(op.name in STATEFUL for op in plan.ops):
        known = {number for number, _ in layers}
        layers += [(i, RECURRENT) for i in range(len(plan.layer_ends)) if i not in known]
    return tuple(layer for _, layer in sorted(layers, key=lambda each: each[0]))
