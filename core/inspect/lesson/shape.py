"""What of a model stands in the lesson's formulas, read off its plan."""

from __future__ import annotations

from typing import TypedDict

from llm_lite.core.inspect.inspected import InspectedSession
from llm_lite.core.inspect.lesson import wiring
from llm_lite.core.inspect.lesson.wiring import LayerOps, Wiring
from llm_lite.core.messages.inspecting.lesson import Gate, Norm, Positions, TracedShape
from llm_lite.core.plan.attention_layers import AttentionLayer
from llm_lite.core.plan.plan import tensor_row_bytes

_NORMS: dict[str, Norm] = {"rms_norm": "rms", "layer_norm": "layer"}
_GATES: dict[str, Gate] = {"silu_mul": "silu", "gelu_mul": "gelu", "gelu": "none"}


def traced_shape(
    session: InspectedSession, wires: Wiring, ops: LayerOps, layer: AttentionLayer
) -> TracedShape:
    plan, program = wires.plan, session.executor.program
    at = wires.op(ops.heads).label.removesuffix(".heads")
    norm = wires.at(f"{at}.norm")
    kept = [tensor for owner in session.cache.layers for tensor in owner.tensors]
    place = wiring.embedding_ops(wires)[1]
    logits = wires.op(len(plan.ops) - 1)
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
        positions=_positions(wires, at),
        **_rotary(wires, at),
        scale=layer.scale,
        softcap=layer.softcap,
        window=layer.window,
        gate=_GATES[wires.op(ops.activation).name],
        logit_cap=logits.params["cap"] if logits.name == "softcap" else 0.0,
        cache_bytes=sum(map(tensor_row_bytes, kept)),
        cache_layers=len(session.cache.layers),
        cache_values=sum(tensor.shape[1] for tensor in kept),
        places=0 if place is None else wiring.weight_of(wires, place)[0],
        embedding_factor=_factor(wires, "embedding.scaled"),
        residual_factor=_factor(wires, f"{at}.scaled"),
    )


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


def _positions(wires: Wiring, at: str) -> Positions:
    if wires.at(f"{at}.q_rope") is not None:
        return "rotary"
    learned = wiring.embedding_ops(wires)[1] is not None
    return "learned" if learned else "none"
