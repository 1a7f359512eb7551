"""What of a model stands in the lesson's formulas, read off its plan."""

from __future__ import annotations

from typing import TypedDict

from llm_lite.core.inspect.lesson import wiring
from llm_lite.core.inspect.lesson.wiring import LayerOps, Wiring
from llm_lite.core.messages.inspecting.lesson import Curve, Gate, Norm, Positions, TracedShape
from llm_lite.core.plan.attention_layers import AttentionLayer
from llm_lite.core.plan.cache_layers import cache_layers
from llm_lite.core.plan.plan import Program, tensor_row_bytes
from llm_lite.core.quant.modes import MADE

_NORMS: dict[str, Norm] = {"rms_norm": "rms", "layer_norm": "layer"}
_GATES: dict[str, Gate] = {"silu_mul": "silu", "gelu_mul": "gelu"}
_CURVES: dict[str, Curve] = {
    "silu_mul": "silu", "silu": "silu", "gelu_mul": "gelu", "gelu": "gelu", "gelu_erf": "gelu",
    "relu": "relu",
}  # fmt: skip


def traced_shape(
    program: Program, wires: Wiring, ops: LayerOps, layer: AttentionLayer
) -> TracedShape:
    """`program`: its caches are what the model keeps of a position."""
    plan = wires.plan
    at = wires.op(ops.heads).label.removesuffix(".heads")
    norm = wires.at(f"{at}.norm")
    owners = cache_layers(plan)
    kept = [tensor for owner in owners for tensor in owner.tensors]
    embedding = wiring.embedding_ops(wires)
    logits = wires.op(len(plan.ops) - 1)
    activation = wires.op(ops.activation).name
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
        cache_bytes=sum(map(tensor_row_bytes, kept)),
        cache_layers=len(owners),
        cache_values=sum(tensor.shape[1] for tensor in kept),
        places=_rows_of(wires, embedding.place),
        embedding_factor=_factor(wires, "embedding.scaled"),
        residual_factor=_factor(wires, f"{at}.scaled"),
        norm_behind=ops.attention_sum is not None,
        final_norm=wires.at("output.norm") is not None,
        curve=_CURVES[activation],
        segments=_rows_of(wires, embedding.segment),
        embedding_norm=embedding.sum is not None,
    )


def _rows_of(wires: Wiring, op: int | None) -> int:
    """Of the table that an op reads; 0 where there is no op."""
    return 0 if op is None else wiring.weight_of(wires, op)[0]


def _factor(wires: Wiring, label: str) -> float:
    op = wires.at(label)
    return 1.0 if op is None else wires.op(op).params["factor"]


class _Rotary(TypedDict):
    rotary_dim: int
    half_split: bool
    theta: float


def _rotary(wires: Wiring, at: str) -> _Rotary:
    turns = wires.at(f"{at}.q_rope")
    if turns is None:
        return _Rotary(rotary_dim=0, half_split=False, theta=0.0)
    params = wires.op(turns).params
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
