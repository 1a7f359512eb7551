"""Attention maps of a whole text at once, as arrays, and the scores of its heads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from llm_lite.core.errors import RequestError
from llm_lite.core.inspect.attention import AttendedSequence, AttentionSource, head_maps
from llm_lite.core.inspect.attention_scores import ROWS, SCORES, means, sums_of
from llm_lite.core.memory import available_bytes

if TYPE_CHECKING:
    from llm_lite.core.models.model import ModelShape

F32 = NDArray[np.float32]
EVERY_QUERY = 1 << 62  # bytes: a budget for queries without an end
BLOCK = 64  # rows of maps that are scored together
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


def layer_scores(source: AttendedSequence, layer: int) -> dict[str, F32]:
    """Return by name the scores float32 [heads] of a layer's heads over the rows of their maps that
    are there. NotFiniteError; not while a step runs."""
    shape, rows, tokens = source.layers[layer], source.rows_of(layer), source.tokens()
    total = np.zeros((shape.heads, len(SCORES) + len(ROWS)), np.float32)
    for first in range(rows.start, rows.stop, BLOCK):
        block = range(first, min(first + BLOCK, rows.stop))
        maps = np.empty((shape.heads, len(block), source.columns(layer)), np.float32)
        head_maps(source, layer, range(shape.heads), maps, block)
        total += sums_of(maps, block, tokens)
    return means(total)


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
