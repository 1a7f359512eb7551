"""The attention from one token to others, or from others to it: rows and columns of maps, by
themselves or through all layers.

They are computed from the queries and keys that the running model keeps; on its thread, not while a
step runs.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from llm_lite.core.errors import RequestError
from llm_lite.core.inspect.attention import (
    AttendedSequence,
    layer_probabilities,
    to_probabilities,
)
from llm_lite.core.messages import AttentionRows, ReadAttentionRows
from llm_lite.core.plan.attention_layers import AttentionLayer

ROLLOUT_BYTES = 128 << 20  # for the maps behind a rollout, once it is requested
ROLLOUT_ROWS = 32  # computed together: the grain of a look that is interrupted
COLUMN_PAIRS = 4 << 20  # of tokens, for all heads of a column: some 50 ms

F32 = NDArray[np.float32]


class AttentionRowsReader:
    """Reads attention rows of one running model; keeps what a rollout needs from one request to the
    next."""

    def __init__(self, source: AttendedSequence) -> None:
        self.source = source
        self._rollout: Rollout | None = None

    @property
    def holds_rollout(self) -> bool:
        return self._rollout is not None

    def forget_rollout(self) -> None:
        """Free what a rollout needs; the next one computes it again."""
        self._rollout = None

    def read(self, request: ReadAttentionRows, seconds: float = math.inf) -> AttentionRows | None:
        """Return the requested rows; None when the time was up: call again, and it continues.

        RequestError where the position, layer or head is not there, its query is no longer kept, or
        a rollout would need too much memory; NotFiniteError where the weights are no numbers.
        """
        self._check(request)
        weights, note = np.zeros(self._values(request), np.float32), ""
        if request.mode == "rollout":
            if self._rollout is None:
                self._rollout = Rollout(self.source)
            if not self._rollout.extend(self._needed(request), seconds):
                return None
            weights = self._rollout.weights(request)
        elif request.direction == "from":
            row = self._row(request)
            weights[: len(row)] = row
        else:
            rows = self._column_rows(request)
            weights[rows.start : rows.stop] = self._column(request, rows)
            causal = self._kind(request).is_causal
            first, what = (request.position, " that follow") if causal else (0, "")
            if (rows.start, rows.stop) != (first, self.source.length):
                note = f"of the tokens{what}, {rows.start} to {rows.stop - 1} are told"
        self.source.checked(weights, f"the attention weights of token {request.position}")
        values = tuple(weights.tolist())
        return AttentionRows(request.position, request.direction, values, note)

    def _needed(self, request: ReadAttentionRows) -> int:
        """Return how many rows the rollout must reach."""
        known = request.direction == "from" and self._kind(request).is_causal
        return request.position + 1 if known else self.source.length

    def _kind(self, request: ReadAttentionRows) -> AttentionLayer:
        """Return one of the requested layers; the others see as many positions."""
        return self.source.layers[_first_layer(request, self.source.layers)]

    def _values(self, request: ReadAttentionRows) -> int:
        """Return how many positions the result has: those of the source if the request is what a
        token sees of it."""
        wanted = _wanted(request, self.source.layers)
        if request.direction == "to" or not wanted:
            return self.source.length
        return self.source.columns(wanted[0][0])

    def _check(self, request: ReadAttentionRows) -> None:
        source, position = self.source, request.position
        if source.note and not source.rows:
            raise RequestError(source.note)
        self._check_heads(request)
        self._check_position(request)
        rows = source.common_rows(layer for layer, _ in _wanted(request, source.layers))
        if not rows:
            looks = "looks" if request.direction == "from" else "is looked at from"
            raise RequestError(
                f"where token {position} {looks} is not known: the cache was kept without queries"
            )
        if request.mode == "rollout":  # which says itself what else it lacks
            return
        if request.direction == "from" and position not in rows:
            raise RequestError(
                f"where token {position} looks is not known: of {rows.start} to "
                f"{rows.stop - 1} it is; {_why_unkept(source, rows)}"
            )

    def _check_position(self, request: ReadAttentionRows) -> None:
        position, layer = request.position, _first_layer(request, self.source.layers)
        to_source = request.direction == "to" and self.source.layers[layer].cross
        length = self.source.columns(layer) if to_source else self.source.length
        if not 0 <= position < length:
            where = "source" if to_source else "cache"
            raise RequestError(
                f"position {position} is not in the {where}, which holds {length} tokens"
            )

    def _check_heads(self, request: ReadAttentionRows) -> None:
        source = self.source
        for layer, heads in _wanted(request, source.layers):
            if not 0 <= layer < len(source.layers):
                raise RequestError(f"layer {layer}: the model has {len(source.layers)} layers")
            most = source.layers[layer].heads
            if not most:
                raise RequestError(f"layer {layer} has a recurrent state instead of attention")
            if not all(0 <= head < most for head in heads):
                raise RequestError(f"layer {layer} has heads 0 to {most - 1}, asked for {heads}")
        if request.mode == "heads" and not request.heads:
            raise RequestError("no head is chosen")
        if request.mode == "rollout" and not all(layer.attends for layer in source.layers):
            raise RequestError(
                "rollout multiplies maps of attention, and not all layers of this model attend: "
                "choose heads, or a layer"
            )
        if request.mode == "rollout" and all(layer.cross for layer in source.layers):
            raise RequestError(
                "rollout multiplies maps of self-attention, and these are of cross-attention: "
                "choose heads, or a layer"
            )
        wanted = _wanted(request, source.layers)
        if len({source.layers[layer].cross for layer, _ in wanted}) > 1:
            raise RequestError(
                "heads of self-attention and of cross-attention look at different texts: choose "
                "heads of one kind"
            )

    def _row(self, request: ReadAttentionRows) -> F32:
        """Return the mean over the heads, float32, of all positions that the token sees, from 0."""
        at = request.position
        parts = [
            (len(heads), mean_map(self.source, layer, range(at, at + 1), at + 1, heads)[0])
            for layer, heads in _wanted(request, self.source.layers)
        ]
        return _mean(parts)

    def _column_rows(self, request: ReadAttentionRows) -> range:
        """Return the rows of the column: those that are kept, and no more than can be computed at
        once."""
        wanted = _wanted(request, self.source.layers)
        rows = self.source.common_rows(layer for layer, _ in wanted)
        heads = sum(len(h) for _, h in wanted)
        causal = self._kind(request).is_causal
        first = max(request.position, rows.start) if causal else rows.start
        most = max(1, COLUMN_PAIRS // (heads * self.source.columns(wanted[0][0])))
        return range(first, min(rows.stop, first + most))

    def _column(self, request: ReadAttentionRows, rows: range) -> F32:
        """Return the mean over the heads, float32 [rows]."""
        parts = [
            (len(heads), mean_map(self.source, layer, rows, rows.stop, heads)[:, request.position])
            for layer, heads in _wanted(request, self.source.layers)
        ]
        return _mean(parts)


def _why_unkept(source: AttendedSequence, rows: range) -> str:
    """Return why no row before `rows` is there, as a part of a sentence."""
    if rows.start > source.rows.start:
        return "a layer with a window has lost the keys that earlier ones saw"
    if source.length - source.rows.start >= source.ring_rows:
        return "a larger query memory keeps more"
    return "what was there before was not computed again, and has no queries"


class Rollout:
    """Attention rollout (Abnar and Zuidema 2020): what reaches a token through all layers.

    The product over the layers of (A + I) / 2, A a layer's map, the mean over its heads. A grows
    with the text; of another text, only what differs is computed again, or all where tokens see
    those behind them. Cross-attention has no part in it.
    """

    def __init__(self, source: AttendedSequence) -> None:
        self._source = source
        kinds = enumerate(source.layers)
        self._layers = [i for i, layer in kinds if layer.attends and not layer.cross]
        self._causal = all(source.layers[i].is_causal for i in self._layers)
        layers = len(self._layers)
        self.limit = most_rolled(layers)
        self._done = 0  # rows
        self._maps = np.zeros((layers, self.limit, self.limit), np.float32)  # paged in when used
        self._tokens: tuple[int, ...] = ()
        self._keys = np.zeros((0, 1), np.float32)  # last layer's of these: the same text may have
        # been read again with other gains

    def extend(self, rows: int, seconds: float) -> bool:
        """Compute maps up to this row; False when the time was up. At least one chunk is
        computed."""
        check_rollout(len(self._layers), rows)
        self._forget_what_changed()
        kept = self._source.common_rows(self._layers)
        if self._done < min(rows, kept.start):
            raise RequestError(
                "rollout needs the queries of all tokens, and those of the first "
                f"{kept.start} are not kept; {_why_unkept(self._source, kept)}"
            )
        end = time.perf_counter() + seconds
        while self._done < rows:
            last = min(rows, self._done + ROLLOUT_ROWS)
            self._compute(range(self._done, last))
            self._done = last
            if time.perf_counter() >= end:
                break
        return self._done >= rows

    def weights(self, request: ReadAttentionRows) -> F32:
        """Return a row, or a column, of the product, float32 [length]."""
        length, position = self._source.length, request.position
        back = request.direction == "to"
        used = slice(0, length if back or not self._causal else position + 1)
        flow = np.zeros(length, np.float32)
        flow[position] = 1
        for one in self._maps[:, used, used] if back else self._maps[::-1, used, used]:
            moved = _step(one, flow[used], back, request.without_first)
            flow[used] = (flow[used] + moved) / 2
        return flow

    def _compute(self, rows: range) -> None:
        for index, layer in enumerate(self._layers):
            heads = range(self._source.layers[layer].heads)
            block = mean_map(self._source, layer, rows, rows.stop, heads)
            self._maps[index, rows.start : rows.stop, : block.shape[1]] = block

    def _forget_what_changed(self) -> None:
        tokens, keys = self._source.tokens(), self._source.keys(self._layers[-1])
        keys = keys.reshape(len(keys), -1)
        both = min(self._done, len(tokens), len(keys), len(self._tokens))
        same = np.array(tokens[:both]) == np.array(self._tokens[:both])
        same &= (keys[:both] == self._keys[:both]).all(axis=1) if both else True
        self._done = both if same.all() else int(np.argmin(same))
        if not self._causal and not (same.all() and len(tokens) == len(self._tokens)):
            self._done = 0
        self._tokens, self._keys = tokens, keys


def _step(one: F32, flow: F32, back: bool, without_first: bool) -> F32:
    """Propagate attention through one layer. Without the first token its column is 0, and the rest
    of each row is scaled to 1."""
    if not without_first:
        return one @ flow if back else flow @ one
    left: F32 = np.maximum(one[:, 1:].sum(axis=1), np.float32(1e-6))  # sinks have the rest
    scale: F32 = np.reciprocal(left)
    scale[0] = 0
    if back:
        moved = scale * (one[:, 1:] @ flow[1:])
    else:
        moved = (flow * scale) @ one
    moved[0] = flow[0]
    return moved


def most_rolled(layers: int) -> int:
    """Return how many tokens a rollout through so many layers may have."""
    return math.isqrt(ROLLOUT_BYTES // 4 // layers)


def check_rollout(layers: int, tokens: int) -> None:
    """Raise RequestError where the maps of so many tokens are too large together."""
    if tokens > (most := most_rolled(layers)):
        raise RequestError(
            f"rollout multiplies the maps of all layers: the text has {tokens} tokens, "
            f"and {ROLLOUT_BYTES >> 20} MiB are enough for {most}"
        )


def mean_map(
    source: AttendedSequence, layer: int, rows: range, length: int, heads: Sequence[int]
) -> F32:
    """Return rows of a layer's map over the first `length` keys, float32 [rows, length], the mean
    over these heads; if it is not causal over all keys, float32 [rows, columns]."""
    shape, positions = source.layers[layer], np.asarray(rows)
    queries, keys, bias = source.queries(layer, rows), source.keys(layer), source.bias(layer)
    if shape.is_causal:
        keys = keys[:length]
    if len(heads) == shape.heads:
        return _mean_of_all(queries, keys, positions, shape, bias)
    total = np.zeros((len(rows), len(keys)), np.float32)
    for head in heads:
        q, k = queries[:, head], keys[:, head * shape.kv_heads // shape.heads]
        total += layer_probabilities(shape, head, q, k, positions, bias)
    return total / np.float32(len(heads))


def _mean_of_all(
    queries: NDArray[np.floating], keys: NDArray[np.floating], positions: NDArray[np.integer],
    shape: AttentionLayer, bias: F32 | None,
) -> F32:  # fmt: skip
    """Return the mean map of all heads as `layer_probabilities`, [T,H,d] and [C,K,d] -> [T,C], by
    one product for each key head."""
    rows, group = len(queries), shape.heads // shape.kv_heads
    q = queries.astype(np.float32).transpose(1, 0, 2).reshape(shape.kv_heads, group * rows, -1)
    k = np.ascontiguousarray(keys.astype(np.float32).transpose(1, 2, 0))
    with np.errstate(over="ignore", invalid="ignore"):  # as `to_probabilities`
        scores = (q @ k).reshape(shape.heads, rows, -1)
    to_probabilities(scores, positions, shape, range(shape.heads), bias)
    return scores.mean(axis=0)


def _first_layer(request: ReadAttentionRows, layers: Sequence[AttentionLayer]) -> int:
    wanted = _wanted(request, layers)
    return wanted[0][0] if wanted else 0


def _wanted(
    request: ReadAttentionRows, layers: Sequence[AttentionLayer]
) -> list[tuple[int, tuple[int, ...]]]:
    """Return the heads by layer; [] for a rollout, which has all."""
    if request.mode == "rollout":
        return []
    if request.mode == "layer-mean":
        known = 0 <= request.layer < len(layers)
        return [(request.layer, tuple(range(layers[request.layer].heads)) if known else (0,))]
    found: dict[int, tuple[int, ...]] = {}
    for layer, head in request.heads:
        found[layer] = (*found.get(layer, ()), head)
    return list(found.items())


def _mean(parts: Sequence[tuple[int, F32]]) -> F32:
    """Return the mean over all heads of means over some."""
    total = sum(count for count, _ in parts)
    result: F32 = sum(np.float32(count / total) * values for count, values in parts)  # type: ignore[assignment]
    return result
