"""One head over keys: its scores, its softmax with and without the scale, its weighted sum."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from llm_lite.core.inspect.attention import cap
from llm_lite.core.messages.inspecting.lesson import MOST_VALUES, TokenScore
from llm_lite.core.plan.attention_layers import AttentionLayer
from llm_lite.core.plan.plan import Tensor

F32 = NDArray[np.float32]
ReadRows = Callable[[Tensor, range], F32]  # of a cache, at these positions: [positions, columns]
BLOCK = 512  # positions read together: of all heads of a layer, some 2 MB at most


class CachedKeys(Struct, frozen=True):
    """The keys and values of a layer, and the `visible` positions of them that a token at
    `position` sees. bias: float32 [heads, columns] that is added to scores by distance."""

    read: ReadRows
    layer: AttentionLayer
    keys: Tensor
    values: Tensor
    position: int
    visible: range
    bias: F32 | None = None

    def of_head(self, tensor: Tensor, head: int, positions: range) -> F32:
        """Return the head's part of rows, float32 [n, d]."""
        parts = [part for _, part in self.blocks(tensor, head, positions)]
        return np.concatenate(parts) if parts else np.zeros((0, self.layer.head_dim), np.float32)

    def blocks(self, tensor: Tensor, head: int, positions: range) -> Iterator[tuple[range, F32]]:
        """Yield some positions, and the head's part of their rows [n, d]."""
        group, d = head * self.layer.kv_heads // self.layer.heads, self.layer.head_dim
        for start in range(positions.start, positions.stop, BLOCK):
            rows = range(start, min(start + BLOCK, positions.stop))
            values = self.read(tensor, rows)
            yield rows, values[:, group * d : (group + 1) * d]

    def biases(self, head: int, positions: range) -> F32:
        """Return what is added to the scores of these positions, float32 [n]."""
        if self.bias is None:
            return np.zeros(len(positions), np.float32)
        columns = np.arange(positions.start, positions.stop) - self.position
        return self.bias[head, np.clip(columns + self.layer.bias_before, 0, self.bias.shape[1] - 1)]


class HeadView(Struct, frozen=True):
    """The attention of a head to the positions that it sees, from `first` on.

    dots, scores, probabilities, unscaled, biases: float32 [n]. `sink`, `sink_unscaled`: shares that
    go to no token.
    """

    first: int
    dots: F32
    scores: F32
    probabilities: F32
    unscaled: F32
    biases: F32
    sink: float
    sink_unscaled: float


def head_view(cached: CachedKeys, head: int, query: F32) -> HeadView:
    """Return the head's attention by `query` float32 [d], as it meets the keys."""
    layer, seen = cached.layer, cached.visible
    dots = np.empty(len(seen), np.float32)
    for rows, keys in cached.blocks(cached.keys, head, seen):
        dots[rows.start - seen.start : rows.stop - seen.start] = keys @ query
    biases = cached.biases(head, seen)
    scores, bare = dots * np.float32(layer.scale) + biases, dots + biases
    cap(scores, layer.softcap)
    cap(bare, layer.softcap)
    sink = layer.sink(head)
    probabilities, rest = _softmax(scores, sink)
    unscaled, bare_rest = _softmax(bare, sink)
    return HeadView(
        seen.start, dots, scores, probabilities, unscaled, biases, rest, bare_rest
    )  # fmt: skip


def liveliest(cached: CachedKeys, positions: range, queries: F32) -> int:
    """Return the head whose share of `positions` except the first, the last and the token's own is
    the largest, for queries float32 [heads, d]. Heads that find nothing attend to the ends of a
    text."""
    layer = cached.layer
    keys = cached.read(cached.keys, positions)
    keys = keys.reshape(len(positions), layer.kv_heads, layer.head_dim)
    found = np.zeros(layer.heads)
    for head in range(layer.heads):
        scores = keys[:, head * layer.kv_heads // layer.heads] @ queries[head]
        scores *= np.float32(layer.scale)
        scores += cached.biases(head, positions)
        cap(scores, layer.softcap)
        shares = _softmax(scores, layer.sink(head))[0]
        if not layer.cross and cached.position in positions:
            shares[cached.position - positions.start] = 0.0
        found[head] = shares[1:-1].sum()
    return int(found.argmax())


def _softmax(scores: F32, sink: float) -> tuple[F32, float]:
    """Return shares float32 [n], and the sink's."""
    most = max(float(scores.max()), sink)
    weights = np.exp(scores - np.float32(most))
    rest = math.exp(sink - most)
    whole = float(weights.sum(dtype=np.float64)) + rest
    return (weights / np.float32(whole)).astype(np.float32), rest / whole


def scores_of(view: HeadView, positions: range, keys: F32, values: F32) -> tuple[TokenScore, ...]:
    """Return the scores of the sentence at `positions`, which the head sees all."""
    columns = (view.dots, view.scores, view.probabilities, view.unscaled, view.biases)
    span = slice(positions.start - view.first, positions.stop - view.first)
    dots, scores, probabilities, unscaled, biases = (column[span].tolist() for column in columns)
    return tuple(
        TokenScore(
            position,
            dots[at],
            scores[at],
            probabilities[at],
            unscaled[at],
            tuple(keys[at, :MOST_VALUES].tolist()),
            tuple(values[at, :MOST_VALUES].tolist()),
            biases[at],
        )
        for at, position in enumerate(positions)
    )
