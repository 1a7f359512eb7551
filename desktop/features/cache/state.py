"""The state of the key and value cache: whose each position is, when it was computed, what was
measured of it, what of the conversation the model no longer sees.

Positions are those of the cache, tokens those of the full conversation; the two are the same until
something is forgotten.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Literal

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from llm_lite.core.messages import (
    CacheLayerInfo,
    CacheLayout,
    CacheMeasured,
    CacheStatus,
    KvType,
    Measure,
    MeasureCache,
    PromptToken,
)
from llm_lite.core.records import replace

ColorBy = Literal["owner", "key-norm", "value-norm", "received", "age"]
Spans = tuple[tuple[int, int], ...]  # first..last-1
# Pairs of a token and the number of its computation: both count on from there.
ComputedRuns = tuple[tuple[int, int], ...]
WARN, ALARM = 0.80, 0.95  # shares of the context from which its end is announced


class MeasuredCache(Struct, frozen=True, eq=False):
    """Numbers of the positions from 0 on, nan where there is none."""

    what: Measure
    values: NDArray[np.float32]  # [layers that own a cache, positions]


class CacheState(Struct, frozen=True):
    """`all_owners` has the owners of the full conversation where something of it was forgotten;
    `reused`, `made` and `forgotten` count its tokens, not positions."""

    by: ColorBy = "owner"
    slots: bool = False  # columns are places in memory, not positions
    pointed: int | None = None  # position under the pointer
    status: CacheStatus | None = None
    prompt: tuple[PromptToken, ...] = ()  # by position, up to what was decoded since
    reused: int = 0  # first tokens, that the last answer found computed
    made: ComputedRuns = ()
    computed: int = 0  # tokens so far, in all
    all_owners: tuple[int, ...] = ()
    forgotten: Spans = ()
    measured: MeasuredCache | None = None
    asked: MeasureCache | None = None  # and not answered yet
    problem: str = ""  # why there is no measurement
    turns: tuple[int, ...] = ()  # tokens of each whole turn

    def of_next_conversation(self) -> CacheState:
        """`status` says what the cache holds, whosever it is."""
        return CacheState(self.by, self.slots, status=self.status, computed=self.computed)

    def of_next_model(self) -> CacheState:
        return CacheState(self.by, self.slots)

    def first(self, positions: int, all_owners: tuple[int, ...]) -> CacheState:
        """Keep the first positions alone: the conversation is another one behind them."""
        tokens = len(all_owners) or positions
        return replace(
            self,
            pointed=None,
            prompt=self.prompt[:positions],
            reused=min(self.reused, tokens),
            made=tuple((first, number) for first, number in self.made if first < tokens),
            all_owners=all_owners,
            measured=_first(self.measured, positions),
            asked=None,
        )


def started(
    cache: CacheState, prompt: tuple[PromptToken, ...], reused: int, tokens: int
) -> CacheState:
    """Begin an answer to a prompt of so many `tokens`, whose `reused` first positions were
    there."""
    reused = _token(cache, reused - 1) + 1 if reused else 0
    kept = tuple((first, number) for first, number in cache.made if first < reused)
    fresh = ((reused, cache.computed),) if tokens > reused else ()
    return replace(
        cache,
        prompt=prompt,
        reused=reused,
        made=(*kept, *fresh),
        computed=cache.computed + tokens - reused,
        all_owners=(),
        forgotten=(),
        measured=_first(cache.measured, reused),
    )


def decoded(cache: CacheState, position: int, owner: int, count: int = 1) -> CacheState:
    """Count tokens that were computed from `position` on."""
    made, token = cache.made, position + _gone(cache)
    if not made or made[-1][1] + token - made[-1][0] != cache.computed:
        made = (*made, (token, cache.computed))
    all_owners = (*cache.all_owners, *[owner] * count) if cache.forgotten else ()
    return replace(cache, made=made, computed=cache.computed + count, all_owners=all_owners)


def rewritten(
    cache: CacheState, prompt: tuple[PromptToken, ...], forgotten: Spans, owners: tuple[int, ...]
) -> CacheState:
    """Something was forgotten; `owners` are those of the positions before."""
    all_owners = cache.all_owners or owners
    return replace(cache, prompt=prompt, all_owners=all_owners, forgotten=forgotten, measured=None)


def measured(cache: CacheState, event: CacheMeasured) -> CacheState:
    """Add a measurement to what was known before it."""
    values = np.array(event.values, np.float32).reshape(len(event.values), -1)
    known = cache.measured
    if event.first and known and known.what == event.what:
        values = np.concatenate([known.values[:, : event.first], values], axis=1)
    return replace(cache, measured=MeasuredCache(event.what, values))


def _first(known: MeasuredCache | None, count: int) -> MeasuredCache | None:
    """Keep norms of the first positions; what was received depends on all that attend."""
    if known is None or known.what == "received":
        return None
    return replace(known, values=known.values[:, :count])


def _token(cache: CacheState, position: int) -> int:
    """Return which token of the full conversation is at a position."""
    for first, last in cache.forgotten:
        position += last - first if position >= first else 0
    return position


def _gone(cache: CacheState) -> int:
    return sum(last - first for first, last in cache.forgotten)


def reused_positions(cache: CacheState) -> int:
    """Return how many first positions the last answer found computed."""
    gone = (max(0, min(last, cache.reused) - first) for first, last in cache.forgotten)
    return cache.reused - sum(gone)


def serials(cache: CacheState, positions: int) -> NDArray[np.int64]:
    """Return the number of the computation that made each of the first `positions` positions."""
    count = positions + _gone(cache)
    numbers, held = np.arange(count), np.ones(count, bool)
    for first, number in cache.made:
        numbers[first:] = np.arange(number, number + max(count - first, 0))
    for first, last in cache.forgotten:
        held[first:last] = False
    return numbers[held][:positions]


def age(cache: CacheState, position: int) -> int:
    """Return how many tokens were computed since that position was."""
    token = _token(cache, position)
    index = bisect_right(cache.made, (token, 1 << 62)) - 1
    first, number = cache.made[index] if index >= 0 else (0, 0)
    return max(0, cache.computed - 1 - (number + token - first))


def unseen(cache: CacheState) -> dict[int, tuple[int, int]]:
    """Return counts of forgotten and of all tokens, by each message that lost some."""
    found: dict[int, list[int]] = {}
    if not cache.forgotten:
        return {}
    gone = np.zeros(len(cache.all_owners), bool)
    for first, last in cache.forgotten:
        gone[first:last] = True
    owners = np.array(cache.all_owners)
    for owner in np.unique(owners[gone]).tolist():
        if owner >= 0:
            mine = owners == owner
            found[owner] = [int((gone & mine).sum()), int(mine.sum())]
    return {owner: (lost, whole) for owner, (lost, whole) in found.items()}


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
