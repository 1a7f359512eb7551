"""Attention maps: what a map is, and what of the running model it is made from.

Attention is never materialized. The op `store` keeps the last rotated queries in a ring with a
budget of memory; with the keys of the cache they are all that a map needs. Inference pays for one
small store a step, and any position still in the ring can be inspected. In a sliding layer its keys
must still be in the cache too; later its row stays as it was drawn, and is left out of scores.
`attention` multiplies a head's output by a gain, which is 1 unless a person changes it. Where heads
have sinks, rows of maps lack the sinks' shares. Requests that look inside (logit lens, the effect
of gains) run a token again through all ops but those that store: the cache stays bit for bit as it
is.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from llm_lite.core.finite import Values
from llm_lite.core.inspect.inspected import SessionForMaps
from llm_lite.core.plan.attention_layers import AttentionLayer, attention_layers
from llm_lite.core.plan.cache_layers import cache_layers
from llm_lite.core.plan.plan import Kind, Program, Tensor, tensor_row_bytes
from llm_lite.core.quant import rows as state_rows
from llm_lite.core.quant.tensor import TensorData

if TYPE_CHECKING:
    from llm_lite.core.exec.executor import Executor
    from llm_lite.core.gpu.pipelines import BufferRange


def layer_probabilities(
    layer: AttentionLayer,
    head: int,
    q: NDArray[Any],
    k: NDArray[Any],
    positions: NDArray[np.integer[Any]],
    bias: NDArray[np.float32] | None = None,
) -> NDArray[np.float32]:
    """Return rows of one head's map: queries [T,d] at `positions` [T], keys [C,d] -> float32 [T,C].

    softmax(q . k * scale) over key positions up to each row's own, or over all where the layer is
    not causal; with a window only over the last of these (Vaswani et al. 2017); with a softcap of
    scores that `cap` has bounded. A sink takes a share of every row. All other entries are 0. Both
    as the model keeps them, float16 or float32. `bias` [heads, columns]: what the weight
    `layer.bias` holds.
    """
    with np.errstate(over="ignore", invalid="ignore"):  # as `to_probabilities`
        scores = (q.astype(np.float32) @ k.astype(np.float32).T)[None]
    to_probabilities(scores, positions, layer, range(head, head + 1), bias)
    return scores[0]


@np.errstate(over="ignore", invalid="ignore")  # users of the map say what overflows
def to_probabilities(
    products: NDArray[np.float32],
    positions: NDArray[np.integer[Any]],
    layer: AttentionLayer,
    heads: range,
    bias: NDArray[np.float32] | None,
) -> None:
    """Turn q . k of these heads, [heads, T, C], into rows of their maps in place."""
    assert (bias is None) == (layer.bias is None), f"the bias {layer.bias}"
    products *= np.float32(layer.scale)
    distances = np.arange(products.shape[2])[None, :] - np.asarray(positions)[:, None]
    if bias is not None:
        columns = np.clip(distances + layer.bias_before, 0, bias.shape[1] - 1)
        products += bias[heads.start : heads.stop, columns]
    cap(products, layer.softcap)
    if layer.is_causal:
        hidden = distances > 0
        if layer.window > 0:
            hidden |= distances <= -layer.window
        np.copyto(products, np.float32(-np.inf), where=hidden)
    sinks = np.array([layer.sink(head) for head in heads], np.float32)
    normalise(products, sinks[:, None, None])


def normalise(scores: NDArray[np.float32], sinks: NDArray[np.float32] | np.float32) -> None:
    """Turn scores [..., C] into shares in place, of a whole with sinks, [..., 1] or one."""
    most = np.maximum(scores.max(axis=-1, keepdims=True), sinks)
    scores -= most
    np.exp(scores, out=scores)
    scores /= scores.sum(axis=-1, keepdims=True) + np.exp(sinks - most)


def cap(scores: NDArray[np.float32], softcap: float) -> None:
    """Bounds scores in place, as the op `attention` does; 0: leaves them."""
    if softcap > 0:
        scores /= np.float32(softcap)
        np.tanh(scores, out=scores)
        scores *= np.float32(softcap)


def ring_tensor(program: Program) -> Tensor | None:
    """Return a query ring [R, heads*head_dim] of the program; all layers' have as many rows."""
    plan = program.plans[0]
    names = {layer.queries for layer in attention_layers(plan)}
    return next((t for t in plan.tensors if t.name in names), None)


