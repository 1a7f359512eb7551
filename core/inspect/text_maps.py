"""Attention maps of a whole text at once, as arrays, and the scores of its heads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from llm_lite.core.errors import RequestError
from llm_lite.core.inspect.attention import (
    AttendedSequence,
    AttentionSource,
    head_maps,
    layer_probabilities,
)
from llm_lite.core.inspect.attention_scores import ROWS, SCORES, means, sums_of
from llm_lite.core.memory import available_bytes

if TYPE_CHECKING:
    from llm_lite.core.models.model import ModelShape

F32 = NDArray[np.float32]
EVERY_QUERY = 1 << 62  # bytes: a budget for queries without an end
BLOCK = 64  # rows of maps that are scored together
PART_WEIGHTS = 1 << 20  # of maps, between which messages are served: some 10 ms
_WORKING_MAPS = 4  # of one head, while it is computed


class Prefills(Protocol):
    """The session whose cache a source of maps shows."""

    def prefill(self, prompt: Sequence[int], /) -> object: ...


def check_maps(
    tokens: Sequence[int], layers: Sequence[int], heads: Sequence[int], shape: ModelShape
) -> None:
    """Raise RequestError before the work for what would fail in it."""
    n = len(tokens)
    if n < 2:
        raise RequestError(f"attention needs a text of two tokens or more, this one has {n}")
    if n > shape.trained_context:
        raise RequestError(
            f"the text has {n} tokens, the model was trained for {shape.trained_context}"
        )
    for what, chosen, count in (("layer", layers, shape.layers), ("head", heads, shape.heads)):
        for number in chosen:
            if not 0 <= number < count:
                raise RequestError(
                    f"{what} {number} is not in the model, which has {what}s 0 to {count - 1}"
                )
    left = available_bytes()
    if left is not None and 4 * n * n * (len(layers) * len(heads) + _WORKING_MAPS) > left:
        raise RequestError(_too_large(layers, heads, n, left))


def text_maps(
    source: AttentionSource,
    session: Prefills,
    tokens: Sequence[int],
    layers: Sequence[int],
    heads: Sequence[int],
) -> NDArray[np.float32]:
    """Return attention probabilities float32 [layers, heads, n, n] of n tokens: row i is what token
    i attends to; nan in a layer that has a recurrent state instead.

    The executor keeps all queries (EVERY_QUERY) and whole caches. Raises RequestError where there
    is too little memory, NotFiniteError where weights are no numbers.
    """
    session.prefill(tokens)
    n = len(tokens)
    try:
        maps = np.empty((len(layers), len(heads), n, n), np.float32)
    except MemoryError:
        raise RequestError(_too_large(layers, heads, n, None)) from None
    for index, layer in enumerate(layers):
        head_maps(source, layer, heads, maps[index])
    return maps


class LayerScores:
    """The scores of a layer's heads over the rows of their maps that are there now, a part at a
    time: `add` each of `parts`, not while a step runs. Rows that are gone by then are left out."""

    def __init__(self, source: AttendedSequence, layer: int) -> None:
        self._source, self._layer, self._shape = source, layer, source.layers[layer]
        self._tokens = source.tokens()
        heads, rows = self._shape.heads, source.rows_of(layer)
        if not self._shape.attends:
            rows = range(0)
        self._keys = source.keys(layer) if rows else np.zeros((0, 1, 1), np.float32)
        self._total = np.zeros((heads, len(SCORES) + len(ROWS)), np.float32)
        together = max(1, PART_WEIGHTS // (BLOCK * max(1, len(self._keys))))
        self.parts = [
            (range(first, min(first + BLOCK, rows.stop)), range(head, min(head + together, heads)))
            for first in range(rows.start, rows.stop, BLOCK)
            for head in range(0, heads, together)
        ]

    def add(self, part: tuple[range, range]) -> None:
        """Add some heads' rows. NotFiniteError where weights are no numbers."""
        rows, heads = part
        rows = range(max(rows.start, self._source.rows_of(self._layer).start), rows.stop)
        if not rows:
            return
        queries, bias = self._source.queries(self._layer, rows), self._source.bias(self._layer)
        maps = np.empty((len(heads), len(rows), len(self._keys)), np.float32)
        for index, head in enumerate(heads):
            q, k = queries[:, head], self._keys[:, head * self._shape.kv_heads // self._shape.heads]
            maps[index] = layer_probabilities(self._shape, head, q, k, np.asarray(rows), bias)
            what = f"the attention weights of layer {self._layer}, head {head}"
            self._source.checked(maps[index], what)
        self._total[heads.start : heads.stop] += sums_of(maps, rows, self._tokens)

    def means(self) -> dict[str, F32]:
        """Return by name the scores float32 [heads]."""
        return means(self._total)


def by_layer(layers: Sequence[Mapping[str, F32]]) -> dict[str, F32]:
    """Return the scores of several layers' heads by name, float32 [layers, heads]; nan where a
    layer has fewer heads."""
    heads = max(len(values) for scores in layers for values in scores.values())
    found = {name: np.full((len(layers), heads), np.nan, np.float32) for name in SCORES}
    for row, scores in enumerate(layers):
        for name, values in scores.items():
            found[name][row, : len(values)] = values
    return found


def _too_large(layers: Sequence[int], heads: Sequence[int], n: int, left: int | None) -> str:
    size = 4 * len(layers) * len(heads) * n * n
    free = "" if left is None else f", of which {_gib(left)} are available"
    return (
        f"maps of {len(layers)} layers, {len(heads)} heads and {n} x {n} tokens take {_gib(size)} "
        f"of memory{free}: choose fewer layers and heads, or a shorter text"
    )


def _gib(size: int) -> str:
    return f"{size / 2**30:.1f} GiB" if size >= 1 << 30 else f"{size / 2**20:.1f} MiB"
