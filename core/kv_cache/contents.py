"""The live cache of one executor: which position holds what, copies of it, forgetting.

Rows move as raw bytes, the same in every executor. Layers with a sliding window may keep fewer rows
than the context: a ring, in which position p lies in row p mod rows.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from llm_lite.core.exec.executor import Executor
from llm_lite.core.exec.moving import runs, written_tensors
from llm_lite.core.exec.shifting import fixed_positions, shift
from llm_lite.core.kv_cache.provenance import (
    CacheContents,
    Conditions,
    Gap,
    coarsest,
    common,
    precision_of,
)
from llm_lite.core.kv_cache.states import RecurrentStates, State
from llm_lite.core.plan.cache_layers import CacheLayer, cache_layers, stored_layers
from llm_lite.core.plan.plan import Tensor, tensor_row_bytes
from llm_lite.core.quant import rows as state_rows
from llm_lite.core.quant.tensor import TensorData
from llm_lite.core.records import repr_without

Bytes = NDArray[np.uint8]


class CacheRows(Struct, frozen=True):
    """The rows of one tensor for positions from `first` on: uint8 [positions, bytes of a row]."""

    first: int
    data: Bytes
    dtype: str
    block: int = 0  # of dtypes i8 and i4


class Prefix(Struct, frozen=True, eq=False):
    """A cache's content apart from any executor."""

    name: str
    contents: CacheContents
    rows: Mapping[str, CacheRows]
    conversation: int = 0  # its number in the history
    kept: float = 0.0  # when it was copied, seconds since the epoch
    recurrent: bool = False  # whether positions are of no use without a state behind them
    states: Mapping[int, State] = MappingProxyType({})  # by the positions before them
    __repr__ = repr_without("rows", "states")

    @property
    def nbytes(self) -> int:
        states = sum(rows.nbytes for state in self.states.values() for rows in state.values())
        return states + sum(rows.data.nbytes for rows in self.rows.values())


