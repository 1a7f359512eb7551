"""The memory that a step reads: weights in their formats, caches as far as attention reaches."""

from __future__ import annotations

import math
from collections.abc import Iterable

from llm_lite.core.plan.cache_layers import cache_layers
from llm_lite.core.plan.expert_layers import expert_layers
from llm_lite.core.plan.plan import Kind, Op, Plan, Tensor, tensor_row_bytes
from llm_lite.core.plan.step import Step
from llm_lite.core.quant.formats import FORMATS
from llm_lite.core.records import replace

_FROM_FILE = (Kind.WEIGHT, Kind.TABLE)
_LOOKUPS = (
    "embed",
    "table_rows",
    "position_rows",
    "type_rows",
)  # ops that read a row a token of their weights


def token_read_bytes(plan: Plan, cached_tokens: int, source: int = 0) -> int:
    """Return the bytes that a decoded token must read behind `cached_tokens` positions, with a
    source of `source`.

    What several ops share counts once; a weight of a product counts whole, even where it is the
    embedding too.
    """
    layers = cache_layers(plan)
    cached = sum(_reached_bytes(layer.tensors, cached_tokens, layer.window) for layer in layers)
    crossed = (op for op in plan.ops if op.name == "attention" and op.params["cross"])
    cached += sum(_reached_bytes(_caches(plan, op), source, 0) for op in crossed)
    return _weight_bytes(plan) + cached + sum(_state_bytes(plan, op) for op in plan.ops)


def active_bytes(plan: Plan) -> int:
    """Return the bytes that a token reads behind no others, where it chooses among experts; 0 for a
    dense model."""
    return token_read_bytes(plan, 0) if expert_layers(plan) else 0


def op_read_bytes(plan: Plan, op: Op, step: Step) -> int:
    """Return the bytes that one op reads in a step, also where other ops read the same."""
    total = 0
    for weight in _used(plan, op, step.count):
        rows = min(step.count, weight.shape[0]) if op.name in _LOOKUPS else None
        total += _rows_bytes(weight, rows)
    if op.name == "attention":
        seen = step.source if op.params["cross"] else step.kv_length
        total += _reached_bytes(_caches(plan, op), seen, int(op.params["window"]))
    return total + _state_bytes(plan, op)


def _state_bytes(plan: Plan, op: Op) -> int:
    """Return the bytes of the recurrent state that an op reads for a sequence; 0 without one."""
    if op.name == "causal_conv":
        return (int(op.params["taps"]) - 1) * tensor_row_bytes(plan.tensors[op.outputs[1]])
    if op.name == "delta_rule":
        rows = int(op.params["heads"]) * int(op.params["key_dim"])
        return rows * tensor_row_bytes(plan.tensors[op.outputs[1]])
    return 0


def _caches(plan: Plan, attention: Op) -> list[Tensor]:
    return [plan.tensors[i] for i in attention.inputs[1:3]]


def _weight_bytes(plan: Plan) -> int:
    whole, rows = dict[int, Tensor](), dict[int, Tensor]()
    for op in plan.ops:
        found = rows if op.name in _LOOKUPS else whole
        found.update((weight.id, weight) for weight in _used(plan, op))
    total = sum(_rows_bytes(weight, None) for weight in whole.values())
    return total + sum(_rows_bytes(weight, 1) for i, weight in rows.items() if i not in whole)


def _used(plan: Plan, op: Op, tokens: int = 1) -> list[Tensor]:
    """Return the op's weights as far as read: a product may use the first rows and columns, and
    that of experts those of so many as `tokens` choose, each another one at most."""
    weights = _weights(plan, op)
    if op.name == "expert_matmul":
        experts = plan.tensors[op.inputs[2]].shape[1] - 1
        chosen = min(experts, tokens * plan.tensors[op.inputs[0]].per_token)
        shapes = ((w.shape[0] // experts * chosen, w.shape[1]) for w in weights)
        return [replace(w, shape=shape) for w, shape in zip(weights, shapes, strict=True)]
    if op.name != "matmul":
        return weights
    inputs, outputs = plan.tensors[op.inputs[0]].shape[1], plan.tensors[op.outputs[0]].shape[1]
    return [replace(weight, shape=(outputs, inputs)) for weight in weights]


def _weights(plan: Plan, op: Op) -> list[Tensor]:
    inputs = (plan.tensors[i] for i in op.given)
    return [tensor for tensor in inputs if tensor.kind in _FROM_FILE]


def _rows_bytes(weight: Tensor, rows: int | None) -> int:
    """Return the bytes of `rows` rows, None: of all; a row of a tile is its share of the tile."""
    form, columns = FORMATS[weight.dtype], weight.shape[-1]
    count = math.prod(weight.shape[:-1]) if rows is None else rows
    return count * form.nbytes((form.tile_rows, columns)) // form.tile_rows


def _reached_bytes(caches: Iterable[Tensor], positions: int, window: int) -> int:
    reached = min(positions, window or positions)
    return reached * sum(tensor_row_bytes(cache) for cache in caches)
