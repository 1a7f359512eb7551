"""Rows of state tensors through whatever memory an executor keeps them in."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from core.exec.executor import Executor
from core.exec.reference import rope
from core.plan.cache_layers import cache_layers, tensor_row_bytes
from core.plan.plan import Op, Plan, Tensor

Bytes = NDArray[np.uint8]
_FLOATS = {"f16": np.float16, "f32": np.float32}


def read_state(executor: Executor, name: str, first: int, count: int) -> Bytes:
    """A copy of rows of a state tensor, uint8 [count, bytes of a row]."""
    tensor = _tensor(executor, name)
    size = tensor_row_bytes(tensor)
    host = executor.host_state(name)
    if host is not None:
        return _bytes(host)[first : first + count].copy()
    place = executor.device_state(name)
    assert place is not None, name
    buffer, offset, _ = place
    return buffer.download(offset + first * size, count * size).reshape(count, size)


def write_state(executor: Executor, name: str, first: int, rows: Bytes) -> None:
    host = executor.host_state(name)
    if host is not None:
        _bytes(host)[first : first + len(rows)] = rows
        return
    place = executor.device_state(name)
    assert place is not None, name
    buffer, offset, _ = place
    buffer.upload(np.ascontiguousarray(rows), offset + first * rows.shape[1])


def shift_state(executor: Executor, keep: int, drop: int, length: int) -> None:
    """Forget positions keep..keep+drop-1 of every cache: those behind, up to length-1, move down
    by `drop`, and keys are turned back by as much as rope turned them for it."""
    plan = executor.program.plans[0]
    first, count = keep + drop, length - keep - drop
    if count <= 0:
        return
    for layer in cache_layers(plan):
        for tensor in layer.tensors:
            rows = read_state(executor, tensor.name, first, count)
            if tensor is layer.keys and (turn := _rope_of(plan, tensor)) is not None:
                rows = _turned(rows, tensor, turn, drop)
            write_state(executor, tensor.name, keep, rows)


def _turned(rows: Bytes, tensor: Tensor, turn: Op, drop: int) -> Bytes:
    kind = _FLOATS[tensor.dtype]
    p = turn.params
    keys = rope(
        rows.view(kind).astype(np.float32),
        None,
        np.full(len(rows), -drop, np.int32),
        head_dim=int(p["head_dim"]),
        rotary_dim=int(p["rotary_dim"]),
        theta=p["theta"],
        scale=p["scale"],
        half_split=bool(p["half_split"]),
    )
    return keys.astype(kind).view(np.uint8).reshape(rows.shape)


def _rope_of(plan: Plan, keys: Tensor) -> Op | None:
    """The op that turned what is stored in this cache."""
    stored = next(o for o in plan.ops if o.name == "kv_store" and o.outputs[0] == keys.id)
    made = {o.outputs[0]: o for o in plan.ops if o.outputs}[stored.inputs[0]]
    return made if made.name == "rope" else None


def _bytes(memory: NDArray[Any]) -> Bytes:
    """The memory itself, uint8 [rows, bytes of a row]."""
    return memory.view(np.uint8).reshape(len(memory), -1)


def _tensor(executor: Executor, name: str) -> Tensor:
    return next(t for t in executor.program.plans[0].tensors if t.name == name)
