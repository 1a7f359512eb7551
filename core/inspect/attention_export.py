"""Maps as a file of numbers: queries and keys are copied between two steps, the rest is done by a
thread of its own, so that neither the answer nor the window waits."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from llm_lite.core import system_errors
from llm_lite.core.errors import LlmLiteError, RequestError
from llm_lite.core.files.writing import make_folder, replaced
from llm_lite.core.finite import checked
from llm_lite.core.inspect.attention import AttentionSource, layer_probabilities
from llm_lite.core.memory import available_bytes
from llm_lite.core.plan.attention_layers import AttentionLayer

Head = tuple[int, int]  # layer, head


class LayerRows(Struct, frozen=True):
    """The queries and keys that a layer's maps are computed from."""

    layer: AttentionLayer
    queries: NDArray[np.float32]  # [rows, heads, head_dim]
    keys: NDArray[np.float32]  # [columns, kv_heads, head_dim]
    bias: NDArray[np.float32] | None  # [heads, columns of the bias]
    first_whole: int  # the first row whose keys are all kept


class Snapshot(Struct, frozen=True):
    """Copies of the queries and keys of heads at one moment."""

    heads: tuple[Head, ...]
    layers: dict[int, LayerRows]
    rows: range
    tokens: tuple[int, ...]
    source_tokens: tuple[int, ...] | None  # of cross-attention


def snapshot(source: AttentionSource, heads: tuple[Head, ...]) -> Snapshot:
    """Copy what the maps of these heads are computed from; not while a step runs.

    RequestError where there is nothing to export, or it would not fit in memory.
    """
    if not source.ring_rows:
        raise RequestError(source.note or "no queries are kept, so there are no maps to export")
    if source.length < 2:
        raise RequestError("maps begin with the second token: there is nothing to export yet")
    for layer, head in heads:
        if not (layer < len(source.layers) and head < source.layers[layer].heads):
            raise RequestError(f"layer {layer}, head {head} is not in the model")
    cross = _is_cross(source, heads)
    rows, length = source.rows, source.length
    columns = len(source.source_tokens()) if cross else length
    size, free = 4 * len(heads) * len(rows) * columns, available_bytes()
    if free is not None and size > free // 2:
        raise RequestError(
            f"the maps would take {size / 2**30:.1f} GiB, more than half of the memory that is "
            "free: choose fewer heads"
        )
    layers = {at: _layer_rows(source, at, rows) for at in sorted({layer for layer, _ in heads})}
    tokens = source.tokens()[:length]
    return Snapshot(heads, layers, rows, tokens, source.source_tokens() if cross else None)


def _is_cross(source: AttentionSource, heads: tuple[Head, ...]) -> bool:
    """Return True if all heads are of cross-attention. RequestError if only some are."""
    kinds = {source.layers[layer].cross for layer, _ in heads}
    if len(kinds) > 1:
        raise RequestError(
            "heads of self-attention and of cross-attention look at different texts: choose heads "
            "of one kind"
        )
    return True in kinds


def _layer_rows(source: AttentionSource, layer: int, rows: range) -> LayerRows:
    queries, keys = source.queries(layer, rows), source.keys(layer)
    first_whole = source.rows_of(layer).start
    return LayerRows(source.layers[layer], queries, keys, source.bias(layer), first_whole)


def write(copies: Snapshot, path: Path) -> None:
    """Write `probs` float32 [heads, rows, n] for the rows whose queries are kept, `positions` of
    these rows, `tokens` int32 [n], `heads` int32 [heads, 2] (layer, head). Of cross-attention
    `source_tokens` int32 are those of the n columns, and `tokens` those that `positions` count.
    Exact for float32 caches; NaN where a layer's ring has lost keys that a row attended to.

    LlmLiteError where `path` cannot be written to, or is there already; NotFiniteError where
    weights are no numbers.
    """
    positions = np.asarray(copies.rows, np.int32)
    n = len(copies.tokens if copies.source_tokens is None else copies.source_tokens)
    probs = np.empty((len(copies.heads), len(positions), n), np.float32)
    for number, (layer, head) in enumerate(copies.heads):
        rows = copies.layers[layer]
        q, k = rows.queries[:, head], rows.keys[:, head * rows.layer.kv_heads // rows.layer.heads]
        probs[number] = layer_probabilities(rows.layer, head, q, k, positions, rows.bias)
        checked(probs[number], f"the attention weights of layer {layer}, head {head}")
        probs[number, : rows.first_whole - copies.rows.start] = np.nan
    tokens, heads = (np.array(each, np.int32) for each in (copies.tokens, copies.heads))
    arrays: dict[str, Any] = {"tokens": tokens, "heads": heads}
    if copies.source_tokens is not None:
        arrays["source_tokens"] = np.array(copies.source_tokens, np.int32)
    make_folder(path.parent)
    with replaced(path, new=True) as out:
        np.savez(out, probs=probs, positions=positions, **arrays)


def write_later(copies: Snapshot, path: Path, done: Callable[[str], None]) -> None:
    """Write on another thread; `done` is called there, with a sentence if it failed."""

    def work() -> None:
        try:
            write(copies, path)
        except (LlmLiteError, MemoryError) as error:
            done(str(error) or "there is not enough memory for the maps")
        except BaseException as error:
            done(system_errors.sentence(error) or system_errors.defect(error))
            raise
        else:
            done("")

    threading.Thread(target=work, name="export", daemon=True).start()
