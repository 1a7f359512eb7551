"""The caches of keys and values: found in a plan's ops, whatever the model."""

from __future__ import annotations

from msgspec import Struct

from llm_lite.core.messages import CacheLayerInfo, CacheLayout, KvType
from llm_lite.core.plan.attention_layers import DRAFT
from llm_lite.core.plan.plan import Plan, Program, Tensor, tensor_row_bytes
from llm_lite.core.plan.step import PAGE


class CacheLayer(Struct, frozen=True):
    """A layer that owns a cache. Position p lies in row p mod `rows` of both tensors."""

    layer: int
    shared_with: tuple[int, ...]  # layers that read it too
    keys: Tensor
    values: Tensor
    window: int  # positions that its attention reaches back, its own among them; 0: all
    kv_heads: int

    @property
    def rows(self) -> int:
        return self.keys.ring_rows

    @property
    def tensors(self) -> tuple[Tensor, Tensor]:
        return self.keys, self.values


def cache_layers(plan: Plan) -> tuple[CacheLayer, ...]:
    """Return the caches in the order of the layers that own them; of layers that share one, the
    first owns it."""
    found: dict[str, CacheLayer] = {}
    for op in plan.ops:
        if op.name != "attention" or op.params["cross"]:  # an encoder's keys are no cache
            continue
        keys, values = (plan.tensors[i] for i in op.inputs[1:3])
        layer, window = int(op.params["layer"]), int(op.params["window"])
        kv_heads = int(op.params["kv_heads"])
        owner = found.get(keys.name)
        if owner is None:
            found[keys.name] = CacheLayer(layer, (), keys, values, window, kv_heads)
        else:
            shared = (*owner.shared_with, layer)
            widest = max(owner.window, window) if owner.window and window else 0
            found[keys.name] = CacheLayer(owner.layer, shared, keys, values, widest, kv_heads)
    return tuple(found.values())


def stored_layers(plan: Plan) -> tuple[CacheLayer, ...]:
    """Return `cache_layers`, and behind them what a step stores for the block that drafts."""
    layers = cache_layers(plan)
    drafts = [t for t in plan.tensors if t.name in (f"k_cache.{DRAFT}", f"v_cache.{DRAFT}")]
    if not drafts:
        return layers
    keys, values = drafts
    return *layers, CacheLayer(len(plan.layer_ends), (), keys, values, 0, layers[0].kv_heads)


def cache_bytes(plan: Plan) -> int:
    """Return the bytes of all caches of the plan."""
    tensors = [t for layer in stored_layers(plan) for t in layer.tensors]
    return sum(t.shape[0] * tensor_row_bytes(t) for t in tensors)


def cache_layout(program: Program, keys: KvType, values: KvType) -> CacheLayout:
    plan = program.plans[0]
    stored = tuple(
        CacheLayerInfo(
            owner.layer,
            owner.shared_with,
            owner.rows,
            owner.window,
            tensor_row_bytes(owner.keys),
            tensor_row_bytes(owner.values),
            owner.kv_heads,
        )
        for owner in stored_layers(plan)
    )
    seen, page = len(cache_layers(plan)), PAGE if program.pages else 1
    layers, drafts = stored[:seen], stored[seen:]
    return CacheLayout(layers, keys, values, cache_bytes(plan), page, drafts)
