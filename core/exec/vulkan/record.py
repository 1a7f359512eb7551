"""Recordings: a plan as command buffers, with barriers only where ops depend on each other."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from llm_lite.core.exec.vulkan.dispatch import Dispatch
from llm_lite.core.exec.vulkan.tuning import Tuning
from llm_lite.core.gpu.commands import CommandPool, memory_barrier
from llm_lite.core.gpu.create import vk
from llm_lite.core.gpu.pipeline_store import Pipelines
from llm_lite.core.gpu.pipelines import BufferRange, ComputePipeline, DescriptorSets
from llm_lite.core.gpu.timing import Timestamps
from llm_lite.core.plan.plan import Plan

MOST_PIECES = 16  # of one dispatch; more would cost more than they help

Piece = tuple[Dispatch, tuple[int, int], tuple[int, int]]  # first workgroup, number of workgroups


def pieces(dispatch: Dispatch, budget: int, least: int) -> list[Piece]:
    """Cut a dispatch along its longer side into pieces of about `budget` work, and of no fewer than
    `least` workgroups."""
    axis = 0 if dispatch.groups[0] >= dispatch.groups[1] else 1
    length = dispatch.groups[axis]
    most = 1 if dispatch.whole else min(MOST_PIECES, max(1, math.prod(dispatch.groups) // least))
    count = max(1, min(-(-dispatch.work // budget), most, length))
    cuts = [length * i // count for i in range(count + 1)]
    return [
        (dispatch, _along(axis, begin, (0, 0)), _along(axis, end - begin, dispatch.groups))
        for begin, end in itertools.pairwise(cuts)
    ]


def _along(axis: int, value: int, other: tuple[int, int]) -> tuple[int, int]:
    return (value, other[1]) if axis == 0 else (other[0], value)


class Hazards:
    """Byte ranges read and written since the last barrier."""

    def __init__(self) -> None:
        self._reads: list[tuple[int, int, int]] = []  # buffer, begin, end
        self._writes: list[tuple[int, int, int]] = []

    def conflict(self, reads: Sequence[BufferRange], writes: Sequence[BufferRange]) -> bool:
        """Return True if these accesses must wait: read after write, write after read or write."""
        return _overlap(reads, self._writes) or _overlap(writes, self._reads + self._writes)

    def add(self, reads: Sequence[BufferRange], writes: Sequence[BufferRange]) -> None:
        self._reads += map(_span, reads)
        self._writes += map(_span, writes)

    def clear(self) -> None:
        self._reads.clear()
        self._writes.clear()


def _span(part: BufferRange) -> tuple[int, int, int]:
    buffer, offset, size = part
    return id(buffer), offset, offset + size


def _overlap(parts: Sequence[BufferRange], spans: Sequence[tuple[int, int, int]]) -> bool:
    return any(
        buffer == other and begin < other_end and other_begin < end
        for buffer, begin, end in map(_span, parts)
        for other, other_begin, other_end in spans
    )


class _Bound(Struct, frozen=True):
    dispatch: Dispatch
    pipeline: ComputePipeline
    descriptor_set: Any
    reads: list[BufferRange]
    writes: list[BufferRange]


class Recorder:
    """Records ops, each a list of independent dispatches, into command buffers."""

    def __init__(
        self, pool: CommandPool, pipelines: Pipelines, sets: DescriptorSets, tuning: Tuning
    ) -> None:
        self._pool, self._tuning = pool, tuning
        self._pipelines = pipelines
        self._sets = sets
        self._last: _Bound | None = None
        self.dispatches = 0
        self.barriers = 0  # between dispatches of a segment; each segment begins with one too

    def segments(self, ops: Sequence[Sequence[Dispatch]]) -> list[Any]:
        """Record command buffers of about as much work as the tuning says, to be submitted in
        order, any number at a time."""
        plan = _segments(ops, self._tuning)
        command_buffers = self._pool.allocate(len(plan))
        for command_buffer, segment in zip(command_buffers, plan, strict=True):
            with self._pool.record(command_buffer):
                compute_barrier(command_buffer)  # what earlier segments and steps wrote
                self._record(command_buffer, segment)
        return command_buffers

    def timed(self, ops: Sequence[Sequence[Dispatch]], times: Timestamps) -> list[Any]:
        """Record as `segments` does, one op at a time, with a timestamp before the first op and
        behind each."""
        before, *marks = self._pool.allocate(1 + len(ops))
        with self._pool.record(before):
            times.reset(before)
            times.mark(before, 0)
        found = [before]
        for number, (op, mark) in enumerate(zip(ops, marks, strict=True)):
            found += self.segments([op])
            with self._pool.record(mark):
                compute_barrier(mark)
                times.mark(mark, number + 1)
            found.append(mark)
        return found

    def _record(self, command_buffer: Any, segment: Sequence[Sequence[Piece]]) -> None:
        hazards = Hazards()
        for op in segment:
            bound = [self._bound(dispatch) for dispatch, _, _ in op]
            reads = [part for b in bound for part in b.reads]
            writes = [part for b in bound for part in b.writes]
            if hazards.conflict(reads, writes):
                compute_barrier(command_buffer)
                self.barriers += 1
                hazards.clear()
            hazards.add(reads, writes)
            for b, (_, first, groups) in zip(bound, op, strict=True):
                b.pipeline.dispatch(command_buffer, b.descriptor_set, groups, first)
                self.dispatches += 1

    def _bound(self, dispatch: Dispatch) -> _Bound:
        """Return the pipeline and descriptor set of a dispatch; its pieces follow each other and
        share it."""
        if self._last is None or self._last.dispatch is not dispatch:
            pipeline = self._pipelines.get(dispatch.variant, dispatch.constants)
            bindings = pipeline.interface.bindings
            self._last = _Bound(
                dispatch,
                pipeline,
                pipeline.bind(self._sets, dispatch.buffers),
                [dispatch.buffers[b.name] for b in bindings if b.read_only],
                [dispatch.buffers[b.name] for b in bindings if not b.read_only],
            )
        return self._last

    def copy_in(self, source: BufferRange, target: BufferRange) -> Any:
        """Record a command buffer that copies what the host wrote to where shaders read it."""
        command_buffer = self._pool.allocate()[0]
        shader = vk.VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT
        copy, host = vk.VK_PIPELINE_STAGE_TRANSFER_BIT, vk.VK_PIPELINE_STAGE_HOST_BIT
        read, write = vk.VK_ACCESS_SHADER_READ_BIT, vk.VK_ACCESS_SHADER_WRITE_BIT
        copied = vk.VK_ACCESS_TRANSFER_WRITE_BIT
        with self._pool.record(command_buffer):
            wrote = write | copied | vk.VK_ACCESS_HOST_WRITE_BIT
            reads = vk.VK_ACCESS_TRANSFER_READ_BIT | copied
            memory_barrier(command_buffer, (shader | copy | host, wrote), (copy, reads))
            region = vk.VkBufferCopy(srcOffset=source[1], dstOffset=target[1], size=source[2])
            vk.vkCmdCopyBuffer(command_buffer, source[0].handle, target[0].handle, 1, [region])
            memory_barrier(command_buffer, (copy, copied), (shader | copy, read | write))
        return command_buffer

    def readback(self, source: BufferRange, target: BufferRange) -> Any:
        """Record a command buffer that copies what shaders wrote to host memory."""
        command_buffer = self._pool.allocate()[0]
        shader = vk.VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT
        copy, host = vk.VK_PIPELINE_STAGE_TRANSFER_BIT, vk.VK_PIPELINE_STAGE_HOST_BIT
        written, read = vk.VK_ACCESS_TRANSFER_WRITE_BIT, vk.VK_ACCESS_TRANSFER_READ_BIT
        with self._pool.record(command_buffer):
            before = (shader | copy, vk.VK_ACCESS_SHADER_WRITE_BIT | written)
            memory_barrier(command_buffer, before, (copy, read | written))
            region = vk.VkBufferCopy(srcOffset=source[1], dstOffset=target[1], size=source[2])
            vk.vkCmdCopyBuffer(command_buffer, source[0].handle, target[0].handle, 1, [region])
            memory_barrier(command_buffer, (copy, written), (host, vk.VK_ACCESS_HOST_READ_BIT))
        return command_buffer


Ops = tuple[int, int, frozenset[str]]  # first, last; the names of those left out


class OpRecordings:
    """Command buffers of some ops of a plan, recorded once: a comparison of executors, op by op,
    runs the same ones at each step."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._kept: dict[tuple[int, Ops], tuple[Plan, list[Any]]] = {}

    def get(self, plan: Plan, ops: Ops) -> list[Any] | None:
        """Return the kept command buffers, to be submitted in order, one submit at a time."""
        kept = self._kept.get((id(plan), ops))
        return kept and kept[1]

    @property
    def segments(self) -> list[Any]:
        """Return all command buffers."""
        return [one for _, segments in self._kept.values() for one in segments]

    def record(self, plan: Plan, ops: Ops, calls: Sequence[Sequence[Dispatch]]) -> list[Any]:
        segments = self._recorder.segments(calls)
        self._kept[id(plan), ops] = plan, segments  # the plan, so that its id stays its own
        return segments


def _segments(ops: Sequence[Sequence[Dispatch]], tuning: Tuning) -> list[list[list[Piece]]]:
    """Return segments, each a list of ops, each a list of independent pieces."""
    budget, least = tuning.segment_work, tuning.piece_groups
    segments: list[list[list[Piece]]] = [[]]
    left = budget
    for op in ops:
        segments[-1].append([])
        for dispatch in op:
            for piece in (cut := pieces(dispatch, budget, least)):
                work = dispatch.work // len(cut)
                if work > left and left < budget:
                    segments.append([[]])
                    left = budget
                segments[-1][-1].append(piece)
                left -= work
    return segments


def compute_barrier(command_buffer: Any) -> None:
    """Record a barrier from shaders, and copies out of their buffers, to later shaders."""
    shader, copy = vk.VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, vk.VK_PIPELINE_STAGE_TRANSFER_BIT
    read, write = vk.VK_ACCESS_SHADER_READ_BIT, vk.VK_ACCESS_SHADER_WRITE_BIT
    source = (shader | copy, write | vk.VK_ACCESS_TRANSFER_WRITE_BIT)
    memory_barrier(command_buffer, source, (shader, read | write))
