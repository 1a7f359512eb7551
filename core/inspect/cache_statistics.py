"""Numbers of each position of the cache: norms of keys and values, attention received.

Served on the thread of the running model between two steps, a slice of time at once.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from llm_lite.core.errors import RequestError
from llm_lite.core.inspect.attention import AttentionSource
from llm_lite.core.inspect.attention_rows import mean_map
from llm_lite.core.inspect.inspected import InspectedSession
from llm_lite.core.messages import CacheMeasured, MeasureCache
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
            with np.errstate(over="ignore"):
                norms = np.linalg.norm(values, axis=1)
            what = "keys" if self.request.what == "key-norm" else "values"
            self._session.checked(norms, f"the norms of layer {layer.layer}'s {what}")
            self._values[row, first - self.request.first :] = norms
            yield

    def _received(self) -> Iterator[None]:
        """Return the mean over heads and kept queries from a position on, of the attention it
        gets."""
        span = slice(self.request.first, self.request.last)
        for row, layer in enumerate(self._layers):
            readers = self._readers(layer)
            total, count = np.zeros(self._length), np.zeros(self._length)
            for whole in self._blocks(self.source.common_rows(readers)):
                self._check()
                # A token may have been written since: a ring has lost another key then.
                first = max(whole.start, self.source.common_rows(readers).start)
                self._add(readers, range(first, whole.stop), total, count)
                yield
            count[: self._session.cache.oldest(layer)] = 0  # their keys are gone
            self._session.checked(total, f"layer {layer.layer}'s attention weights")
            self._values[row] = np.divide(
                total, count, out=np.full_like(total, np.nan), where=count > 0
            )[span]

    def _add(self, readers: list[int], rows: range, total: F64, count: F64) -> None:
        """Add the shares that these rows of the readers' maps give to each position, and how many
        rows there are."""
        if not rows:
            return
        end = rows.stop
        for reader in readers:
            heads = range(self.source.layers[reader].heads)
            shares = mean_map(self.source, reader, rows, end, heads).sum(axis=0)
            total[: len(shares)] += shares
            if self.source.layers[reader].is_causal:
                count[:end] += np.minimum(len(rows), end - np.arange(end))
            else:
                count[: len(shares)] += len(rows)

    def _readers(self, owner: CacheLayer) -> list[int]:
        layers = self.source.layers
        return [i for i, layer in enumerate(layers) if layer.keys == owner.keys.name]

    def _blocks(self, kept: range) -> list[range]:
        """Return blocks of the rows that are kept, the last one always among them."""
        rows = range(min(kept.start, self._length), min(kept.stop, self._length))
        ends = range(rows.stop, rows.start, -BLOCK)
        chosen = ends[:: -(-len(ends) // MOST_BLOCKS)]
        return [range(max(rows.start, end - BLOCK), end) for end in chosen]
