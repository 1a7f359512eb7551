"""`Batch` is the chat's executor as clients see it: its steps, which all answers share, and the
pages of their cache."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from llm_lite.core.exec.executor import Executor, StopCheck
from llm_lite.core.inspect.inspected import SequenceGains
from llm_lite.core.loading.client_room import context_of
from llm_lite.core.loading.runner import Runner
from llm_lite.core.messages import Gains, StartServing
from llm_lite.core.plan.attention_layers import AttentionLayer, attention_layers
from llm_lite.core.plan.step import Segment, Step
from llm_lite.core.plan.traffic import token_read_bytes
from llm_lite.core.serving.client_states import ClientStates
from llm_lite.core.serving.pages import PagePool
from llm_lite.core.serving.tally import Tally
from llm_lite.core.serving.window_places import WindowPlaces


class GainSlots:
    """The gains of heads that a step can have. In slot `plain` every head has 1; of the `count`
    behind it, the least recently used one gets gains that none has."""

    def __init__(self, executor: Executor, plain: int, count: int) -> None:
        self._executor, self._plain = executor, plain
        self._free = list(range(plain + 1, plain + 1 + count))
        self._slots = OrderedDict[Gains, int]()  # the least recently used first

    def slot_of(self, gains: Gains | None) -> int:
        """Return the slot of gains, None for 1 everywhere. `count` calls later it may have others:
        a step has no more."""
        if gains is None:
            return self._plain
        slot = self._slots.pop(gains, None)
        if slot is None:
            slot = self._free.pop() if self._free else self._slots.popitem(last=False)[1]
            SequenceGains(self._executor, slot).write(gains)
        self._slots[gains] = slot
        return slot


class Batch:
    """The batch belongs to one runner, whose executor has room for clients beside the chat
    (`core/loading/client_room.py`). Heads have the gains of each answer here, whatever a person has
    set for the chat."""

    def __init__(self, runner: Runner, options: StartServing, tally: Tally) -> None:
        self.runner, self.executor = runner, runner.executor
        self._tally = tally
        self.program = self.executor.program
        assert self.program.pages is not None, "an executor with room for clients"
        pages = self.program.pages
        self.context = context_of(runner, options)
        self.segments = pages.segments
        windows = WindowPlaces(pages) if pages.windowed else None
        count, states = pages.client_states, None
        if count:
            states = ClientStates(pages.states - count, count)
        self.pool = PagePool(pages.shared, pages.ringed, windows, states)  # the chat's come first
        self.slots = GainSlots(self.executor, 1, options.parallel)
        self.last_seconds = 0.0

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
        step = self.step(ids, segments)
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
    ) -> Step:
        """Return the step of tokens of these segments, over the pages of the pool."""
        ids, outputs = np.asarray(tokens, np.int32), sum(one.outputs for one in segments)
        return Step(ids, 0, outputs, segments, sliced=sliced, windows=self.pool.window_table)

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
