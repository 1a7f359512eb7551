"""Numbers of each position of the cache: norms of keys and values, attention received.

Served on the thread of the running model between two steps, a slice of time at once.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from llm_lite.core.errors import RequestError
from llm_lite.core.inspect.attention import AttendedSequence, AttentionSource
from llm_lite.core.inspect.attention_rows import mean_map
from llm_lite.core.inspect.inspected import InspectedSession
from llm_lite.core.messages import CacheMeasured, Measure, MeasureCache
from llm_lite.core.plan.attention_layers import AttentionLayer
from llm_lite.core.plan.cache_layers import CacheLayer

F32 = NDArray[np.float32]
F64 = NDArray[np.float64]
BLOCK = 16  # query rows computed together
MOST_BLOCKS = 16  # of each layer; where more rows are kept, blocks are taken at even distances


class Measuring:
    """A running MeasureCache. RequestError if it is impossible, NotFiniteError if a result is not
    finite: nan stands for what is not known."""

    def __init__(
        self, request: MeasureCache, session: InspectedSession, source: AttentionSource
    ) -> None:
        self.request = request
        self._session, self.source = session, source
        self._layers = session.cache.layers
        if not 0 <= request.first < request.last <= session.context_used:
            raise RequestError(
                f"positions {request.first} to {request.last - 1} are not in the cache, which "
                f"holds {session.context_used} tokens"
            )
        if request.what == "received" and not len(source.rows):
            raise RequestError(source.note or "no queries are kept of what is in the cache")
        self._epoch = session.committed.epoch
        self._length = session.context_used
        self._values = np.full(
            (len(self._layers), request.last - request.first), np.nan, np.float32
        )
        self._work = self._received() if request.what == "received" else self._norms()

    def advance(self, seconds: float = math.inf) -> CacheMeasured | None:
        """Continue to measure and return the result; None when the time was up: call again."""
        until = time.perf_counter() + seconds
        for _ in self._work:
            if time.perf_counter() >= until:
                return None
        values = tuple(tuple(row) for row in self._values.tolist())
        version = self._session.committed.version
        return CacheMeasured(self.request.what, self.request.first, version, values)

    def _check(self) -> None:
        session = self._session
        if session.committed.epoch != self._epoch or session.context_used < self._length:
            raise RequestError("the cache was rewritten while it was measured: measure it again")

    def _norms(self) -> Iterator[None]:
        """Measure the norms of whole rows, all heads together, a layer a step."""
        for row, layer in enumerate(self._layers):
            self._check()
            tensor = layer.keys if self.request.what == "key-norm" else layer.values
            first = max(self.request.first, self._session.cache.oldest(layer))
            values = self._session.cache.values(layer, tensor, range(first, self.request.last))
            norms = self._session.checked(norms_of(values), norms_name(layer, self.request.what))
            self._values[row, first - self.request.first :] = norms
            yield

    def _received(self) -> Iterator[None]:
        span = slice(self.request.first, self.request.last)
        for row, layer in enumerate(self._layers):
            received = ReceivedAttention(
                self.source, readers_of(layer, self.source.layers), self._length
            )
            for block in received.blocks():
                self._check()
                received.add(block)
                yield
            mean = received.mean(oldest=self._session.cache.oldest(layer))
            self._values[row] = mean[span]


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


def norms_of(values: F32) -> F32:
    """Return the norms float32 [positions] of keys or values [positions, columns], all heads
    together."""
    with np.errstate(over="ignore"):
        norms: F32 = np.linalg.norm(values, axis=1)
    return norms


def norms_name(layer: CacheLayer, what: Measure) -> str:
    return f"the norms of layer {layer.layer}'s {'keys' if what == 'key-norm' else 'values'}"
