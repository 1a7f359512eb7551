"""The part of a sequence that inspection needs: its tokens, its cache, and running it again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

import numpy as np
from msgspec import Struct

from llm_lite.core.errors import RequestError
from llm_lite.core.exec.executor import Executor, StopCheck
from llm_lite.core.files.mapping import MappedFiles
from llm_lite.core.finite import Values
from llm_lite.core.kv_cache.contents import KvCache
from llm_lite.core.kv_cache.provenance import Conditions
from llm_lite.core.messages import Gains
from llm_lite.core.messages.interventions import Shifts
from llm_lite.core.plan.attention_layers import HEAD_GAINS
from llm_lite.core.plan.expert_layers import EXPERT_SWITCHES
from llm_lite.core.plan.plan import LAYER_SHIFTS, Program
from llm_lite.core.plan.step import Step
from llm_lite.core.records import replace


class SessionForMaps(Protocol):
    """The part of the interface for maps, from any thread."""

    @property
    def committed(self) -> Committed: ...

    def tokens(self) -> tuple[int, ...]: ...

    @property
    def source_tokens(self) -> tuple[int, ...]:
        """Return the tokens that cross-attention sees, whose keys the caches hold."""
        ...

    def checked(self, values: Values, what: str) -> Values:
        """Return the values. NotFiniteError that names the model where one is NaN or infinite."""
        ...


class InspectedSession(SessionForMaps, Protocol):
    """The part of the interface that runs ops again or reads the cache, between two steps."""

    executor: Executor
    files: MappedFiles
    cache: KvCache
    made_by: str  # names the weights and the executor's arithmetic

    @property
    def context_used(self) -> int: ...

    @property
    def source(self) -> int:
        """Return how many positions an encoder's keys and values have; 0: none."""
        ...

    @property
    def gains(self) -> Gains: ...

    @property
    def conditions(self) -> Conditions:
        """Return the conditions under which the next step computes."""
        ...

    def step(
        self,
        tokens: Sequence[int],
        start: int,
        outputs: int = 1,
        should_stop: StopCheck | None = None,
    ) -> Step:
        """Return the step over tokens of the conversation, from position `start` on. CancelledError
        once `should_stop` says so, where tokens before have to run again first."""
        ...

    def write_gains(self, gains: Gains) -> None:
        """Write the gains that the next step uses; `gains` stays what is in force."""
        ...

    def scratch_steps(self, start: int, count: int) -> AbstractContextManager[None]:
        """Let steps inside overwrite positions start..start+count-1; everything is restored on
        exit."""
        ...


class Committed(Struct, frozen=True):
    """The contents of the cache and the query rings between two steps."""

    version: int  # grows with every change
    length: int  # positions in the cache
    rows: range  # positions whose queries are kept
    epoch: int = 0  # grows when equal tokens may have other keys than before
    oldest: tuple[int, ...] = ()  # by owner of a cache, the first position whose key it has


class CommittedRows:
    """Keeps `state` true while a session writes; rings have `ring_rows` rows, 0 where none are."""

    def __init__(self, ring_rows: int) -> None:
        self.ring_rows = ring_rows
        self.state = Committed(0, 0, range(0))  # replaced, never changed: other threads read it

    @property
    def first(self) -> int:
        """Return the first position whose query is kept."""
        return self.state.rows.start

    def first_after(self, length: int) -> int:
        """Return the first position whose query is kept once `length` positions were written."""
        return max(self.first, length - self.ring_rows)

    def commit(self, length: int, first: int, oldest: Sequence[int]) -> None:
        """Record that the cache holds `length` positions, with queries kept from `first` on."""
        rows = range(first, length) if self.ring_rows else range(0)
        changed = (length, rows) != (self.state.length, self.state.rows)
        version = self.state.version + changed
        self.state = replace(
            self.state, version=version, length=length, rows=rows, oldest=tuple(oldest)
        )

    def begin_epoch(self) -> None:
        """Begin an epoch: equal tokens may have other keys from now on."""
        self.state = replace(self.state, version=self.state.version + 1, epoch=self.state.epoch + 1)

    def gains_changed(self) -> None:
        """Record that the rows are used with other gains from now on."""
        self.state = replace(self.state, version=self.state.version + 1)


class SequenceGains:
    """The gains of the sequence in a slot of an executor: of heads, and behind them the switches of
    experts, where the model has any."""

    def __init__(self, executor: Executor, slot: int = 0) -> None:
        self._executor, self._slot = executor, slot
        self._shapes = gains_shapes(executor.program)
        self.current: Gains = tuple(
            (1.0,) * columns for rows, columns in self._shapes.values() for _ in range(rows)
        )

    def check(self, gains: Gains) -> None:
        """Raise RequestError unless there is a finite number for every head of the model, and for
        its experts."""
        check_gains(gains, self._shapes)

    def write(self, gains: Gains) -> None:
        """Write the gains that the next step uses; `current` stays what is in force."""
        first = 0
        for name, (rows, _) in self._shapes.items():
            values = np.array(gains[first : first + rows], np.float32)
            self._executor.write_state(name, self._slot * rows, values.view(np.uint8))
            first += rows


class SequenceShifts:
    """The shifts of the sequence in a slot of an executor, once its program has plans for them."""

    def __init__(self, executor: Executor, slot: int = 0) -> None:
        self._executor, self._slot = executor, slot
        self._written: Shifts = ()
        self.current: Shifts = ()

    def write(self, shifts: Shifts) -> None:
        """Write the shifts that the next step uses; `current` stays what is in force."""
        if shifts == self._written:
            return
        rows, columns = shifts_shape(self._executor.program)
        values = np.zeros((rows, columns), np.float32)
        for layer, vector in shifts:
            values[layer] = vector
        self._executor.write_state(LAYER_SHIFTS, self._slot * rows, values.view(np.uint8))
        self._written = shifts


def shifts_shape(program: Program) -> tuple[int, int]:
    """Return the layers of a sequence's shifts, and the numbers of each. The program has shifted
    plans."""
    plan = next(plan for plan in program.plans if plan.shifted)
    state = next(tensor for tensor in plan.tensors if tensor.name == LAYER_SHIFTS)
    slots = program.pages.slots if program.pages else 1
    return state.shape[0] // slots, state.shape[1]


GainsShapes = Mapping[str, tuple[int, int]]  # state -> rows of a sequence, and numbers of each


def gains_shapes(program: Program) -> GainsShapes:
    """Return the states that a sequence's gains are written to, in the order of their rows."""
    found = {t.name: t.shape for t in program.plans[0].tensors}
    slots = program.pages.slots if program.pages else 1
    names = [name for name in (HEAD_GAINS, EXPERT_SWITCHES) if name in found]
    return {name: (found[name][0] // slots, found[name][1]) for name in names}


def check_gains(gains: Gains, shapes: GainsShapes) -> None:
    """Raise RequestError unless there is a finite number for every head of a model, and for its
    experts."""
    widths = [columns for rows, columns in shapes.values() for _ in range(rows)]
    if [len(row) for row in gains] != widths:
        layers, heads = shapes[HEAD_GAINS]
        behind = ""
        if EXPERT_SWITCHES in shapes:
            rows, columns = shapes[EXPERT_SWITCHES]
            behind = f", and {rows} of {columns} numbers for {columns // 2} experts"
        raise RequestError(f"gains: expected {layers} layers of {heads} heads each{behind}")
    if not all(abs(gain) <= 3e38 for row in gains for gain in row):  # of float32; NaN fails
        raise RequestError("gains: expected finite numbers")
