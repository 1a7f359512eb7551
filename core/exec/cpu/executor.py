"""The C++ executor: hands each plan over once as flat arrays, then makes one call a step.

Weights are read as `weights` says; state and scratch are the executor's own memory.
"""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Collection, Mapping, Sequence

import numpy as np
from llm_lite_kernels import _cpp
from numpy.typing import NDArray

from llm_lite.core.errors import (
    CancelledError,
    OutOfDeviceMemoryError,
    RequestError,
    UnsupportedError,
)
from llm_lite.core.exec.cpu.plan_rows import plan_rows, vectors
from llm_lite.core.exec.cpu.weights import CpuWeight, for_products, readable
from llm_lite.core.exec.executor import StopCheck
from llm_lite.core.exec.parts import Cut, held, whole_plan
from llm_lite.core.exec.step_check import check_step, known_tokens
from llm_lite.core.files.mapping import drop_pages
from llm_lite.core.plan.expert_layers import expert_weights
from llm_lite.core.plan.plan import Kind, Plan, Program, Tensor, tensor_row_bytes
from llm_lite.core.plan.step import I32, Step
from llm_lite.core.processor import (
    available_isas,
    chosen_threads,
    default_threads,
    emulated_isas,
)
from llm_lite.core.quant import rows
from llm_lite.core.quant.blocks import a8
from llm_lite.core.quant.formats import FORMATS
from llm_lite.core.quant.tensor import TensorData

F32 = NDArray[np.float32]

_FROM_FILE = (Kind.WEIGHT, Kind.TABLE)
_TOKENS_HELD = 64  # whose rows of tables stay in memory
_SMALL_PAGES = 2 << 20  # bytes at the beginning of each state
_SLICE_US = 20_000  # how long the C++ side runs before Python looks for a wish to stop


