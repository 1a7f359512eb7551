"""`Batch` is the executor whose steps all answers share: that of the chat, where its conversation
is in pages (`EngineOptions.sequences`), or one beside it."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from llm_lite.core.errors import OutOfMemoryError, RequestError
from llm_lite.core.exec.executor import Executor, StopCheck
from llm_lite.core.inspect.inspected import HeadGains
from llm_lite.core.loading import backends
from llm_lite.core.loading.beside import executor_beside
from llm_lite.core.loading.runner import Runner
from llm_lite.core.memory import available_bytes
from llm_lite.core.messages import Gains, StartServing
from llm_lite.core.models.model import Slice
from llm_lite.core.plan.attention_layers import AttentionLayer, attention_layers
from llm_lite.core.plan.cache_layers import cache_layers
from llm_lite.core.plan.plan import Kind, tensor_row_bytes
from llm_lite.core.plan.step import PAGE, Segment, Step, pages_for
from llm_lite.core.plan.traffic import token_read_bytes
from llm_lite.core.serving.pages import PagePool

if TYPE_CHECKING:
    from llm_lite.core.gpu.info import DeviceInfo


MOST_PARALLEL = 64


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
            HeadGains(self._executor, slot).write(gains)
        self._slots[gains] = slot
        return slot


class Batch:
    """The batch belongs to one runner, which closes the executor with its own. Heads have the
    gains of each answer here, whatever a person has set for the chat."""

    def __init__(
        self,
        runner: Runner,
        options: StartServing,
        segments: int = 0,
        draft_slice: Slice | None = None,
    ) -> None:
        """Reserve `segments` in each step, or as many as answers run at once if these are more.
        With `draft_slice`, the model's, the program has the slice too.

        Raises RequestError where the model or the memory has no room for what is asked,
        UnsupportedError where the executor has no shared steps, and DeviceError.
        """
        self.runner = runner
        if runner.translator is not None:
            raise RequestError(
                f"{runner.model_info.name} is an encoder-decoder, which writes a target about a "
                "source: a server answers chats and goes on with texts; `llm-lite translate` "
                "writes targets"
            )
        self.context = _context(runner, options)
        if not 1 <= options.parallel <= MOST_PARALLEL:
            raise RequestError(
                f"answers at once: expected 1 to {MOST_PARALLEL}, found {options.parallel}"
            )
        self.segments = max(options.parallel, segments)
        self.is_the_chats = _has_room(runner, options, draft_slice)
        if self.is_the_chats:
            self.executor = runner.executor
            pages = runner.executor.program.pages
            self.segments = min(self.segments, pages.segments if pages else 1)
            own = pages_for(self.executor.program.context)  # the chat's pages come first
            self.pool = PagePool(options.parallel * own, own)
        else:
            self.pool = PagePool(_page_count(runner, options, self.context))
            self.executor = self._beside(runner, options, draft_slice)
        self.program = self.executor.program
        self.slots = GainSlots(self.executor, int(self.is_the_chats), options.parallel)
        self.steps, self.step_seconds = 0, 0.0  # of all steps
        self.last_seconds = 0.0

    def _beside(self, runner: Runner, options: StartServing, draft_slice: Slice | None) -> Executor:
        build = backends.shared_build_options(
            runner.choice,
            runner.options,
            runner.model.shape,
            context=self.context,
            sequences=self.segments,
            pages=self.pool.count,
            slots=1 + options.parallel,
            draft_slice=draft_slice,
        )
        return executor_beside(runner, runner.model, build)

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
        outputs = sum(segment.outputs for segment in segments)
        step = Step(ids, 0, outputs, segments)
        with self.runner.session.files.unchanged():
            began = time.perf_counter()
            logits = self.executor.run(step, should_stop)
            self.last_seconds = time.perf_counter() - began
        self.steps += 1
        self.step_seconds += self.last_seconds
        return logits

    def draft(
        self, token: int, segment: Segment, should_stop: StopCheck | None = None
    ) -> NDArray[np.float32]:
        """Run a step of the slice, which is not counted; return logits float32 [vocabulary]."""
        step = Step(np.array([token], np.int32), 0, 1, (segment,), sliced=True)
        with self.runner.session.files.unchanged():
            return self.executor.run(step, should_stop)[0]

    def read_bytes(self, positions: int) -> int:
        """Return the bytes of memory that one token reads behind so many positions, were it
        alone."""
        return token_read_bytes(self.program.plans[0], positions)

    def close(self) -> None:
        if self.executor in self.runner.beside:
            self.runner.beside.remove(self.executor)
            self.executor.close()


def _has_room(runner: Runner, options: StartServing, draft_slice: Slice | None) -> bool:
    """Return whether the chat's executor has pages and slots for as many answers."""
    program = runner.executor.program
    has_slice = program.has_slice or draft_slice is None
    return runner.options.sequences > options.parallel and program.pages is not None and has_slice


def _context(runner: Runner, options: StartServing) -> int:
    loaded = runner.executor.program.context
    if not 0 <= options.context <= loaded:
        raise RequestError(
            f"context of an answer: expected at most {loaded} tokens, as the model is loaded with, "
            f"found {options.context}"
        )
    return options.context or loaded


def _page_count(runner: Runner, options: StartServing, context: int) -> int:
    """Return as many pages as the budget has room for. Without a budget: what all answers take
    at once, within half of the free memory and what a device can use, but enough for one answer."""
    rows, info = _row_bytes(runner), runner.choice.info
    least, page = pages_for(context), PAGE * sum(rows)
    budget = options.cache_budget
    if not budget:
        free = free_bytes(info, runner.executor)
        budget = options.parallel * least * page
        budget = budget if free is None else min(budget, free // 2)
    count, most = budget // page, most_pages(info, rows)
    count = count if most is None else min(count, most)
    if count < least:
        raise OutOfMemoryError(
            f"the cache of one answer of {context} tokens takes {least * page / 2**20:.0f} MiB, "
            f"there are {count * page / 2**20:.0f} MiB for it: serve with a smaller context"
        )
    return count


def _row_bytes(runner: Runner) -> list[int]:
    """Return the bytes of one position in every cache."""
    layers = cache_layers(runner.executor.program.plans[0])
    found = [tensor_row_bytes(tensor) for layer in layers for tensor in layer.tensors]
    if runner.options.query_budget > 0:
        shape = runner.model_file.model.shape
        value = backends.query_bytes(shape, runner.options) // shape.query_values
        widths = shape.query_widths or (shape.head_dim,) * shape.layers
        found += [value * shape.heads * width for width in widths]
    return found


def free_bytes(info: DeviceInfo | None, executor: Executor) -> int | None:
    """Return the bytes free beside `executor`: of a device with its own memory, or else of this
    machine; None where the system does not say."""
    if info is None or info.kind != "discrete":
        return available_bytes()
    states = {t.name: t for t in executor.program.plans[0].tensors if t.kind is Kind.STATE}
    used = sum(t.shape[0] * tensor_row_bytes(t) for t in states.values())
    return max(0, info.memory_bytes - executor.weight_bytes - used)


def most_pages(info: DeviceInfo | None, row_bytes: Iterable[int]) -> int | None:
    """Return the most pages of caches with rows of these sizes: a device binds each cache whole.
    None if any number will do."""
    if info is None:
        return None
    return info.max_storage_buffer_range // (PAGE * max(row_bytes))