class AttendedSequence(Protocol):
    """The queries, keys and tokens of one sequence, for its maps: the chat's in a running model
    (`AttentionSource`), or a server's response (`serving/inspect.py`)."""

    @property
    def layers(self) -> tuple[AttentionLayer, ...]: ...

    @property
    def note(self) -> str:
        """Return a sentence on why no queries are kept; "" where they are."""
        ...

    @property
    def length(self) -> int:
        """Return how many positions there are."""
        ...

    @property
    def ring_rows(self) -> int:
        """Return how many positions' queries are kept at most."""
        ...

    @property
    def rows(self) -> range:
        """Return the positions whose queries are kept; empty where none are."""
        ...

    def rows_of(self, layer: int) -> range:
        """Return those of `rows` for which the layer still has every key they attend to."""
        ...

    def common_rows(self, layers: Iterable[int]) -> range:
        """Return the rows that `rows_of` has for each of these layers."""
        ...

    def tokens(self) -> tuple[int, ...]: ...

    def columns(self, layer: int) -> int:
        """Return how many positions a map of the layer has keys of."""
        ...

    def queries(self, layer: int, rows: range | None = None) -> NDArray[np.float32]:
        """Return the queries of `rows`, by default all that are kept, [len(rows), heads,
        head_dim]."""
        ...

    def keys(self, layer: int) -> NDArray[np.float32]:
        """Return the keys, [columns, kv_heads, head_dim]."""
        ...

    def bias(self, layer: int) -> NDArray[np.float32] | None:
        """Return what is added to scores by distance, float32 [heads, columns of the bias]."""
        ...

    def checked(self, values: Values, what: str) -> Values:
        """Return the values. NotFiniteError that names the model for NaN or infinity."""
        ...