class CpuExecutor:
    """The C++ executor; see `core.exec.executor.Executor`. threads=0: one a core; isa: one of
    `available_isas()`; experts_in_file: blocks of experts are read where they are mapped;
    beside: it runs the parts that are apart, beside an executor of the others.

    Raises RequestError for an instruction set or threads that cannot run here, ValueError for
    weights that do not fit the program, OutOfDeviceMemoryError where the cache does not fit into
    memory.
    """

    def __init__(
        self,
        program: Program,
        weights: Mapping[str, TensorData],
        threads: int = 0,
        *,
        isa: str | None = None,
        experts_in_file: bool = False,
        beside: Cut | None = None,
    ) -> None:
        self.program = program
        self.isa_name = _choose_isa(isa)
        self.threads = chosen_threads(threads)
        self._beside = beside
        cut = beside or whole_plan
        self._parts = {id(plan): cut(plan) for plan in program.plans}
        self._held = held(program, cut, apart=beside is not None)
        names = {t.name for t in self._held if t.kind in _FROM_FILE}
        tables = {t.name for t in self._held if t.kind is Kind.TABLE}
        experts = expert_weights(program) if experts_in_file else frozenset[str]()
        self._weights = _prepared({n: weights[n] for n in sorted(names)}, tables, experts)
        self._tables = [self._weights[name].data for name in sorted(tables)]
        self._looked_up = 0  # tokens since the pages of tables were dropped
        self._vocabulary = known_tokens(program)
        try:
            self._allocate()
        except MemoryError as error:
            raise OutOfDeviceMemoryError(
                f"not enough memory for a context of {program.context} tokens: "
                f"{_state_bytes(program) / 2**20:.0f} MiB are needed; choose a shorter context"
            ) from error
        except RuntimeError as error:
            raise RequestError(f"{self.threads} threads cannot be started: {error}") from error

    def _allocate(self) -> None:
        program = self.program
        states = {t.name: t for t in self._held if t.kind is Kind.STATE}
        self._state_tensors = states
        self._elsewhere = vectors(program)  # in place of what it does not have
        # The words of the last step, which several parts of a plan may be run for.
        self._packed: tuple[Plan, Step, I32] | None = None
        self._state = {name: _filled(t) for name, t in states.items()}
        self._open_plans(_memory(max(plan.scratch_bytes for plan in program.plans)))

    def _open_plans(self, arena: _cpp.Memory) -> None:
        program, self._arena = self.program, arena
        self._logits = [self._logits_of(plan) for plan in program.plans]
        self._heads = [_head_of(plan) for plan in program.plans]
        self._interpreter: _cpp.Interpreter | None = _cpp.Interpreter(self.isa_name, self.threads)
        for plan in program.plans:  # known to the interpreter by their numbers
            self._interpreter.add_plan(*plan_rows(program, plan, self._place))

    def extend(self, program: Program) -> None:
        if self._beside is not None:
            raise UnsupportedError("the steps are shared with another executor")
        states = {t.name: t for p in program.plans for t in p.tensors if t.kind is Kind.STATE}
        try:
            arena = _memory(max(plan.scratch_bytes for plan in program.plans))
            more = {name: _filled(t) for name, t in states.items() if name not in self._state}
        except MemoryError as error:
            raise OutOfDeviceMemoryError("not enough memory for further states") from error
        self.program, self._packed = program, None
        self._parts = {id(plan): whole_plan(plan) for plan in program.plans}
        self._state_tensors, self._state = states, self._state | more
        self._open_plans(arena)

    def _logits_of(self, plan: Plan) -> F32:
        """Return float32 [most outputs, vocabulary], the memory itself."""
        tensor = plan.tensors[plan.logits]
        count, columns = tensor.shape
        memory = np.asarray(self._arena)[tensor.offset :][: 4 * count * columns]
        return memory.view(np.float32).reshape(count, columns)

    @property
    def weight_bytes(self) -> int:
        return sum(weight.source.nbytes for weight in self._weights.values())

    def run(self, step: Step, should_stop: StopCheck | None = None) -> F32:
        plan = self.program.plan_of(step)
        number = self.program.plans.index(plan)
        last = len(plan.ops) if step.outputs else self._heads[number]
        self._run(plan, step, 0, last, should_stop)
        return self._logits[number][: step.outputs].copy()

    def _let_tables_go(self, tokens: int) -> None:
        """Drop the pages of tables: a row that is read brings 64 KiB around it into this process's
        memory."""
        self._looked_up += tokens
        if self._looked_up >= _TOKENS_HELD:
            self._looked_up = 0
            for table in self._tables:
                drop_pages(table)

    def run_ops(
        self,
        plan: Plan,
        step: Step,
        first: int,
        last: int,
        skip: Collection[str] = (),
        should_stop: StopCheck | None = None,
    ) -> None:
        skipped = [i for i in range(first, last) if plan.ops[i].name in skip]
        for begin, end in itertools.pairwise([first - 1, *skipped, last]):
            self._run(plan, step, begin + 1, end, should_stop)

    def run_part(
        self,
        plan: Plan,
        step: Step,
        index: int,
        given: Sequence[NDArray[np.uint8]],
        should_stop: StopCheck | None = None,
    ) -> list[NDArray[np.uint8]]:
        parts = self._parts[id(plan)]
        for tensor, data in zip(parts[index].takes, given, strict=True):
            self.give(tensor, step, data)
        self._run(plan, step, parts[index].first, parts[index].last, should_stop)
        following = parts[index + 1 : index + 2]
        return [self.take(tensor, step) for part in following for tensor in part.takes]

    def give(self, tensor: Tensor, step: Step, data: NDArray[np.uint8]) -> None:
        self._rows(tensor, step)[:] = data

    def take(self, tensor: Tensor, step: Step) -> NDArray[np.uint8]:
        return self._rows(tensor, step)

    def read(self, plan: Plan, tensor: Tensor, step: Step) -> F32:
        memory = self._rows(tensor, step)
        if tensor.dtype == "a8":
            return a8.decode_rows(memory, tensor.shape[1])
        return rows.decode(memory, tensor.dtype, tensor.shape[1], tensor.block)

    def write(self, plan: Plan, tensor: Tensor, step: Step, values: F32) -> None:
        assert tensor.kind is not Kind.WEIGHT and tensor.dtype != "a8", tensor.name
        memory = self._rows(tensor, step)
        memory[:] = rows.encode(values, tensor.dtype, tensor.block)

    def host_state(self, name: str) -> NDArray[np.uint8]:
        columns = tensor_row_bytes(self._state_tensors[name])
        return np.asarray(self._state[name]).reshape(-1, columns)

    def read_state(self, name: str, first: int, count: int) -> NDArray[np.uint8]:
        return self.host_state(name)[first : first + count].copy()

    def write_state(self, name: str, first: int, data: NDArray[np.uint8]) -> None:
        self.host_state(name)[first : first + len(data)] = data

    def device_state(self, name: str) -> None:
        return None

    def measure(self, plan: Plan, step: Step, times: int = 1) -> tuple[float, list[float]]:
        """Measure a plan as `Executor.measure` does; an op's seconds are a mean over the
        threads."""
        assert self._interpreter is not None, "the executor is closed"
        self._interpreter.measure(True)
        began = time.perf_counter()
        for _ in range(times):
            self._run(plan, step, 0, len(plan.ops), None)
        whole = (time.perf_counter() - began) / times
        busy = self._interpreter.busy_seconds(self.program.plans.index(plan))
        self._interpreter.measure(False)
        return whole, [seconds / times / self.threads for seconds in busy]

    def leave_a_core(self, wanted: bool) -> None:
        """Leave a core to others as `Executor.leave_a_core` does: a thread that shares its core
        keeps the other threads waiting."""
        interpreter = self._interpreter
        if interpreter is not None:
            interpreter.use(min(self.threads, default_threads() - wanted))

    def close(self) -> None:
        """Ends the threads and frees the state; the executor runs no more steps."""
        self._interpreter = None
        self._logits = []
        self._state = {}
        self._weights = {}

    def _run(
        self, plan: Plan, step: Step, first: int, last: int, should_stop: StopCheck | None
    ) -> None:
        assert self._interpreter is not None, "the executor is closed"
        words = self._words(plan, step)
        number = self.program.plans.index(plan)
        while first < last:
            if should_stop is not None and should_stop():
                raise CancelledError("stopped")
            first = self._interpreter.run(number, words, first, last, _SLICE_US)

    def _words(self, plan: Plan, step: Step) -> I32:
        last = self._packed
        if last is None or last[0] is not plan or last[1] is not step:
            self._let_tables_go(step.count)
            check_step(self.program, plan, step, self._vocabulary)
            words = step.pack(plan.max_tokens, self.program.pages, plan.max_outputs)
            last = self._packed = plan, step, words
        return last[2]

    def _rows(self, tensor: Tensor, step: Step) -> NDArray[np.uint8]:
        """Return uint8 [rows in use, bytes of a row], the memory itself."""
        columns = tensor_row_bytes(tensor)
        count = tensor.rows_in(step)
        if tensor.kind is Kind.STATE:
            memory = np.asarray(self._state[tensor.name])
            return memory.reshape(-1, columns)[:count]
        memory = np.asarray(self._arena)[tensor.offset :]
        return memory[: count * columns].reshape(count, columns)

    def _place(self, tensor: Tensor) -> tuple[str, int]:
        """Return the type by which the kernels know the tensor, and its address."""
        if tensor.kind not in _FROM_FILE:
            return tensor.dtype, self._address(tensor)
        weight = self._weights.get(tensor.name)
        if weight is None:
            dtype = FORMATS[tensor.dtype].multiplied if tensor.kind is Kind.WEIGHT else tensor.dtype
            return dtype, int(self._elsewhere.ctypes.data)
        source = weight.source
        if (source.dtype, source.shape) != (tensor.dtype, tensor.shape):
            raise ValueError(
                f"weight {tensor.name}: the plan expects {tensor.dtype} {tensor.shape}, "
                f"found {source.dtype} {source.shape}"
            )
        return weight.dtype, int(weight.data.ctypes.data)

    def _address(self, tensor: Tensor) -> int:
        if tensor.kind is Kind.STATE:
            memory = self._state.get(tensor.name)
            return int((self._elsewhere if memory is None else np.asarray(memory)).ctypes.data)
        return int(np.asarray(self._arena).ctypes.data) + tensor.offset


