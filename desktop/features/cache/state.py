"""The choices of the view of the key and value cache, and sizes of caches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from llm_lite.core.messages import (
    CacheLayerInfo,
    CacheLayout,
    CacheStatus,
    KvType,
    Measure,
)
from llm_lite.core.records import replace

ColorBy = Literal["owner", "key-norm", "value-norm", "received", "age"]
WARN, ALARM = 0.80, 0.95  # shares of the context from which its end is announced


class MeasuredCache(Struct, frozen=True, eq=False):
    """Numbers of the positions from 0 on, nan where there is none."""

    what: Measure
    values: NDArray[np.float32]  # [layers that own a cache, positions]


class CacheState(Struct, frozen=True):
    by: ColorBy = "owner"
    slots: bool = False  # columns are places in memory, not positions
    pointed: int | None = None  # position under the pointer
    status: CacheStatus | None = None

    def of_next_conversation(self) -> CacheState:
        """`status` says what the cache holds, whosever it is."""
        return CacheState(self.by, self.slots, status=self.status)

    def of_next_model(self) -> CacheState:
        return CacheState(self.by, self.slots)


def held(layer: CacheLayerInfo, length: int) -> int:
    """Return how many positions a layer keeps of a cache of this length."""
    return min(length, layer.rows)


def layer_bytes(layer: CacheLayerInfo) -> int:
    """Return the bytes of one position."""
    return layer.key_row_bytes + layer.value_row_bytes


def used_bytes(layout: CacheLayout, length: int) -> int:
    return sum(held(layer, length) * layer_bytes(layer) for layer in layout.stored)


def reserved_bytes(layers: Sequence[CacheLayerInfo]) -> int:
    return sum(layer.rows * layer_bytes(layer) for layer in layers)


def row_bytes(before: int, was: KvType, kind: KvType, heads: int) -> int:
    """Convert the bytes of a row from one type to another; int8 and int4 have a float16 scale for
    each head, and fill whole words."""
    scales = -(-2 * heads // 4) * 4
    bits: dict[KvType, int] = {"fp16": 16, "fp32": 32, "int8": 8, "int4": 4}
    scaled: tuple[KvType, ...] = ("int8", "int4")
    numbers = 8 * (before - (scales if was in scaled else 0)) // bits[was]
    return numbers * bits[kind] // 8 + (scales if kind in scaled else 0)


def retyped(layout: CacheLayout, heads: int, keys: KvType, values: KvType) -> CacheLayout:
    """Return the layout of the same layers with other types of keys and values; `heads` is used
    where a layer does not give its number of them."""
    layers = []
    for layer in layout.stored:
        count = layer.kv_heads or heads
        key_row = row_bytes(layer.key_row_bytes, layout.keys, keys, count)
        value_row = row_bytes(layer.value_row_bytes, layout.values, values, count)
        layers.append(replace(layer, key_row_bytes=key_row, value_row_bytes=value_row))
    seen, reserved = len(layout.layers), reserved_bytes(layers)
    own, drafts = tuple(layers[:seen]), tuple(layers[seen:])
    return CacheLayout(own, keys, values, reserved, layout.page, drafts)
