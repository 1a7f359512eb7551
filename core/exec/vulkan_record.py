"""Recordings: a plan as command buffers, with barriers only where ops depend on each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from core.exec.vulkan_kernels import Dispatch
from core.gpu.commands import CommandPool, memory_barrier
from core.gpu.create import vk
from core.gpu.device import Device
from core.gpu.pipelines import BufferRange, ComputePipeline, DescriptorSets

SEGMENT_OPS = 6  # ops of one command buffer, the smallest thing that can be submitted


class Pipelines:
    """Compute pipelines by variant and constants, made when first asked for."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._made: dict[tuple[str, tuple[tuple[str, int | float], ...]], ComputePipeline] = {}

    def get(self, dispatch: Dispatch) -> ComputePipeline:
        key = dispatch.variant, tuple(sorted(dispatch.constants.items()))
        if key not in self._made:
            self._made[key] = ComputePipeline(self._device, dispatch.variant, dispatch.constants)
        return self._made[key]

    def close(self) -> None:
        for pipeline in self._made.values():
            pipeline.close()
        self._made.clear()


class Hazards:
    """Byte ranges read and written since the last barrier."""

    def __init__(self) -> None:
        self._reads: list[tuple[int, int, int]] = []  # buffer, begin, end
        self._writes: list[tuple[int, int, int]] = []

    def conflict(self, reads: Sequence[BufferRange], writes: Sequence[BufferRange]) -> bool:
        """Whether these accesses must wait: read after write, write after read or write."""
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


class Recorder:
    """Records ops, each a list of independent dispatches, into command buffers."""

    def __init__(
        self, device: Device, pool: CommandPool, pipelines: Pipelines, sets: DescriptorSets
    ) -> None:
        self._device = device
        self._pool = pool
        self._pipelines = pipelines
        self._sets = sets

    def segments(self, ops: Sequence[Sequence[Dispatch]], size: int = SEGMENT_OPS) -> list[Any]:
        """Command buffers of `size` ops each, to be submitted in order, any number at a time."""
        starts = range(0, len(ops), size)
        command_buffers = self._pool.allocate(len(starts))
        for command_buffer, start in zip(command_buffers, starts, strict=True):
            with self._pool.record(command_buffer):
                compute_barrier(command_buffer)  # what earlier segments and steps wrote
                self._record(command_buffer, ops[start : start + size])
        return command_buffers

    def _record(self, command_buffer: Any, ops: Sequence[Sequence[Dispatch]]) -> None:
        hazards = Hazards()
        for op in ops:
            bound = [(dispatch, self._pipelines.get(dispatch)) for dispatch in op]
            reads = [part for d, p in bound for part in _parts(d, p, read_only=True)]
            writes = [part for d, p in bound for part in _parts(d, p, read_only=False)]
            if hazards.conflict(reads, writes):
                compute_barrier(command_buffer)
                hazards.clear()
            hazards.add(reads, writes)
            for dispatch, pipeline in bound:
                descriptor_set = pipeline.bind(self._sets, dispatch.buffers)
                pipeline.dispatch(command_buffer, descriptor_set, dispatch.groups)

    def readback(self, source: BufferRange, target: BufferRange) -> Any:
        """A command buffer that copies what shaders wrote to host memory."""
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


def _parts(dispatch: Dispatch, pipeline: ComputePipeline, *, read_only: bool) -> list[BufferRange]:
    names = [b.name for b in pipeline.interface.bindings if b.read_only == read_only]
    return [dispatch.buffers[name] for name in names]


def compute_barrier(command_buffer: Any) -> None:
    """Shaders, and copies out of their buffers, before; shaders after."""
    shader, copy = vk.VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, vk.VK_PIPELINE_STAGE_TRANSFER_BIT
    read, write = vk.VK_ACCESS_SHADER_READ_BIT, vk.VK_ACCESS_SHADER_WRITE_BIT
    source = (shader | copy, write | vk.VK_ACCESS_TRANSFER_WRITE_BIT)
    memory_barrier(command_buffer, source, (shader, read | write))