def _memory(size: int) -> _cpp.Memory:
    if size > sys.maxsize // 2:
        raise MemoryError
    return _cpp.Memory(size)


def _filled(tensor: Tensor) -> _cpp.Memory:
    """Return memory of a state tensor with its initial value in it; new memory is zero.

    Long caches lie in large pages: a stream through small ones is a tenth slower. The first rows do
    not, so that a short conversation takes no more memory than it fills.
    """
    memory = _memory(_tensor_bytes(tensor))
    memory.wish_for_large_pages(_SMALL_PAGES)
    if tensor.fill:
        np.asarray(memory).view(rows.FLOATS[tensor.dtype])[:] = tensor.fill
    return memory


def _prepared(
    weights: Mapping[str, TensorData], tables: Collection[str], in_file: Collection[str]
) -> dict[str, CpuWeight]:
    """Return the weights laid out for the kernels; tables stay where they are, as only rows of them
    are read, and so do those that are named in `in_file`."""
    try:
        multiplied = [weight for name, weight in weights.items() if name not in tables]
        read = {name: readable(weights[name]) for name in tables}
        return read | for_products(multiplied, in_file)
    except MemoryError as error:
        size = sum(weight.nbytes for weight in weights.values())
        raise OutOfDeviceMemoryError(
            f"not enough memory to lay out the weights for this processor: "
            f"{size / 2**20:.0f} MiB are needed; a variant made by `llm-lite quantize` needs none"
        ) from error


def _choose_isa(asked: str | None) -> str:
    names = available_isas()
    if asked is not None and asked not in [*names, *emulated_isas()]:
        raise RequestError(f"instruction set {asked!r}: expected one of {', '.join(names)}")
    return asked or names[-1]


def _state_bytes(program: Program) -> int:
    states = {t.name: t for p in program.plans for t in p.tensors if t.kind is Kind.STATE}
    return sum(_tensor_bytes(t) for t in states.values())


def _tensor_bytes(tensor: Tensor) -> int:
    return tensor.shape[0] * tensor_row_bytes(tensor)


def _head_of(plan: Plan) -> int:
    """Return the index of the first op that makes logits."""
    return next((i for i, op in enumerate(plan.ops) if op.name == "output_rows"), len(plan.ops))