class AttentionSource:
    """Queries, keys and tokens of the running model, to be read from any thread and not written.

    Query p of a layer lies in row p mod `ring_rows` of its ring, key p in row p mod `key_rows`;
    rows are bytes, see `core.quant.rows`. Rows
    outside `rows`, and keys from `length` on, are being written or are stale. After `close` (the
    model was unloaded or moved to another executor) `hold` says so and the engine has a new source.
    """

    def __init__(
        self,
        executor: Executor,
        session: SessionForMaps,
        note: str = "",
        weights: Mapping[str, TensorData] = MappingProxyType({}),
        *,
        cross: bool | None = None,
    ) -> None:
        """Make the source. `weights`: those of sinks and biases, if there are any. `cross`: layers
        of cross-attention only, or of self-attention only; None: all."""
        self._executor = executor
        self._session = session
        self._weights = weights
        self._state = threading.Condition()
        self._holders = 0
        self._alive = True
        layers = attention_layers(
            executor.program.plans[0], lambda name: weights[name].dequantize().tolist()
        )
        self.layers = tuple(layer for layer in layers if cross in (None, layer.cross))
        self.note = note  # a sentence on why no queries are kept; "" where they are
        self.context: int = executor.program.context
        owners = [owner.keys.name for owner in cache_layers(executor.program.plans[0])]
        self._owner = [owners.index(one.keys) if one.keys in owners else -1 for one in self.layers]
        self._biases: dict[str, NDArray[np.float32]] = {}
        tensors = executor.program.plans[0].tensors
        self._tensors = {t.name: t for t in tensors if t.kind is Kind.STATE}
        ring = ring_tensor(executor.program)
        self.ring_rows: int = ring.ring_rows if ring else 0
        self.dtype: str = ring.dtype if ring else "f32"
        self.bytes: int = _ring_bytes(self.layers, self.ring_rows, self.dtype)  # of all rings

    def tokens(self) -> tuple[int, ...]:
        """Return the tokens at positions 0 .. length-1."""
        return self._session.tokens()

    def source_tokens(self) -> tuple[int, ...]:
        """Return the tokens that cross-attention sees."""
        return self._session.source_tokens

    @property
    def length(self) -> int:
        """Return how many positions have a finished step."""
        return self._session.committed.length

    @property
    def version(self) -> int:
        """Return a number that grows whenever the tokens or the gains change."""
        return self._session.committed.version

    @property
    def epoch(self) -> int:
        """Return a number that grows when the cache is emptied: it holds new values then, even of
        equal tokens."""
        return self._session.committed.epoch

    @property
    def rows(self) -> range:
        """Return the positions whose queries the rings hold."""
        return self._session.committed.rows

    def rows_of(self, layer: int) -> range:
        """Return those of `rows` for which the layer's cache still holds every key they attend to:
        a ring loses old ones."""
        committed, window = self._session.committed, self.layers[layer].window
        if self._owner[layer] < 0:
            return committed.rows
        rows, oldest = committed.rows, committed.oldest[self._owner[layer]]
        first = max(rows.start, oldest + window - 1) if oldest else rows.start
        return range(min(first, rows.stop), rows.stop)

    def columns(self, layer: int) -> int:
        """Return how many positions a map of the layer has keys of: the text's, or for
        cross-attention the source's."""
        return len(self.source_tokens()) if self.layers[layer].cross else self.length

    def column_tokens(self, layer: int) -> tuple[int, ...]:
        """Return the tokens of the layer's columns."""
        return self.source_tokens() if self.layers[layer].cross else self.tokens()[: self.length]

    def bias(self, layer: int) -> NDArray[np.float32] | None:
        """Return what is added to scores by distance, float32 [heads, columns of the bias], or
        None."""
        name = self.layers[layer].bias
        if name is not None and name not in self._biases:
            self._biases[name] = self._weights[name].dequantize()
        return None if name is None else self._biases[name]

    def common_rows(self, layers: Iterable[int]) -> range:
        """Return the rows that `rows_of` has for each of these layers."""
        rows = self.rows
        first = max((self.rows_of(layer).start for layer in layers), default=rows.start)
        return range(first, rows.stop)

    def host_queries(self, layer: int) -> NDArray[np.uint8] | None:
        """[ring_rows, bytes], the memory itself; None on a device or where not kept."""
        name = self.layers[layer].queries
        return None if name is None else self._host(name, self.ring_rows)

    def host_keys(self, layer: int) -> NDArray[np.uint8] | None:
        """[key_rows, bytes], the memory itself; None on a device, or where a layer does not
        attend."""
        if not self.layers[layer].attends:
            return None
        return self._host(self.layers[layer].keys, self.layers[layer].key_rows)

    def device_queries(self, layer: int) -> BufferRange | None:
        """Return (buffer, offset, bytes) of the queries, as `host_queries`; None if the host holds
        them."""
        name = self.layers[layer].queries
        return None if name is None else self._device(name)

    def device_keys(self, layer: int) -> BufferRange | None:
        return self._device(self.layers[layer].keys) if self.layers[layer].attends else None

    def checked(self, values: Values, what: str) -> Values:
        """Return the values. NotFiniteError that names the model for NaN or infinity."""
        return self._session.checked(values, what)

    def queries(self, layer: int, rows: range | None = None) -> NDArray[np.float32]:
        """Return the queries of `rows`, by default all that are kept, [len(rows), heads, head_dim];
        not while a step runs."""
        attention, rows = self.layers[layer], self.rows if rows is None else rows
        if not attention.attends:
            return np.zeros((len(rows), 0, 1), np.float32)
        assert attention.queries is not None or not rows, "no queries are kept"
        queries = (
            self._read(attention.queries, rows) if attention.queries else np.zeros(0, np.float32)
        )
        return queries.reshape(-1, attention.heads, attention.head_dim)

    def keys(self, layer: int) -> NDArray[np.float32]:
        """Return the keys, [columns, kv_heads, head_dim], 0 where a ring has lost them; not while a
        step runs."""
        attention, length = self.layers[layer], self.columns(layer)
        present = range(max(0, length - attention.key_rows), length)
        keys = np.zeros((length, attention.kv_heads, attention.head_dim), np.float32)
        if not attention.attends:
            return keys
        keys[present.start :] = self._read(attention.keys, present).reshape(-1, *keys.shape[1:])
        return keys

    @contextmanager
    def hold(self) -> Iterator[bool]:
        """Keep the memory until the block ends; yields False if it is gone and must be left alone.

        Hold it while recording and submitting work that reads it: what frees the memory waits for
        the holders, and then for the device. Blocks are short: the worker waits for them.
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
        """Wait for the holders; from then on `hold` yields False."""
        with self._state:
            self._alive = False
            self._state.wait_for(lambda: self._holders == 0)

    def _read(self, name: str, positions: range) -> NDArray[np.float32]:
        """float32 [len(positions), columns]"""
        assert self._alive, "the source is closed"
        tensor = self._tensors[name]
        runs = _unrolled(positions, tensor.ring_rows)
        parts = [self._executor.read_state(name, run.start, len(run)) for run in runs]
        empty = np.zeros((0, tensor_row_bytes(tensor)), np.uint8)
        data = np.concatenate([empty, *parts])
        return state_rows.decode(data, tensor.dtype, tensor.shape[1], tensor.block)

    def _host(self, name: str, rows: int) -> NDArray[np.uint8] | None:
        """Return the rows of the conversation; behind them may lie those of a server's clients."""
        state = self._executor.host_state(name) if self._alive else None
        return None if state is None else state[:rows]

    def _device(self, name: str) -> BufferRange | None:
        return self._executor.device_state(name) if self._alive else None


