"""Attention maps: what a map is, and what of the running model is shown to whoever draws one."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from core.plan.attention_layers import AttentionLayer, attention_layers
from core.plan.plan import Program, Tensor

if TYPE_CHECKING:
    from core.exec.executor import Executor
    from core.gpu.pipelines import BufferRange
    from core.session import Session

_FLOATS = {"f16": np.float16, "f32": np.float32}


def probabilities(
    q: NDArray[Any],
    k: NDArray[Any],
    positions: NDArray[np.integer[Any]],
    *,
    scale: float,
    window: int,
) -> NDArray[np.float32]:
    """Rows of one head's map: queries [T,d] at `positions` [T], keys [C,d] -> float32 [T,C].

    softmax(q . k * scale) over key positions up to each row's own; with window > 0 only the last
    `window` of these (Vaswani et al. 2017). All other entries are 0. Both as the model keeps them,
    float16 or float32.
    """
    scores = q.astype(np.float32) @ k.astype(np.float32).T * np.float32(scale)
    own, key = np.asarray(positions)[:, None], np.arange(len(k))[None, :]
    hidden = key > own
    if window > 0:
        hidden |= key <= own - window
    scores[hidden] = -np.inf
    scores -= scores.max(axis=1, keepdims=True)
    np.exp(scores, out=scores)
    scores /= scores.sum(axis=1, keepdims=True)
    return scores


def ring_tensor(program: Program) -> Tensor | None:
    """A query ring [R, heads*head_dim] of the program; all layers' have as many rows."""
    plan = program.plans[0]
    names = {layer.queries for layer in attention_layers(plan)}
    return next((t for t in plan.tensors if t.name in names), None)


