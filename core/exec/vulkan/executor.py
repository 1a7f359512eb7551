"""The Vulkan executor: a plan is recorded once and replayed; a decoded token records nothing."""

from __future__ import annotations

import logging
import math
import time
from collections import ChainMap
from collections.abc import Collection, Mapping, Sequence
from typing import Any, cast

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from llm_lite.core.errors import DeviceError, DeviceLostError, UnsupportedError
from llm_lite.core.exec.executor import Progress, StopCheck
from llm_lite.core.exec.parts import (
    Bytes,
    Cut,
    PartRunner,
    PlanPart,
    held,
    most_crossing,
    whole_plan,
)
from llm_lite.core.exec.reference import table_rows
from llm_lite.core.exec.step_check import check_step, known_tokens
from llm_lite.core.exec.vulkan.alike import few_tokens, fusions_of, sub_steps
from llm_lite.core.exec.vulkan.attention import attention_part_bytes
from llm_lite.core.exec.vulkan.dispatch import Dispatch
from llm_lite.core.exec.vulkan.fusion import Group, groups_of, placed
from llm_lite.core.exec.vulkan.kernels import dispatches, group_dispatches
from llm_lite.core.exec.vulkan.memory import STORAGE, Arena, FixedArena, WeightPart, Weights
from llm_lite.core.exec.vulkan.pacing import Pacer
from llm_lite.core.exec.vulkan.record import OpRecordings, Recorder
from llm_lite.core.exec.vulkan.tuning import Tuning
from llm_lite.core.gpu.commands import CommandPool
from llm_lite.core.gpu.device import Device
from llm_lite.core.gpu.memory import Buffer
from llm_lite.core.gpu.pipeline_store import Pipelines
from llm_lite.core.gpu.pipelines import BufferRange, DescriptorSets
from llm_lite.core.gpu.timing import Timestamps
from llm_lite.core.plan.plan import LEFT_OUT, Kind, Op, Plan, Program, Tensor, tensor_row_bytes
from llm_lite.core.plan.step import Step
from llm_lite.core.plan.traffic import op_read_bytes
from llm_lite.core.quant import rows
from llm_lite.core.quant.blocks import a8
from llm_lite.core.quant.tensor import TensorData, with_own_vectors

log = logging.getLogger(__name__)

F32 = NDArray[np.float32]
READBACK_BYTES = 8 << 20  # larger logits are copied out in pieces instead
TABLE_BYTES = 1 << 16  # of constant tables, as of rotary frequencies


_Crossing = tuple[tuple[int, Tensor], ...]  # bytes into what both see, and what lies there


class Recording(Struct, frozen=True):
    segments: list[Any]  # command buffers
    pacer: Pacer
    reads_back: bool  # the last segment copies the logits to the host
    # What is copied in before, and out behind it: where in memory that both see.
    takes: _Crossing = ()
    gives: _Crossing = ()


