"""Runs tokens of a sequence under interventions, or other tokens in its place, and stores nothing.

What a change at one token makes of later ones goes through keys, values and recurrent states. So a
part of a run stores its rows where the sequence has its own, and copies them to the host before all
of the cache is as it was; the next part, perhaps after steps of others, puts them back first.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from llm_lite.core.exec.executor import Executor
from llm_lite.core.kv_cache.states import State
from llm_lite.core.plan.cache_layers import stored_layers
from llm_lite.core.plan.ops import STORES
from llm_lite.core.plan.plan import Op, Plan, Tensor
from llm_lite.core.plan.step import Step
from llm_lite.core.questions.encoded_text import EncodedText
from llm_lite.core.questions.interventions.kind import SiteValues
from llm_lite.core.questions.interventions.table import PlacedChange
from llm_lite.core.questions.replay import PART, Replay
from llm_lite.core.questions.sites import Site
from llm_lite.core.records import replace

F32 = NDArray[np.float32]
Bytes = NDArray[np.uint8]
# Called with the step of each part, and which ops to leave out.
RunPart = Callable[[Step, Collection[str]], None]


class HandedSource(Struct, frozen=True):
    """The keys and values that the decoder of an encoder-decoder sees of a source of `length`
    tokens: rows uint8 [length, bytes], by state."""

    length: int
    rows: Mapping[str, Bytes]


class ChangedRun:
    """One run over tokens: those of the sequence under changes, or others from the beginning; of an
    encoder-decoder, about its own source or another."""

    def __init__(
        self,
        replay: Replay,
        changes: Sequence[PlacedChange] = (),
        tokens: Sequence[int] | None = None,
        source: HandedSource | None = None,
    ) -> None:
        self._replay, self._changes, self._source = replay, changes, source
        self._own = None if tokens is None else tuple(tokens)
        self.length = replay.length if tokens is None else len(tokens)
        stored = stored_layers(replay.executor.program.plans[0])
        self._tensors = [tensor for layer in stored for tensor in layer.tensors]
        self._rows: dict[str, list[tuple[range, Bytes]]] = {t.name: [] for t in self._tensors}

    @property
    def first_changed(self) -> int:
        """Return the first position whose values are other than those of the sequence."""
        if self._own is not None or self._source is not None:
            return 0
        positions = [
            0 if change.positions is None else min(change.positions, default=self.length)
            for change in self._changes
        ]
        return min(positions, default=self.length)

    def values(
        self, first: int, end: int, sites: Mapping[str, Site], together: int = PART
    ) -> Iterator[dict[str, F32]]:
        """Yield, part by part, what sites make of tokens first..end-1, by the names given, float32
        [tokens, columns]; of parts before `first`, which run for what they store, nothing."""
        begin = min(first, self.first_changed)
        yield from self._parts(
            begin, first, end, sites, lambda step: step.first_position >= first, together
        )

    def last_values(self, end: int, sites: Mapping[str, Site]) -> Iterator[dict[str, F32]]:
        """Yield, behind the last part, what sites behind the layers make of token end-1, float32
        [1, columns]; of the parts before, nothing."""
        begin = min(end - 1, self.first_changed)
        yield from self._parts(begin, begin, end, sites, lambda step: step.kv_length == end, PART)

    def _parts(
        self,
        begin: int,
        first: int,
        end: int,
        sites: Mapping[str, Site],
        is_shown: Callable[[Step], bool],
        together: int,
    ) -> Iterator[dict[str, F32]]:
        """Run tokens from `begin` on; a part ends before token `first`."""
        replay, found = self._replay, dict[str, F32]()

        def run_part(step: Step, skip: Collection[str]) -> None:
            if self._source is not None:
                step = replace(step, source=self._source.length)
            shown = sites if is_shown(step) else {}
            found.update(record(replay, step, shown, self._changes, skip))

        at, state = (0, None) if self._own is not None else replay.nearest(begin, end)
        while at < end:
            found.clear()
            if at < begin:  # for the recurrent states behind them
                stop = min(at + PART, begin)
                state = replay.run(at, stop, state, lambda step: run_part(step, STORES))
            else:
                stop = min(at + PART, first) if at < first else min(at + together, end)
                state = self._run_storing(begin, at, stop, state, run_part)
            at = stop
            yield dict(found)

    def _run_storing(
        self, begin: int, at: int, stop: int, state: State | None, run_part: RunPart
    ) -> State:
        replay = self._replay
        with replay.scratch(begin, stop), self._source_in_place():
            self._put_back(at)
            left = replay.run(at, stop, state, lambda step: run_part(step, ()), tokens=self._own)
            self._copy(range(at, stop))
        return left

    @contextmanager
    def _source_in_place(self) -> Iterator[None]:
        """Have the decoder see the other source, until steps of others run again."""
        if self._source is None:
            yield
            return
        executor, saved = self._replay.executor, dict[str, Bytes]()
        for name, rows in self._source.rows.items():
            saved[name] = executor.read_state(name, 0, len(rows)).copy()
            executor.write_state(name, 0, rows)
        try:
            yield
        finally:
            for name, rows in saved.items():
                executor.write_state(name, 0, rows)

    def _copy(self, positions: range) -> None:
        for tensor in self._tensors:
            parts = [
                self._replay.executor.read_state(tensor.name, row, count)
                for row, count in self._replay.places(tensor, positions)
            ]
            self._rows[tensor.name].append((positions, np.concatenate(parts)))

    def _put_back(self, at: int) -> None:
        """Write the rows of positions before `at` that this run has stored, as far as a tensor has
        rows for them."""
        for tensor in self._tensors:
            oldest = at - tensor.ring_rows
            for positions, rows in self._rows[tensor.name]:
                if positions.stop > oldest:
                    first = max(positions.start, oldest)
                    self._write(
                        tensor, range(first, positions.stop), rows[first - positions.start :]
                    )

    def _write(self, tensor: Tensor, positions: range, rows: Bytes) -> None:
        done = 0
        for row, count in self._replay.places(tensor, positions):
            self._replay.executor.write_state(tensor.name, row, rows[done : done + count])
            done += count


def record(
    replay: Replay | EncodedText,
    step: Step,
    sites: Mapping[str, Site],
    changes: Sequence[PlacedChange] = (),
    skip: Collection[str] = STORES,
    *,
    shown: slice | None = None,
    begin: int = 0,
    end: int | None = None,
) -> dict[str, F32]:
    """Run a step under changes, from the op `begin` on and to `end` or that of the last layer at
    least, without the ops named in `skip`; return by name what sites make of the rows that are
    `shown`, float32 [tokens, columns].

    A scratch tensor is changed, and read, before another takes its place.
    """
    executor, found, done = replay.executor, dict[str, F32](), begin
    plan = executor.program.plan_of(step)
    index_of = {op.label: index for index, op in enumerate(plan.ops)}  # plans differ in their ops
    names, acting = dict[int, list[str]](), dict[int, list[PlacedChange]]()
    for name, site in sites.items():
        names.setdefault(index_of[site.label], []).append(name)
    for change in changes:
        if change.positions is None or any(one in change.positions for one in step.positions):
            acting.setdefault(index_of[change.place.site.label], []).append(change)
    with replay.files.unchanged():
        for index in sorted({*names, *acting}):
            executor.run_ops(plan, step, done, index + 1, skip)
            done = index + 1
            if index in acting:
                _change(executor, plan, plan.ops[index], step, acting[index])
            if index in names:
                tensor = plan.tensors[plan.ops[index].outputs[0]]
                rows = executor.read(plan, tensor, step)
                rows = (rows if shown is None else rows[shown]).copy()
                found.update(dict.fromkeys(names[index], rows))
        # Recurrent states go on to the last layer.
        end = plan.layer_ends[-1] + 1 if end is None else end
        if done < end:
            executor.run_ops(plan, step, done, end, skip)
    return found


def _change(
    executor: Executor, plan: Plan, op: Op, step: Step, changes: Sequence[PlacedChange]
) -> None:
    tensor, experts = plan.tensors[op.outputs[0]], None
    if op.name == "route":  # the shares, in the order of the experts chosen
        experts, tensor = executor.read(plan, tensor, step), plan.tensors[op.outputs[1]]
    values = executor.read(plan, tensor, step).copy()
    positions = step.positions if tensor.rows == "tokens" else step.positions[step.output_tokens]
    found = SiteValues(values, positions.astype(np.int64), experts)
    for change in changes:
        change.apply(found)
    executor.write(plan, tensor, step, values)