class KvCache:
    """The cache of one conversation on an executor: the token, the provenance and the rows of each
    position, and the recurrent states of models that have any."""

    def __init__(self, executor: Executor, weights: Mapping[str, TensorData]) -> None:
        self._executor = executor
        plan = executor.program.plans[0]
        rotations = [o for o in plan.ops if o.name == "rope" and len(o.inputs) > 1]
        factors = {plan.tensors[op.inputs[1]].name for op in rotations}
        self._factors = {name: weights[name] for name in factors}
        self.layers = cache_layers(plan)
        self.stored = stored_layers(plan)  # with what the block that drafts reads
        self.states = RecurrentStates(executor)
        self.can_forget = not fixed_positions(plan)  # a part with something behind it
        self._written = written_tensors(plan)
        self.tokens: list[int] = []
        self._conditions: list[Conditions] = []
        self._gaps: tuple[Gap, ...] = ()
        context = executor.program.context
        # The first position that a layer with a window still has; it has all from there to the
        # last. Rings lose positions, and what is copied from one lacks those that it lost.
        self._oldest = {layer.layer: 0 for layer in self.layers if layer.window}
        self._rings = {layer.layer for layer in self.layers if layer.rows < context}
        self._none_lost = (0,) * len(self.layers)
        self._spare = executor.program.most_drafted  # of a ring, for tokens that may not follow
        self.precision = precision_of(t.dtype for layer in self.layers for t in layer.tensors)

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def position_bytes(self) -> int:
        """Return the bytes of one position in all layers."""
        return sum(tensor_row_bytes(t) for layer in self.stored for t in layer.tensors)

    @property
    def copy_bytes(self) -> int:
        """Return the bytes that `copy_out` would copy."""
        rows = sum(
            (len(self) - self.oldest(layer)) * sum(map(tensor_row_bytes, layer.tensors))
            for layer in self.stored
        )
        return rows + len(self.states.worth_keeping(len(self))) * self.states.nbytes

    @property
    def gaps(self) -> tuple[Gap, ...]:
        return self._gaps

    @property
    def contents(self) -> CacheContents:
        return CacheContents(tuple(self.tokens), tuple(self._conditions), self._gaps)

    def reusable_prefix_length(
        self, now: Conditions, *, any_weights: bool = False, any_changes: bool = False
    ) -> int:
        """Return the number of leading positions whose values equal a fresh computation under the
        conditions of now, as `reusable_prefix_length` below."""
        at = now.rounded(self.precision)
        return reusable_prefix_length(
            self._conditions, at, any_weights=any_weights, any_changes=any_changes
        )

    def usable(self, length: int) -> bool:
        """Return True if a step could follow the first `length` positions: rings lose old ones,
        and a recurrent state is held behind few of them."""
        return self.states.holds(length) and all(
            self._oldest.get(layer.layer, 0) <= max(0, length - layer.window + 1)
            for layer in self.layers
        )

    def longest_usable(self, length: int) -> int:
        """Return the most of the first `length` positions that a step could follow."""
        reached = self.states.longest(length)
        return reached if self.usable(reached) else 0

    def oldest_rows(self) -> tuple[int, ...]:
        """Return `oldest` of every layer."""
        return tuple(map(self.oldest, self.layers)) if self._oldest else self._none_lost

    def oldest(self, layer: CacheLayer) -> int:
        """Return the first position whose row the layer still has."""
        return self._oldest.get(layer.layer, 0)

    def writing(self, end: int) -> None:
        """Announce a step that writes positions up to `end`, and drafted tokens perhaps behind:
        rings lose what was there."""
        for layer in self.layers:
            if layer.layer in self._rings:
                lost = max(self._oldest[layer.layer], end + self._spare - layer.rows)
                self._oldest[layer.layer] = lost

    def append(self, tokens: Sequence[int], conditions: Conditions) -> None:
        self.tokens.extend(tokens)
        if (
            self._conditions
            and self._conditions[-1] is not conditions
            and self._conditions[-1] == conditions
        ):
            conditions = self._conditions[-1]  # one for a whole conversation, usually
        self._conditions.extend([conditions] * len(tokens))

    def skip(self, tokens: Sequence[int]) -> None:
        """Record tokens that come next and are forgotten without being computed."""
        if tokens:
            first = len(self.tokens) + sum(len(gap.tokens) for gap in self._gaps)
            self._gaps = (*self._gaps, Gap(first, tuple(tokens)))

    def truncate(self, length: int) -> None:
        self._gaps = self.contents.first(length).gaps if self._gaps else ()
        del self.tokens[length:]
        del self._conditions[length:]
        self.states.truncate(length)
        if length == 0:
            self._oldest = dict.fromkeys(self._oldest, 0)

    def forget(self, keep: int, drop: int) -> None:
        """Forget positions keep..keep+drop-1; what follows moves down. UnsupportedError unless it
        `can_forget`."""
        contents, length = self.contents.without(keep, drop), len(self)
        shift(self._executor, self._factors, keep=keep, drop=drop, length=length)
        for layer, oldest in self._oldest.items():
            if oldest >= keep:
                self._oldest[layer] = max(keep, oldest - drop)
        self.tokens[:] = contents.tokens
        self._conditions[:] = contents.conditions
        self._gaps = contents.gaps

    def copy_out(self, name: str, conversation: int = 0) -> Prefix:
        """Copy the whole cache."""
        rows = {}
        for layer in self.stored:
            first = self.oldest(layer)
            for tensor in layer.tensors:
                parts = [
                    self._executor.read_state(tensor.name, row, count)
                    for row, count in runs(first, len(self), tensor.ring_rows)
                ]
                data = np.concatenate(parts) if parts else _no_rows(tensor)
                rows[tensor.name] = CacheRows(first, data, tensor.dtype, tensor.block)
        lengths = self.states.worth_keeping(len(self))
        return Prefix(
            name,
            self.contents,
            rows,
            conversation,
            time.time(),
            recurrent=self.states.slots > 0,
            states={length: self.states.read(length) for length in lengths},
        )

    @contextmanager
    def scratch_steps(self, start: int, stop: int) -> Iterator[None]:
        """Steps inside may overwrite positions start..stop-1; all that a step writes (keys, values
        and queries) is restored on exit."""
        oldest, saved = dict(self._oldest), []
        for tensor in self._written:
            ring = tensor.ring_rows
            for row, count in runs(start, min(stop, start + ring), ring):
                rows = self._executor.read_state(tensor.name, row, count)
                saved.append((tensor.name, row, rows))
        self.writing(stop)
        try:
            with self.states.scratch_steps():
                yield
        finally:
            for name, row, rows in saved:
                self._executor.write_state(name, row, rows)
            self._oldest = oldest

    def values(self, layer: CacheLayer, tensor: Tensor, positions: range) -> NDArray[np.float32]:
        """Return the values of the rows of these positions, float32 [positions, G*d]; not for rows
        that a ring has lost."""
        return values_of(self._executor, tensor, positions)

    def same_as(self, prefix: Prefix) -> int:
        """Return how many leading positions have the tokens, provenance and gaps of the prefix."""
        mine, other = self.contents, prefix.contents
        limit = min(len(mine.tokens), len(other.tokens))
        if mine.gaps != other.gaps:
            limit = min([limit, *(gap.first for gap in mine.gaps + other.gaps)])
        same = common(mine.tokens, other.tokens, limit)
        return next((i for i in range(same) if mine.conditions[i] != other.conditions[i]), same)

    def copy_in(self, prefix: Prefix, length: int) -> int:
        """Replace the cache by the first `length` positions of the prefix; return how many had to
        be copied, as the others were the same."""
        unchanged = self.longest_usable(min(self.same_as(prefix), length))
        self.truncate(unchanged)
        for layer in self.stored:
            for tensor in layer.tensors:
                self._copy_rows(layer, tensor, prefix.rows[tensor.name], unchanged, length)
        contents = prefix.contents.first(length)
        rounded = coarsest(self.precision, precision_of(r.dtype for r in prefix.rows.values()))
        self.tokens[unchanged:] = contents.tokens[unchanged:]
        self._conditions[unchanged:] = [m.rounded(rounded) for m in contents.conditions[unchanged:]]
        self._gaps = contents.gaps
        for behind, state in prefix.states.items():
            if unchanged < behind <= length:
                self.states.write(behind, state)
        return length - unchanged

    def _copy_rows(
        self, layer: CacheLayer, tensor: Tensor, rows: CacheRows, kept: int, length: int
    ) -> None:
        ring = layer.layer in self._rings
        # A ring's rows of positions below `kept` may be gone by now: copy all that there are.
        first = max(rows.first, length - tensor.ring_rows if ring else kept)
        data = convert(rows, slice(first - rows.first, length - rows.first), tensor)
        if ring or first > kept:
            self._oldest[layer.layer] = first
        done = 0
        for row, count in runs(first, length, tensor.ring_rows):
            self._executor.write_state(tensor.name, row, data[done : done + count])
            done += count