def _unrolled(positions: range, ring: int) -> Iterator[range]:
    """Yield runs of a ring's rows for positions."""
    at = positions.start
    while at < positions.stop:
        first = at % ring
        count = min(positions.stop - at, ring - first)
        yield range(first, first + count)
        at += count


def head_maps(
    source: AttendedSequence,
    layer: int,
    heads: Sequence[int],
    out: NDArray[np.float32],
    rows: range | None = None,
) -> None:
    """Compute maps of heads of a layer into float32 [heads, rows, columns], of these rows or all
    that are kept; NaN where keys that a row attended to are not, and where a layer does not attend.

    ValueError where `out` has another shape, NotFiniteError where weights are no numbers. Not while
    a step runs.
    """
    rows = source.rows if rows is None else rows
    attention, positions = source.layers[layer], np.asarray(rows)
    expected = len(heads), len(positions), source.columns(layer)
    if out.shape != expected:
        raise ValueError(f"expected {expected}, got {out.shape}")
    if not attention.attends:
        out[:] = np.nan
        return
    queries, keys, bias = source.queries(layer, rows), source.keys(layer), source.bias(layer)
    for row, head in enumerate(heads):
        group = head * attention.kv_heads // attention.heads
        q, k = queries[:, head], keys[:, group]
        out[row] = layer_probabilities(attention, head, q, k, positions, bias)
        source.checked(out[row], f"the attention weights of layer {layer}, head {head}")
    out[:, : max(0, source.rows_of(layer).start - rows.start)] = np.nan


def _ring_bytes(layers: tuple[AttentionLayer, ...], rows: int, dtype: str) -> int:
    columns = sum(layer.heads * layer.head_dim for layer in layers if layer.queries)
    return rows * columns * {"f16": 2, "f32": 4}[dtype]
