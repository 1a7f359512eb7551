"""`Batch` is the chat's executor as clients see it: its steps, which all answers share, and the
pages of their cache."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from llm_lite.core.exec.executor import StopCheck
from llm_lite.core.inspect.inspected import SequenceGains, SequenceShifts
from llm_lite.core.loading.client_room import context_of
from llm_lite.core.loading.runner import Runner
from llm_lite.core.messages import StartServing
from llm_lite.core.messages.interventions import UNCHANGED, LiveChanges
from llm_lite.core.plan.attention_layers import AttentionLayer, attention_layers
from llm_lite.core.plan.plan import Program
from llm_lite.core.plan.step import Segment, Step
from llm_lite.core.plan.traffic import token_read_bytes
from llm_lite.core.serving.client_states import ClientStates
from llm_lite.core.serving.pages import PagePool
from llm_lite.core.serving.tally import Tally
from llm_lite.core.serving.window_places import WindowPlaces


class ChangeSlots:
    """The gains and shifts that a step can have. In slot `plain` nothing is changed; of the `count`
    behind it, the least recently used one gets those that none has."""

    def __init__(self, runner: Runner, plain: int, count: int) -> None:
        self._runner, self.plain = runner, plain
        self._free = list(range(plain + 1, plain + 1 + count))
        self._slots = OrderedDict[LiveChanges, int]()  # the least recently used first
        self._shifts: dict[int, SequenceShifts] = {}  # by slot, once it has had any

    def slot_of(self, changes: LiveChanges) -> int:
        """Return the slot of interventions. `count` calls later it may have others: a step has no
        more. RequestError where what layers leave cannot be shifted."""
        if changes == UNCHANGED:
            return self.plain
        slot = self._slots.pop(changes, None)
        if slot is None:
            if changes.shifts:
                self._runner.enable_shifts()
            slot = self._free.pop() if self._free else self._slots.popitem(last=False)[1]
            self._write(slot, changes)
        self._slots[changes] = slot
        return slot

    def _write(self, slot: int, changes: LiveChanges) -> None:
        executor = self._runner.executor
        heads = SequenceGains(executor, slot)
        heads.write(heads.current if changes.gains is None else changes.gains)
        if changes.shifts or slot in self._shifts:
            self._shifts.setdefault(slot, SequenceShifts(executor, slot)).write(changes.shifts)

    def shift(self, segments: Iterable[Segment]) -> bool:
        """Return whether what layers leave is shifted for one of these sequences."""
        shifted = {slot for changes, slot in self._slots.items() if changes.shifts}
        return bool(shifted) and any(one.slot in shifted for one in segments)


class Batch:
    """The batch belongs to one runner, whose executor has room for clients beside the chat
    (`core/loading/client_room.py`). Each answer has its own interventions here, whatever is set for
    the chat."""

    def __init__(self, runner: Runner, options: StartServing, tally: Tally) -> None:
        self.runner, self.executor = runner, runner.executor
        self._tally = tally
        assert self.program.pages is not None, "an executor with room for clients"
        pages = self.program.pages
        self.context = context_of(runner, options)
        self.segments = pages.segments
        windows = WindowPlaces(pages) if pages.windowed else None
        count, states = pages.client_states, None
        if count:
            states = ClientStates(pages.states - count, count)
        self.pool = PagePool(pages.shared, pages.ringed, windows, states)  # the chat's come first
        self.slots = ChangeSlots(runner, 1, options.parallel)
        self.last_seconds = 0.0

    @property
    def program(self) -> Program:
        return self.executor.program

    @property
    def vocabulary(self) -> int:
        return self.program.vocabulary

    @cached_property
    def layers(self) -> tuple[AttentionLayer, ...]:
        weights = self.runner.weights
        plan = self.program.plans[0]
        return attention_layers(plan, lambda name: weights[name].dequantize().tolist())

    def run(
        self,
        tokens: Sequence[int],
        segments: tuple[Segment, ...],
        should_stop: StopCheck | None = None,
        chat: Step | None = None,
    ) -> NDArray[np.float32]:
        """Run one step, with that of the chat before all others if there is one; return logits
        float32 [outputs of all segments, vocabulary]."""
        ids = np.asarray(tokens, np.int32)
        if chat is not None:
            ids, segments = np.concatenate([chat.tokens, ids]), (*chat.segments, *segments)
        step = self.step(ids, segments, shifted=chat is not None and chat.shifted)
        with self.runner.session.files.unchanged():
            began = time.perf_counter()
            logits = self.executor.run(step, should_stop)
            self.last_seconds = time.perf_counter() - began
        self._tally.count_step(self.last_seconds)
        return logits

    def step(
        self,
        tokens: Sequence[int] | NDArray[np.int32],
        segments: tuple[Segment, ...],
        *,
        sliced: bool = False,
        shifted: bool = False,
    ) -> Step:
        """Return the step of tokens of these segments, over the pages of the pool; `shifted` where
        one has shifts that `slots` does not know."""
        ids, outputs = np.asarray(tokens, np.int32), sum(one.outputs for one in segments)
        return Step(
            ids,
            0,
            outputs,
            segments,
            sliced=sliced,
            shifted=shifted or self.slots.shift(segments),
            windows=self.pool.window_table,
        )

    def draft(
        self, token: int, segment: Segment, should_stop: StopCheck | None = None
    ) -> NDArray[np.float32]:
        """Run a step of the slice, which is not counted; return logits float32 [vocabulary]."""
        step = self.step([token], (segment,), sliced=True)
        with self.runner.session.files.unchanged():
            return self.executor.run(step, should_stop)[0]

    def read_bytes(self, positions: int) -> int:
        """Return the bytes of memory that one token reads behind so many positions, were it
        alone."""
        return token_read_bytes(self.program.plans[0], positions)
