"""Numbers of each position of the cache: norms of keys and values, attention received."""

from __future__ import annotations

from collections.abc import Generator, Sequence

import numpy as np
from numpy.typing import NDArray

from llm_lite.core.errors import RequestError
from llm_lite.core.inspect.attention import AttendedSequence
from llm_lite.core.messages import CacheMeasured, Measure, MeasureCache
from llm_lite.core.plan.attention_layers import AttentionLayer
from llm_lite.core.plan.cache_layers import CacheLayer, cache_layers
from llm_lite.core.questions.attention_reader import mean_map
from llm_lite.core.questions.question import Parts, Question, Where
from llm_lite.core.questions.replay import Replay

F32 = NDArray[np.float32]
F64 = NDArray[np.float64]
BLOCK = 16  # query rows computed together
MOST_BLOCKS = 16  # of each layer; where more rows are kept, blocks are taken at even distances


def run(request: MeasureCache, replay: Replay) -> Parts[CacheMeasured]:
    """Return a number for each position of each layer that owns a cache; nan where it is not
    known."""
    last = replay.length if request.last is None else request.last
    if not 0 <= request.first < last <= replay.length:
        raise RequestError(
            f"positions {request.first} to {last - 1} are not in the cache, which holds "
            f"{replay.length} tokens"
        )
    owners = cache_layers(replay.executor.program.plans[0])
    if request.what == "received" and not len(replay.rows):
        raise RequestError(replay.no_rows)
    span, values = range(request.first, last), np.full((len(owners), last), np.nan, np.float32)
    for row, owner in enumerate(owners):
        if row:
            yield "executor"
        if request.what == "received":
            values[row] = (yield from _received(owner, replay))[:last]
        else:
            first = max(span.start, replay.oldest(owner))
            values[row, first:] = _norms(owner, request.what, range(first, last), replay)
    version = replay.version  # of what was measured
    yield "anywhere"
    measured = tuple(map(tuple, values[:, request.first :].tolist()))
    layers = tuple(owner.layer for owner in owners)
    return CacheMeasured(request.what, request.first, version, measured, layers)


def _norms(owner: CacheLayer, what: Measure, positions: range, replay: Replay) -> F32:
    """Return the norms of whole rows, all heads together, float32 [positions]."""
    tensor = owner.keys if what == "key-norm" else owner.values
    with np.errstate(over="ignore"):
        norms: F32 = np.linalg.norm(replay.kept(tensor, positions), axis=1)
    name = "keys" if what == "key-norm" else "values"
    return replay.checked(norms, f"the norms of layer {owner.layer}'s {name}")


def _received(owner: CacheLayer, replay: Replay) -> Generator[Where, None, F64]:
    """Return the attention that each position receives in a layer's cache, float64 [length]."""
    readers = readers_of(owner, replay.layers)
    received = ReceivedAttention(replay.attended(readers), readers, replay.length)
    for block in received.blocks():
        yield "anywhere"
        replay.check()
        received.add(block)
    return received.mean(replay.oldest(owner))


class ReceivedAttention:
    """The attention that positions 0..length-1 of a layer that owns a cache receive from the layers
    that read it: the mean over heads and kept queries from a position on."""

    def __init__(self, source: AttendedSequence, readers: Sequence[int], length: int) -> None:
        self._source, self._readers, self._length = source, readers, length
        self._total, self._count = np.zeros(length), np.zeros(length)

    def blocks(self) -> list[range]:
        """Return blocks of the rows that are kept, the last one always among them."""
        kept = self._source.common_rows(self._readers)
        rows = range(min(kept.start, self._length), min(kept.stop, self._length))
        ends = range(rows.stop, rows.start, -BLOCK)
        chosen = ends[:: max(1, -(-len(ends) // MOST_BLOCKS))]
        return [range(max(rows.start, end - BLOCK), end) for end in chosen]

    def add(self, block: range) -> None:
        """Add the shares that these rows of the readers' maps give to each position, and how many
        rows there are: without those whose keys are gone since the blocks were chosen."""
        rows = range(max(block.start, self._source.common_rows(self._readers).start), block.stop)
        if not rows:
            return
        end = rows.stop
        for reader in self._readers:
            layer = self._source.layers[reader]
            shares = mean_map(self._source, reader, rows, end, range(layer.heads)).sum(axis=0)
            self._total[: len(shares)] += shares
            if layer.is_causal:
                self._count[:end] += np.minimum(len(rows), end - np.arange(end))
            else:
                self._count[: len(shares)] += len(rows)

    def mean(self, oldest: int = 0) -> F64:
        """Return the mean, float64 [length]; nan where nothing is known, as before `oldest`, whose
        keys are gone."""
        self._count[:oldest] = 0
        what = f"layer {self._readers[0]}'s attention weights"
        total, unknown = self._source.checked(self._total, what), np.full(self._length, np.nan)
        return np.divide(total, self._count, out=unknown, where=self._count > 0)


def readers_of(owner: CacheLayer, layers: Sequence[AttentionLayer]) -> list[int]:
    """Return the layers that read the cache of `owner`."""
    return [number for number, layer in enumerate(layers) if layer.keys == owner.keys.name]


STATISTICS = Question(
    "statistics",
    MeasureCache,
    CacheMeasured,
    run,
    "what its cache holds",
    MeasureCache("key-norm"),
    turn=1,
    reads_rows=True,
)