def usable(prefix: Prefix, layers: Sequence[CacheLayer], length: int) -> bool:
    """Return True if a step could follow the prefix's first `length` positions when copied."""
    if prefix.recurrent and length and length not in prefix.states:
        return False
    return all(
        prefix.rows[layer.keys.name].first <= max(0, length - layer.window + 1)
        if layer.window
        else prefix.rows[layer.keys.name].first == 0
        for layer in layers
    )


def longest_usable(prefix: Prefix, layers: Sequence[CacheLayer], length: int) -> int:
    """Return the most of the prefix's first `length` positions that a step could follow when
    copied."""
    if prefix.recurrent:
        length = max((behind for behind in prefix.states if behind <= length), default=0)
    return length if usable(prefix, layers, length) else 0


def reusable_prefix_length(
    conditions: Sequence[Conditions],
    now: Conditions,
    *,
    any_weights: bool = False,
    any_changes: bool = False,
) -> int:
    """Return the number of leading positions whose values equal a fresh computation under the
    conditions of now. With `any_weights` those of other weights, arithmetic and precision count,
    too, and with `any_changes` those under other interventions."""
    known: dict[int, bool] = {}  # the objects are few and shared
    for index, m in enumerate(conditions):
        if id(m) not in known:
            rounded = coarsest(m.precision, now.precision) != now.precision
            alike = (m.weights, m.arithmetic) == (now.weights, now.arithmetic) and not rounded
            same = any_changes or m.interventions == now.interventions
            known[id(m)] = same and (any_weights or alike)
        if not known[id(m)]:
            return index
    return len(conditions)


def convert(rows: CacheRows, some: slice, tensor: Tensor) -> Bytes:
    """Return some of the rows in the tensor's format."""
    data = rows.data[some]
    if rows.dtype == tensor.dtype:
        return data
    values = state_rows.decode(data, rows.dtype, tensor.shape[1], rows.block)
    return state_rows.encode(values, tensor.dtype, tensor.block)


def values_of(executor: Executor, tensor: Tensor, positions: range) -> NDArray[np.float32]:
    """Return the values of rows of a state tensor, float32 [positions, columns]; position p is in
    row p mod the tensor's rows."""
    parts = [
        executor.read_state(tensor.name, row, count)
        for row, count in runs(positions.start, positions.stop, tensor.ring_rows)
    ]
    data = np.concatenate(parts) if parts else _no_rows(tensor)
    return state_rows.decode(data, tensor.dtype, tensor.shape[1], tensor.block)


def _no_rows(tensor: Tensor) -> Bytes:
    return np.zeros((0, tensor_row_bytes(tensor)), np.uint8)
