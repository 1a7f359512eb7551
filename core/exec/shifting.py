"""Forgets a part of what the caches hold: the positions behind it move down and are rotated back.

Keys are stored rotated by their positions (Su et al. 2021); a key that was rotated by p, rotated by
-n, is the key at p - n, so attention between the positions that stay is as it was. A bias by
distance needs no rotation. A position that was added to the embedding is in every key, and stays.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from llm_lite.core.errors import UnsupportedError
from llm_lite.core.exec.executor import Executor
from llm_lite.core.exec.reference import query_temperature, rope
from llm_lite.core.plan.ops import STATEFUL
from llm_lite.core.plan.plan import Op, Plan, Tensor
from llm_lite.core.quant import rows
from llm_lite.core.quant.tensor import TensorData


class _Stored(Struct, frozen=True):
    """A state tensor [C, columns] with position p in row p mod C."""

    tensor: Tensor
    rotation: Op | None  # the rope that its rows went through


def fixed_positions(plan: Plan) -> str:
    """Return a sentence on why positions of the plan's caches cannot move down; "" if they can."""
    if any(op.name == "position_rows" for op in plan.ops):
        return (
            "nothing can be forgotten in the middle of a text: positions are a part of the model's "
            "embedding, so what lies behind cannot move down"
        )
    if any(op.name == "attention" and op.params["bidirectional"] for op in plan.ops):
        return "nothing can be forgotten in the middle of a text: each token has seen all others"
    if any(op.name in STATEFUL for op in plan.ops):
        return (
            "nothing can be forgotten in the middle of a text: no token can be taken out of a "
            "recurrent state"
        )
    if _norms_rotated_keys(plan):
        return (
            "nothing can be forgotten in the middle of a text: keys are normed once they are "
            "rotated, so they cannot be rotated to another position"
        )
    return ""


def _norms_rotated_keys(plan: Plan) -> bool:
    maker = {tensor: op for op in plan.ops for tensor in op.outputs}
    stored = [maker[tensor] for op in plan.ops if op.name == "store" for tensor in op.inputs]
    norms = [op for op in stored if op.name in ("rms_norm", "layer_norm")]
    return any(maker[op.inputs[0]].name == "rope" for op in norms)


def shift(
    executor: Executor,
    weights: Mapping[str, TensorData],
    *,
    keep: int,
    drop: int,
    length: int,
) -> None:
    """Forget positions keep .. keep + drop - 1 of all caches and query rings, which hold `length`.

    Positions behind move down by `drop`, computed in float32 and rounded as they are stored.
    `weights`: for ropes with factors. Not while a step runs. UnsupportedError where positions
    cannot move.
    """
    plan = executor.program.plans[0]
    if problem := fixed_positions(plan):
        raise UnsupportedError(problem)
    for stored in _stored(plan):
        count = stored.tensor.ring_rows
        old = np.arange(max(keep + drop, length - count), length)
        data = _gather(executor, stored.tensor, old % count)
        if stored.rotation is not None:
            data = _rotated_rows(plan, stored, weights, data, old, -drop)
        _scatter(executor, stored.tensor, (old - drop) % count, data)


def _stored(plan: Plan) -> list[_Stored]:
    makers = {out: op for op in plan.ops for out in op.outputs}
    found = []
    for op in plan.ops:
        if op.name == "store":
            for source, target in zip(op.inputs, op.outputs, strict=True):
                maker = makers.get(source)
                rotation = maker if maker is not None and maker.name == "rope" else None
                found.append(_Stored(plan.tensors[target], rotation))
    return found


def _rotated_rows(
    plan: Plan,
    stored: _Stored,
    weights: Mapping[str, TensorData],
    data: NDArray[np.uint8],
    positions: NDArray[np.int64],
    by: int,
) -> NDArray[np.uint8]:
    op, tensor = stored.rotation, stored.tensor
    assert op is not None
    values = rows.decode(data, tensor.dtype, tensor.shape[1], tensor.block)
    factors = weights[plan.tensors[op.inputs[1]].name].dequantize() if len(op.inputs) > 1 else None
    rotated = rope(
        values,
        factors,
        np.array([by], np.int32),  # one angle for all rows
        head_dim=int(op.params["head_dim"]),
        rotary_dim=int(op.params["rotary_dim"]),
        theta=op.params["theta"],
        scale=op.params["scale"],
        half_split=bool(op.params["half_split"]),
    )
    if temperature := op.params["temperature"]:
        length = int(op.params["temperature_length"])
        before, after = (
            query_temperature(p, temperature, length) for p in (positions, positions + by)
        )
        rotated *= (after / before)[:, None]
    return rows.encode(rotated, tensor.dtype, tensor.block)


def _gather(executor: Executor, tensor: Tensor, places: NDArray[np.int64]) -> NDArray[np.uint8]:
    parts = [executor.read_state(tensor.name, first, count) for first, count in _runs(places)]
    return np.concatenate(parts) if parts else executor.read_state(tensor.name, 0, 0)


def _scatter(
    executor: Executor, tensor: Tensor, places: NDArray[np.int64], data: NDArray[np.uint8]
) -> None:
    at = 0
    for first, count in _runs(places):
        executor.write_state(tensor.name, first, data[at : at + count])
        at += count


def _runs(places: NDArray[np.int64]) -> list[tuple[int, int]]:
    """Return the runs (first, count) of consecutive places."""
    if not len(places):
        return []
    breaks = np.flatnonzero(np.diff(places) != 1) + 1
    return [(int(part[0]), len(part)) for part in np.split(places, breaks)]
