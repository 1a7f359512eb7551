"""Maps as a file of numbers: what they are made of is copied between two steps, the rest is done
by a thread of its own, so that neither the answer nor the window waits."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from llm_lite.core.errors import LlmLiteError, RequestError
from llm_lite.core.files.writing import make_folder, replaced
from llm_lite.core.finite import checked
from llm_lite.core.inspect.attention import AttentionSource, layer_probabilities
from llm_lite.core.memory import available_bytes
from llm_lite.core.plan.attention_layers import AttentionLayer

Head = tuple[int, int]  # layer, head


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Queries and keys of heads at one moment; of no use once written."""

    heads: tuple[Head, ...]
    layers: dict[int, tuple[AttentionLayer, NDArray[np.floating], NDArray[np.floating]]]
    rows: range
    whole: dict[int, int]  # by layer, the first row whose keys are all kept
    tokens: tuple[int, ...]


def snapshot(source: AttentionSource, heads: tuple[Head, ...]) -> Snapshot:
    """Copies of what the maps of these heads are made of; not while a step runs.

    RequestError where there is nothing to export, or it would not fit in memory.
    """
    if not source.ring_rows:
        raise RequestError(source.note or "no queries are kept, so there are no maps to export")
    if source.length < 2:
        raise RequestError("maps begin with the second token: there is nothing to export yet")
    for layer, head in heads:
        if not (layer < len(source.layers) and head < source.layers[layer].heads):
            raise RequestError(f"layer {layer}, head {head} is not in the model")
    rows, length = source.rows, source.length
    size, free = 4 * len(heads) * len(rows) * length, available_bytes()
    if free is not None and size > free // 2:
        raise RequestError(
            f"the maps would take {size / 2**30:.1f} GiB, more than half of the memory that is "
            "free: choose fewer heads"
        )
    wanted = sorted({layer for layer, _ in heads})
    parts = {at: (source.layers[at], source.queries(at, rows), source.keys(at)) for at in wanted}
    whole = {at: source.rows_of(at).start for at in wanted}
    return Snapshot(heads, parts, rows, whole, source.tokens()[:length])


def write(taken: Snapshot, path: Path) -> None:
    """`probs` float32 [heads, rows, n] for the rows whose queries are kept, `positions` of these
    rows, `tokens` int32 [n], `heads` int32 [heads, 2] (layer, head). Exact for float32 caches;
    NaN where a layer's ring has lost keys that a row looked at.

    LlmLiteError where `path` cannot be written to, or is there already; NotFiniteError where
    weights are no numbers.
    """
    positions, n = np.asarray(taken.rows, np.int32), len(taken.tokens)
    probs = np.empty((len(taken.heads), len(positions), n), np.float32)
    for number, (layer, head) in enumerate(taken.heads):
        shape, queries, keys = taken.layers[layer]
        q, k = queries[:, head], keys[:, head * shape.kv_heads // shape.heads]
        probs[number] = layer_probabilities(shape, head, q, k, positions)
        checked(probs[number], f"the attention weights of layer {layer}, head {head}")
        probs[number, : taken.whole[layer] - taken.rows.start] = np.nan
    tokens, heads = (np.array(each, np.int32) for each in (taken.tokens, taken.heads))
    make_folder(path.parent)
    with replaced(path, new=True) as out:
        np.savez(out, probs=probs, positions=positions, tokens=tokens, heads=heads)


def write_later(taken: Snapshot, path: Path, done: Callable[[str], None]) -> None:
    """Write on another thread; `done` is called there, with a sentence where it failed."""

    def work() -> None:
        try:
            write(taken, path)
        except (LlmLiteError, MemoryError) as error:
            done(str(error) or "there is not enough memory for the maps")
        else:
            done("")

    threading.Thread(target=work, name="export", daemon=True).start()
