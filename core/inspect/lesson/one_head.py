"""One head over the cache: its scores, its softmax with and without the scale, its weighted sum."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from llm_lite.core.inspect.attention import cap
from llm_lite.core.inspect.inspected import InspectedSession
from llm_lite.core.messages.inspecting.lesson import MOST_VALUES, TokenScore
from llm_lite.core.plan.attention_layers import AttentionLayer
from llm_lite.core.plan.cache_layers import CacheLayer
from llm_lite.core.plan.plan import Tensor

F32 = NDArray[np.float32]
BLOCK = 512  # positions read together: of all heads of a layer, some 2 MB at most


@dataclass(frozen=True, slots=True)
class HeadView:
    """What the head makes of the positions that it sees, `first`..`position`.

    dots, scores, probabilities, unscaled: float32 [n]. `sink`, `sink_unscaled`: shares that go to
    no token.
    """

    first: int
    dots: F32
    scores: F32
    probabilities: F32
    unscaled: F32
    sink: float
    sink_unscaled: float


def look(
    session: InspectedSession, owner: CacheLayer, layer: AttentionLayer, head: int, position: int,
    query: F32,
) -> HeadView:  # fmt: skip
    """By the keys in the cache; `query` float32 [d], as it meets them."""
    first = max(0, position - layer.window + 1) if layer.window else 0
    dots = np.empty(position + 1 - first, np.float32)
    for rows, keys in _blocks(session, owner, owner.keys, layer, head, range(first, position + 1)):
        dots[rows.start - first : rows.stop - first] = keys @ query
    scores, bare = dots * np.float32(layer.scale), dots.copy()
    cap(scores, layer.softcap)
    cap(bare, layer.softcap)
    sink = layer.sink(head)
    probabilities, rest = _softmax(scores, sink)
    unscaled, bare_rest = _softmax(bare, sink)
    return HeadView(first, dots, scores, probabilities, unscaled, rest, bare_rest)


def liveliest(
    session: InspectedSession, owner: CacheLayer, layer: AttentionLayer, positions: range,
    queries: F32,
) -> int:  # fmt: skip
    """The head whose share of tokens but the first and the last of `positions` is the largest, of
    queries float32 [heads, d]. The first of a text is where heads rest that find nothing."""
    keys = session.cache.values(owner, owner.keys, positions)
    keys = keys.reshape(len(positions), layer.kv_heads, layer.head_dim)
    found = np.zeros(layer.heads)
    for head in range(layer.heads):
        scores = keys[:, head * layer.kv_heads // layer.heads] @ queries[head]
        scores *= np.float32(layer.scale)
        cap(scores, layer.softcap)
        found[head] = _softmax(scores, layer.sink(head))[0][1:-1].sum()
    return int(found.argmax())


def _softmax(scores: F32, sink: float) -> tuple[F32, float]:
    """Shares float32 [n], and the sink's."""
    most = max(float(scores.max()), sink)
    weights = np.exp(scores - np.float32(most))
    rest = math.exp(sink - most)
    whole = float(weights.sum(dtype=np.float64)) + rest
    return (weights / np.float32(whole)).astype(np.float32), rest / whole


def _blocks(
    session: InspectedSession, owner: CacheLayer, tensor: Tensor, layer: AttentionLayer, head: int,
    positions: range,
) -> Iterator[tuple[range, F32]]:  # fmt: skip
    """Some positions, and the head's part of their rows [n, d]."""
    group, d = head * layer.kv_heads // layer.heads, layer.head_dim
    for start in range(positions.start, positions.stop, BLOCK):
        rows = range(start, min(start + BLOCK, positions.stop))
        values = session.cache.values(owner, tensor, rows)
        yield rows, values[:, group * d : (group + 1) * d]


def rows_of(
    session: InspectedSession, owner: CacheLayer, tensor: Tensor, layer: AttentionLayer, head: int,
    positions: range,
) -> F32:  # fmt: skip
    """The head's part of the cache's rows, float32 [n, d]."""
    parts = [part for _, part in _blocks(session, owner, tensor, layer, head, positions)]
    return np.concatenate(parts) if parts else np.zeros((0, layer.head_dim), np.float32)


def scores_of(view: HeadView, positions: range, keys: F32, values: F32) -> tuple[TokenScore, ...]:
    """Of the sentence at `positions`, all of which the head sees."""
    columns = (view.dots, view.scores, view.probabilities, view.unscaled)
    span = slice(positions.start - view.first, positions.stop - view.first)
    dots, scores, probabilities, unscaled = (column[span].tolist() for column in columns)
    return tuple(
        TokenScore(
            position,
            dots[at],
            scores[at],
            probabilities[at],
            unscaled[at],
            tuple(keys[at, :MOST_VALUES].tolist()),
            tuple(values[at, :MOST_VALUES].tolist()),
        )
        for at, position in enumerate(positions)
    )
