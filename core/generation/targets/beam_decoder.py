"""Decodes the hypotheses of a beam together, a segment of a shared step each."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from llm_lite.core.exec.executor import Executor, StopCheck
from llm_lite.core.finite import checked
from llm_lite.core.generation.targets.beam_search import BeamOptions, BeamSearch, Hypothesis
from llm_lite.core.plan.cache_layers import cache_layers
from llm_lite.core.plan.step import PAGE, Segment, Step

F32 = NDArray[np.float32]


class BeamDecoder:
    """Searches for a target by beams: `executor` runs a decoder's program with `beam_pages`; its
    source is there already."""

    def __init__(self, executor: Executor, source: int) -> None:
        """Decode with an executor of shared steps. source: positions of the encoder's cache."""
        pages = executor.program.pages
        assert pages is not None, "a program of shared steps"
        self._executor, self._source = executor, source
        caches = cache_layers(executor.program.plans[0])
        self._states = [tensor.name for layer in caches for tensor in layer.tensors]
        self._tables = np.arange(pages.pages, dtype=np.int32).reshape(pages.segments, pages.table)
        self._start = 0
        self._slots: list[int] = [0]  # of the running hypotheses

    def begin(self, start: int, options: BeamOptions) -> BeamSearch:
        """Begin a search whose hypotheses start behind this token; the one before ends."""
        self._start, self._slots = start, [0]
        return BeamSearch(options)

    def step(self, search: BeamSearch, should_stop: StopCheck | None = None) -> None:
        """Decode one token more. CancelledError once `should_stop` returns True."""
        length = len(search.running[0].tokens)
        tokens = [h.tokens[-1] if h.tokens else self._start for h in search.running]
        search.advance(self._logits(tokens, length, should_stop))
        self._move_caches(search.running, length + 1)

    def search(self, start: int, options: BeamOptions) -> BeamSearch:
        """Search from the token that decoding starts with to the end."""
        search = self.begin(start, options)
        while not search.is_done:
            self.step(search)
        return search

    def _logits(self, tokens: Sequence[int], start: int, should_stop: StopCheck | None) -> F32:
        """float32 [hypotheses, vocabulary] behind the tokens, which are at position `start`."""
        segments = tuple(Segment(start, 1, 1, self._tables[slot]) for slot in self._slots)
        step = Step(np.asarray(tokens, np.int32), 0, len(tokens), segments, source=self._source)
        return checked(self._executor.run(step, should_stop), "the logits of a beam")

    def _move_caches(self, running: Sequence[Hypothesis], length: int) -> None:
        """Move the caches of the hypotheses: each continues its parent's keys and values, the first
        child in place, others in a copy."""
        heirs: dict[int, int] = {}  # the first child of each parent
        for child, hypothesis in enumerate(running):
            heirs.setdefault(hypothesis.parent, child)
        kept = {self._slots[parent] for parent in heirs}
        free = [slot for slot in range(len(self._tables)) if slot not in kept]
        slots = []
        for child, hypothesis in enumerate(running):
            slot = self._slots[hypothesis.parent]
            if heirs[hypothesis.parent] != child:
                source, slot = slot, free.pop()
                self._copy(source, slot, length)
            slots.append(slot)
        self._slots = slots

    def _copy(self, source: int, target: int, length: int) -> None:
        """Copy the first `length` positions of a hypothesis."""
        for page, at in enumerate(range(0, length, PAGE)):
            rows = min(PAGE, length - at)
            first, second = (int(self._tables[s, page]) * PAGE for s in (source, target))
            for name in self._states:
                data = self._executor.read_state(name, first, rows)
                self._executor.write_state(name, second, data)