class AttentionSource:
    """Queries, keys and tokens of the running model, to be read from any thread and not written.

    Query row p of a layer's ring is position p mod `ring_rows`; key row p is position p. Rows
    outside `rows`, and keys from `length` on, are being written or are stale. After `close` (the
    model was unloaded or moved to another executor) `hold` says so and the engine has a new source.
    """

    def __init__(self, executor: Executor, session: Session, note: str = "") -> None:
        self._executor = executor
        self._session = session
        self._state = threading.Condition()
        self._holders = 0
        self._alive = True
        self.layers: tuple[AttentionLayer, ...] = attention_layers(executor.program.plans[0])
        self.note = note  # a sentence on why no queries are kept; "" where they are
        ring = ring_tensor(executor.program)
        self.ring_rows: int = ring.shape[0] if ring else 0
        self.dtype: str = ring.dtype if ring else "f32"
        self.bytes: int = _ring_bytes(self.layers, self.ring_rows, self.dtype)  # of all rings

    def tokens(self) -> tuple[int, ...]:
        """The tokens at positions 0 .. length-1."""
        return self._session.tokens()

    @property
    def length(self) -> int:
        """Positions whose step has ended."""
        return self._session.committed.length

    @property
    def version(self) -> int:
        """Grows whenever the tokens or the gains change."""
        return self._session.committed.version

    @property
    def era(self) -> int:
        """Grows when the cache is emptied: what it holds then is new, even of equal tokens."""
        return self._session.committed.era

    @property
    def rows(self) -> range:
        """Positions whose queries the rings hold."""
        return self._session.committed.rows

    def host_queries(self, layer: int) -> NDArray[Any] | None:
        """[ring_rows, heads*head_dim], the memory itself; None on a device or where not kept."""
        name = self.layers[layer].queries
        return None if name is None else self._host(name)

    def host_keys(self, layer: int) -> NDArray[Any] | None:
        """[context, kv_heads*head_dim], the memory itself; None on a device."""
        return self._host(self.layers[layer].keys)

    def device_queries(self, layer: int) -> BufferRange | None:
        """(buffer, offset, bytes), as `host_queries`; None where the host holds them."""
        name = self.layers[layer].queries
        return None if name is None else self._device(name)

    def device_keys(self, layer: int) -> BufferRange | None:
        return self._device(self.layers[layer].keys)

    def queries(self, layer: int, rows: range | None = None) -> NDArray[Any]:
        """A copy of the queries of `rows`, by default all that are kept, [len(rows), heads,
        head_dim]; not while a step runs."""
        shape, rows = self.layers[layer], self.rows if rows is None else rows
        width = shape.heads * shape.head_dim
        ring = self.host_queries(layer)
        if ring is not None:
            found = ring[np.arange(rows.start, rows.stop) % max(1, self.ring_rows)]
        else:
            place = self.device_queries(layer)
            pieces = [self._download(place, piece, width) for piece in self._unrolled(rows)]
            found = np.concatenate(pieces) if pieces else np.zeros(0, _FLOATS[self.dtype])
        return found.reshape(-1, shape.heads, shape.head_dim)

    def keys(self, layer: int) -> NDArray[Any]:
        """A copy of the keys, [length, kv_heads, head_dim]; not while a step runs."""
        shape = self.layers[layer]
        keys, used = self.host_keys(layer), range(self.length)
        if keys is None:
            width = shape.kv_heads * shape.head_dim
            keys = self._download(self.device_keys(layer), used, width)
        return keys.reshape(-1, shape.kv_heads, shape.head_dim)[: len(used)].copy()

    @contextmanager
    def hold(self) -> Iterator[bool]:
        """Keeps the memory until the block ends; False: it is gone, leave it alone.

        Hold it while recording and submitting work that reads it: whoever frees the memory waits
        for the holders, and then for the device. Blocks are short: the worker waits for them.
        """
        with self._state:
            alive = self._alive
            self._holders += alive
        try:
            yield alive
        finally:
            with self._state:
                self._holders -= alive
                self._state.notify_all()

    def close(self) -> None:
        """Waits for the holders; from then on `hold` gives False."""
        with self._state:
            self._alive = False
            self._state.wait_for(lambda: self._holders == 0)

    def _unrolled(self, rows: range) -> Iterator[range]:
        """Positions -> runs of rows of the ring."""
        at = rows.start
        while at < rows.stop:
            first = at % self.ring_rows
            count = min(rows.stop - at, self.ring_rows - first)
            yield range(first, first + count)
            at += count

    def _download(self, place: BufferRange | None, rows: range, width: int) -> NDArray[Any]:
        assert place is not None, "no queries are kept, or the source is closed"
        if not rows:
            return np.zeros(0, _FLOATS[self.dtype])
        row = width * np.dtype(_FLOATS[self.dtype]).itemsize
        buffer, offset, _ = place
        return buffer.download(offset + rows.start * row, len(rows) * row).view(_FLOATS[self.dtype])

    def _host(self, name: str) -> NDArray[Any] | None:
        return self._executor.host_state(name) if self._alive else None

    def _device(self, name: str) -> BufferRange | None:
        return self._executor.device_state(name) if self._alive else None


def head_maps(
    source: AttentionSource, layer: int, heads: Sequence[int], out: NDArray[np.float32]
) -> None:
    """Maps of heads of a layer into float32 [heads, rows, length], for the rows that are kept.

    ValueError where `out` has another shape. Not while a step runs.
    """
    shape, positions = source.layers[layer], np.asarray(source.rows)
    if out.shape != (len(heads), len(positions), source.length):
        raise ValueError(f"expected {(len(heads), len(positions), source.length)}, got {out.shape}")
    queries, keys = source.queries(layer), source.keys(layer)
    for row, head in enumerate(heads):
        group = head * shape.kv_heads // shape.heads
        out[row] = probabilities(
            queries[:, head], keys[:, group], positions, scale=shape.scale, window=shape.window
        )


def _ring_bytes(layers: tuple[AttentionLayer, ...], rows: int, dtype: str) -> int:
    columns = sum(layer.heads * layer.head_dim for layer in layers if layer.queries)
    return rows * columns * {"f16": 2, "f32": 4}[dtype]