class VulkanExecutor:
    """Weights, cache and recordings of one program on a device that others use too.

    `progress` is called with 0..1 while the weights are uploaded. `beside`: an executor of the same
    weights on this device; what it has uploaded serves both. Raises DeviceLostError
    and OutOfDeviceMemoryError; `close` frees everything and leaves the device open. `partner`: who
    runs the parts of a plan that are apart by `cut`; it becomes this executor's own.
    """

    def __init__(
        self,
        device: Device,
        program: Program,
        weights: Mapping[str, TensorData],
        *,
        progress: Progress | None = None,
        tuning: Tuning | None = None,
        beside: VulkanExecutor | None = None,
        partner: PartRunner | None = None,
        cut: Cut = whole_plan,
    ) -> None:
        self.program = program
        self._partner, self._cut = partner, cut
        self._plan_parts = {id(plan): cut(plan) for plan in program.plans}
        self._held = held(program, cut, apart=False)
        self.tuning = tuning or Tuning.of(device.info)
        self._device = device
        # What the host reads after the upload: rows of tables, vectors that kernels want as tables.
        self._data: dict[str, TensorData] = {}
        self._closing: list[Any] = [partner] if partner else []  # closed in reverse
        self._recordings: dict[tuple[int, int], Recording] = {}  # by plan and part
        self._tables: dict[str, BufferRange] = {}
        try:
            self._open(weights, progress, beside)
        except BaseException:
            self.close()
            raise

    def _open(
        self,
        data: Mapping[str, TensorData],
        progress: Progress | None,
        beside: VulkanExecutor | None,
    ) -> None:
        device, plans = self._device, self.program.plans
        tensors = self._held
        self._vocabulary = known_tokens(self.program)
        self._few = few_tokens(self.program, self.tuning)
        self._check(tensors)
        kept = [t for t in tensors if t.kind is Kind.WEIGHT]
        on_host = {
            tensor.name
            for tensor in tensors
            if tensor.kind is Kind.TABLE or (tensor.kind is Kind.WEIGHT and len(tensor.shape) == 1)
        }
        self._data = with_own_vectors({name: data[name] for name in sorted(on_host)})
        found = ChainMap(self._data, cast(dict[str, TensorData], data))  # which is only read
        self._weights: Weights
        if beside is not None and beside._weights.has(kept):
            self._weights = self._own(beside._weights.shared())
        else:
            self._weights = self._own(Weights(device, kept, found, progress))
        self._state = self._open_state([t for t in tensors if t.kind is Kind.STATE])
        fusions = fusions_of(self.program, self.tuning)
        self._groups = {id(plan): groups_of(plan, self, fusions) for plan in plans}
        fused = [placed(plan, self._groups[id(plan)]) for plan in plans]
        # The plans with scratch as recordings use it.
        self._fused = {id(plan): each for plan, each in zip(plans, fused, strict=True)}
        scratch_bytes = max(plan.scratch_bytes for plan in (*plans, *fused))
        self._scratch = self._own(Buffer(device, max(4, scratch_bytes), STORAGE, host=False))
        self._host_rows = {
            t.name: self._own(Buffer(device, self._rows_bytes(t), STORAGE, host=True))
            for t in {t.name: t for t in tensors if t.kind is Kind.TABLE}.values()
        }
        self._parts = self._open_parts()
        self._step = self._own(Buffer(device, 4 * self.program.step_words, STORAGE, host=True))
        self.step_buffer: BufferRange = (self._step, 0, self._step.size)
        logits = max(_tensor_bytes(plan.tensors[plan.logits]) for plan in plans)
        size = min(READBACK_BYTES, logits)
        self._readback = self._own(Buffer(device, size, 0, host=True))
        self._crossing: Buffer | None
        crossing = most_crossing(self.program, self._cut)
        self._crossing = self._own(Buffer(device, crossing, 0, host=True)) if crossing else None
        self._table_arena = self._own(FixedArena(device, [TABLE_BYTES]))
        self._pool = self._own(CommandPool(device, device.compute))
        self._pipelines = self._own(Pipelines(device))
        self._open_recorders()

    def _open_recorders(self) -> None:
        self._sets = sets = self._own(DescriptorSets(self._device))
        self._recorder = Recorder(self._pool, self._pipelines, sets, self.tuning)
        self._ops = OpRecordings(Recorder(self._pool, self._pipelines, sets, self.tuning))

    def extend(self, program: Program) -> None:
        if self._partner is not None:
            raise UnsupportedError("the steps are shared with another executor")
        tensors = held(program, self._cut, apart=False)
        self._check(tensors)
        states = [t for t in tensors if t.kind is Kind.STATE and t.name not in self._state]
        known, fusions = self._states, fusions_of(program, self.tuning)
        more = [plan for plan in program.plans if id(plan) not in self._groups]
        groups = {id(plan): groups_of(plan, self, fusions) for plan in more}
        fused = {id(plan): placed(plan, groups[id(plan)]) for plan in more}
        self._state |= self._open_state(states)
        self._states |= known
        self._open_scratch(max(plan.scratch_bytes for plan in (*more, *fused.values())))
        self._groups |= groups
        self._fused |= fused
        self.program, self._held = program, tensors
        self._plan_parts = {id(plan): self._cut(plan) for plan in program.plans}

    def _open_scratch(self, size: int) -> None:
        """Have scratch memory of this size. What was recorded with less is recorded again."""
        if size <= self._scratch.size:
            return
        scratch = self._own(Buffer(self._device, size, STORAGE, host=False))
        self._device.wait_idle()
        for recording in self._recordings.values():
            self._pool.free(recording.segments)
        self._recordings.clear()
        self._pool.free(self._ops.segments)
        for resource in (self._sets, self._scratch):
            self._closing.remove(resource)
            resource.close()
        self._scratch = scratch
        self._open_recorders()

    def _own(self, resource: Any) -> Any:
        self._closing.append(resource)
        return resource

    def _check(self, tensors: list[Tensor]) -> None:
        limit = self._device.info.max_storage_buffer_range
        smaller = "fewer pages" if self.program.pages else "a smaller context"
        for tensor in tensors:
            on_device = tensor.kind in (Kind.STATE, Kind.SCRATCH)
            if on_device and _tensor_bytes(tensor) > limit:
                raise DeviceError(
                    f"{tensor.name} needs {_tensor_bytes(tensor)} bytes; "
                    f"{self._device.info.name} binds at most {limit}: choose {smaller}."
                )

    def _open_parts(self) -> tuple[BufferRange, BufferRange]:
        """Allocate what all attention ops share: one at a time uses it."""
        parts, arrived = attention_part_bytes(self.program, self.tuning)
        arena: Arena = self._own(FixedArena(self._device, (parts, arrived)))
        ranges = arena.reserve(parts), arena.reserve(arrived)
        arena.zero()
        return ranges

    def _open_state(self, tensors: list[Tensor]) -> dict[str, BufferRange]:
        self._states = unique = {tensor.name: tensor for tensor in tensors}
        arena: Arena = self._own(FixedArena(self._device, map(_tensor_bytes, unique.values())))
        ranges = {name: arena.reserve(_tensor_bytes(tensor)) for name, tensor in unique.items()}
        arena.zero()
        for name, tensor in unique.items():
            if tensor.fill:
                buffer, offset, _ = ranges[name]
                buffer.upload(np.full(tensor.shape, tensor.fill, rows.FLOATS[tensor.dtype]), offset)
        return ranges

    @property
    def weight_bytes(self) -> int:
        beside = self._partner.weight_bytes if self._partner else 0
        return int(self._weights.nbytes) + beside

    @property
    def recorded(self) -> int:
        """Return how many command buffers were recorded; constant while tokens are decoded."""
        return int(self._pool.recorded) + self._device.staging.recorded

    @property
    def dispatches(self) -> int:
        """Return how many dispatches were recorded so far."""
        return int(self._recorder.dispatches)

    @property
    def barriers(self) -> int:
        """Return how many barriers between dispatches were recorded so far."""
        return int(self._recorder.barriers)

    @property
    def submits(self) -> int:
        return sum(recording.pacer.submits for recording in self._recordings.values())

    def run(self, step: Step, should_stop: StopCheck | None = None) -> F32:
        self._check_step(self.program.plan_of(step), step)
        parts = sub_steps(self.program, step, self._few)
        if len(parts) == 1:
            return self._run(parts[0].plan, step, should_stop)
        last = parts[0].plan.tensors[parts[0].plan.logits]
        found = np.empty((last.rows_in(step), last.shape[1]), np.float32)
        for part in parts:
            found[part.rows_of(last)] = self._run(part.plan, part.step, should_stop)
        return found

    def _run(self, plan: Plan, step: Step, should_stop: StopCheck | None) -> F32:
        self._write_step(step)
        given = list[Bytes]()
        for index, part in enumerate(self._plan_parts[id(plan)]):
            runner: PartRunner = self._partner if part.apart and self._partner else self
            given = runner.run_part(plan, step, index, given, should_stop)
        recording = self._recording(plan, len(self._plan_parts[id(plan)]) - 1)
        fused = self._fused[id(plan)]
        logits = fused.tensors[plan.logits]
        shape = logits.rows_in(step), logits.shape[1]
        if not shape[0]:
            return np.empty(shape, np.float32)
        if recording.reads_back:
            return self._readback.array(np.float32)[: math.prod(shape)].reshape(shape).copy()
        return self.read(fused, logits, step)

    def prepare(self) -> None:
        """Record every plan and compile its kernels now, not at the first step that needs it."""
        for plan in self.program.plans:
            for index, part in enumerate(self._plan_parts[id(plan)]):
                if not part.apart:
                    self._recording(plan, index)

    def run_part(
        self,
        plan: Plan,
        step: Step,
        index: int,
        given: Sequence[Bytes],
        should_stop: StopCheck | None = None,
    ) -> list[Bytes]:
        """Run a part as recorded; what crosses lies in memory that host and device see, and is
        copied in and out by the same recording. `_write_step` comes before a step's first part."""
        recording = self._recording(plan, index)
        memory = self._crossing.array(np.uint8) if self._crossing else np.empty(0, np.uint8)
        for (first, _), data in zip(recording.takes, given, strict=True):
            memory[first : first + data.size] = data.reshape(-1)
        recording.pacer.run(recording.segments, should_stop)
        found = []
        for first, tensor in recording.gives:
            shape = tensor.rows_in(step), tensor_row_bytes(tensor)
            found.append(memory[first:][: math.prod(shape)].reshape(shape))
        return found

    def give(self, tensor: Tensor, step: Step, data: Bytes) -> None:
        buffer, offset, _ = self.tensor(tensor)
        buffer.upload(np.ascontiguousarray(data), offset)

    def take(self, tensor: Tensor, step: Step) -> Bytes:
        buffer, offset, _ = self.tensor(tensor)
        count, size = tensor.rows_in(step), tensor_row_bytes(tensor)
        return buffer.download(offset, count * size).reshape(count, size)

    def run_ops(
        self, plan: Plan, step: Step, first: int, last: int, skip: Collection[str] = ()
    ) -> None:
        for part in self._cut(plan):
            some = range(max(first, part.first), min(last, part.last))
            if not some:
                continue
            if part.apart:
                self._run_apart(plan, step, some, skip)
            else:
                self._run_own(plan, step, some.start, some.stop, skip)

    def _run_apart(self, plan: Plan, step: Step, some: range, skip: Collection[str]) -> None:
        """Have ops run by the partner, on values of this executor, which is given theirs."""
        assert self._partner is not None
        for index in some:
            op = plan.ops[index]
            if op.name in skip:
                continue
            for tensor in (plan.tensors[i] for i in op.given):
                if tensor.kind is Kind.SCRATCH:
                    self._partner.give(tensor, step, self.take(tensor, step))
            self._partner.run_ops(plan, step, index, index + 1)
            for tensor in (plan.tensors[i] for i in op.outputs):
                self.give(tensor, step, self._partner.take(tensor, step))

    def _run_own(
        self, plan: Plan, step: Step, first: int, last: int, skip: Collection[str]
    ) -> None:
        self._check_step(plan, step)
        self._write_step(step)
        key = first, last, frozenset(skip)
        if (segments := self._ops.get(plan, key)) is None:
            ops = [op for op in plan.ops[first:last] if op.name not in skip]
            calls = [self._dispatches(plan, op) for op in ops]
            segments = self._ops.record(plan, key, calls)
        queue = self._device.compute
        queue.wait(queue.submit(segments))

    def measure(self, plan: Plan, step: Step, times: int = 1) -> tuple[float, list[float]]:
        """Measure a plan as `Executor.measure` does: the whole as replayed, the ops by the device's
        clock, one behind the other; those that run side by side in the replay add up to more than
        it. Ops that are done at once share their time as they share what is read."""
        families = self._device.info.queue_families
        if not families[self._device.family].timestamp_bits:
            raise UnsupportedError(f"{self._device.info.name} has no clock to measure ops with")
        self.run(step)
        began = time.perf_counter()
        for _ in range(times):
            self.run(step)
        whole = (time.perf_counter() - began) / times
        groups = self._groups_of(plan)
        taken = self._measure_groups(plan, times)
        shares = [_shared(g, t, plan, step) for g, t in zip(groups, taken, strict=True)]
        own = iter([seconds for each in shares for seconds in each])
        found = list[float]()
        for part in self._plan_parts[id(plan)]:
            for index in range(part.first, part.last):
                found.append(self._seconds_apart(plan, step, index) if part.apart else next(own))
        return whole, found

    def _seconds_apart(self, plan: Plan, step: Step, index: int) -> float:
        """Return how long the partner takes for an op on what it last had."""
        assert self._partner is not None
        began = time.perf_counter()
        self._partner.run_ops(plan, step, index, index + 1)
        return time.perf_counter() - began

    def _measure_groups(self, plan: Plan, times: int) -> list[float]:
        calls = self._calls(plan)
        sets, clock = DescriptorSets(self._device), Timestamps(self._device, len(calls) + 1)
        queue, taken = self._device.compute, np.zeros(len(calls))
        try:
            recorder = Recorder(self._pool, self._pipelines, sets, self.tuning)
            segments = recorder.timed(calls, clock)
            for _ in range(times):
                queue.wait(queue.submit(segments))
                taken += np.diff(clock.read()) * 1e-3 / times
            self._pool.free(segments)
        finally:
            clock.close()
            sets.close()
        return list(map(float, taken))

    def read(self, plan: Plan, tensor: Tensor, step: Step) -> F32:
        buffer, offset, _ = self.tensor(tensor)
        count, columns = tensor.rows_in(step), tensor.shape[1]
        data = buffer.download(offset, count * tensor_row_bytes(tensor)).reshape(count, -1)
        if tensor.dtype == "a8":
            return a8.decode_rows(data, columns)
        return rows.decode(data, tensor.dtype, columns, tensor.block)

    def write(self, plan: Plan, tensor: Tensor, step: Step, values: F32) -> None:
        buffer, offset, _ = self.tensor(tensor)
        buffer.upload(rows.encode(values, tensor.dtype, tensor.block), offset)

    def host_state(self, name: str) -> None:
        return None

    def leave_a_core(self, wanted: bool) -> None:
        """Have the partner do so: this executor does not occupy all CPU cores."""
        if self._partner is not None:
            self._partner.leave_a_core(wanted)

    def device_state(self, name: str) -> BufferRange:
        return self._state[name]

    def read_state(self, name: str, first: int, count: int) -> NDArray[np.uint8]:
        buffer, offset, _ = self._state[name]
        size = tensor_row_bytes(self._states[name])
        return buffer.download(offset + first * size, count * size).reshape(count, size)

    def write_state(self, name: str, first: int, data: NDArray[np.uint8]) -> None:
        buffer, offset, _ = self._state[name]
        if len(data):
            buffer.upload(np.ascontiguousarray(data), offset + first * data.shape[1])

    def close(self) -> None:
        """Wait for what is in flight and free everything; the device stays open."""
        if self._closing:
            try:
                self._device.wait_idle()  # a frame may still read the cache
            except DeviceLostError as error:  # the step has raised it; nothing runs
                log.warning("%s", error)
        while self._closing:
            self._closing.pop().close()
        self._recordings.clear()

    # What the kernels ask for (`core/exec/vulkan/dispatch.py`, Binder).

    def tensor(self, tensor: Tensor) -> BufferRange:
        if tensor.kind is Kind.STATE:
            return self._state[tensor.name]
        return self._scratch, tensor.offset, _tensor_bytes(tensor)

    def matrix(self, name: str) -> tuple[WeightPart, ...]:
        return self._weights.matrix(name)

    def stack(self, names: Sequence[str]) -> WeightPart | None:
        return self._weights.stack(names)

    def vector(self, name: str) -> BufferRange:
        return self._weights.vector(name)

    def host_rows(self, name: str) -> BufferRange:
        """Return the range of the rows, float32, that the step's tokens name in a table on disk."""
        buffer = self._host_rows[name]
        return buffer, 0, buffer.size

    def attention_parts(self) -> tuple[BufferRange, BufferRange]:
        return self._parts

    def table(self, key: str, values: NDArray[np.uint32]) -> BufferRange:
        """Return a constant table on the device, uploaded when its key is first used."""
        if key not in self._tables:
            buffer, offset, size = self._table_arena.reserve(values.nbytes)
            buffer.upload(values, offset)
            self._tables[key] = (buffer, offset, size)
        return self._tables[key]

    def _recording(self, plan: Plan, index: int) -> Recording:
        key = id(plan), index
        if key not in self._recordings:
            fused, parts = self._fused[id(plan)], self._plan_parts[id(plan)]
            taken, given = _places(fused, *parts[index : index + 2])
            segments = [
                self._recorder.copy_in(self._at(first, t), self.tensor(t)) for first, t in taken
            ]
            segments += self._recorder.segments(self._calls(plan, parts[index]))
            segments += [
                self._recorder.readback(self.tensor(t), self._at(first, t)) for first, t in given
            ]
            logits = self.tensor(fused.tensors[plan.logits])
            reads_back = index == len(parts) - 1 and logits[2] <= self._readback.size
            if reads_back:
                segments.append(self._recorder.readback(logits, (self._readback, 0, logits[2])))
            pacer = Pacer(self._device.compute, len(segments))
            self._recordings[key] = Recording(segments, pacer, reads_back, taken, given)
        return self._recordings[key]

    def _at(self, first: int, tensor: Tensor) -> BufferRange:
        assert self._crossing is not None
        return self._crossing, first, _tensor_bytes(tensor)

    def _own_parts(self, plan: Plan) -> tuple[PlanPart, ...]:
        return tuple(part for part in self._plan_parts[id(plan)] if not part.apart)

    def _groups_of(self, plan: Plan, *parts: PlanPart) -> list[Group]:
        """Return the groups of these parts, or of all its own; none has ops of two parts, as what
        is apart is never fused."""
        own = parts or self._own_parts(plan)
        found, at = [], 0
        for group in self._groups[id(plan)]:
            if any(part.first <= at < part.last for part in own):
                found.append(group)
            at += len(group.ops)
        return found

    def _calls(self, plan: Plan, *parts: PlanPart) -> list[list[Dispatch]]:
        fused, groups = self._fused[id(plan)], self._groups_of(plan, *parts)
        return [group_dispatches(self, g, fused, self._vector(plan, g.ops[0])) for g in groups]

    def _dispatches(self, plan: Plan, op: Op) -> list[Dispatch]:
        return dispatches(self, op, plan, self._vector(plan, op))

    def _vector(self, plan: Plan, op: Op) -> F32 | None:
        """Return the vector that the host makes a table of: rope's factors or attention's sinks."""
        place = {"rope": 1, "attention": 4}.get(op.name, len(op.inputs))
        number = next(iter(op.inputs[place:]), LEFT_OUT)
        return None if number == LEFT_OUT else self._data[plan.tensors[number].name].dequantize()

    def _check_step(self, plan: Plan, step: Step) -> None:
        check_step(self.program, plan, step, self._vocabulary)

    def _write_step(self, step: Step) -> None:
        words = self.program.pack(step)
        self._step.array(np.int32)[: words.size] = words
        for name, buffer in self._host_rows.items():
            found = table_rows(self._data[name], step.tokens)
            buffer.array(np.float32)[: found.size] = found.reshape(-1)

    def _rows_bytes(self, table: Tensor) -> int:
        return 4 * self.program.max_tokens * table.shape[1]


def _shared(group: Group, seconds: float, plan: Plan, step: Step) -> list[float]:
    """Divide a group's time by the bytes that its ops read of weights and caches, else equally."""
    read = [op_read_bytes(plan, op, step) for op in group.ops]
    shares = read if any(read) else [1] * len(read)
    return [seconds * share / sum(shares) for share in shares]


def _tensor_bytes(tensor: Tensor) -> int:
    return tensor.shape[0] * tensor_row_bytes(tensor)


def _places(fused: Plan, part: PlanPart, *following: PlanPart) -> tuple[_Crossing, _Crossing]:
    """Return where in the memory that crosses lies what a part takes, and behind it what the next
    one does; the tensors are those of `fused`."""
    at, found = 0, list[_Crossing]()
    for one in (part, *following):
        places = list[tuple[int, Tensor]]()
        for tensor in one.takes:
            places.append((at, fused.tensors[tensor.id]))
            at += _tensor_bytes(tensor)
        found.append(tuple(places))
    return found[0], found[1] if following else ()
