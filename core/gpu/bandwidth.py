"""A measurement of how fast a device reads its memory: the limit that decoding is compared with."""

from __future__ import annotations

import statistics
import time

from llm_lite.core.gpu.commands import CommandPool
from llm_lite.core.gpu.create import vk
from llm_lite.core.gpu.device import Device
from llm_lite.core.gpu.memory import Buffer
from llm_lite.core.gpu.pipelines import ComputePipeline, DescriptorSets

_LOCAL_SIZE = 256
_GROUPS = 2048  # enough to fill any device; each invocation then reads many vectors
_VECTOR_BYTES = 16
_LARGEST = 1 << 30  # bytes; several times the cache of any device
_LARGEST_SOFTWARE = 128 << 20


def read_gb_s(device: Device, repeat: int = 5) -> float:
    """Return the GB/s of a plain read in a compute shader, the median of `repeat`; takes some
    milliseconds.

    The size is a sixteenth of the device's memory at most. OutOfDeviceMemoryError where even that
    is not free.
    """
    software = device.info.kind == "software"
    size = min(
        _LARGEST_SOFTWARE if software else _LARGEST,
        device.info.max_storage_buffer_range,
        device.info.memory_bytes // 16,
    )
    size -= size % _VECTOR_BYTES
    usage = vk.VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | vk.VK_BUFFER_USAGE_STORAGE_TEXEL_BUFFER_BIT
    source = Buffer(device, size, usage, host=False)
    try:
        target = Buffer(device, 4 * _GROUPS, usage, host=False)
        try:
            return size / 1e9 / _median_seconds(device, source, target, repeat)
        finally:
            target.close()
    finally:
        source.close()


def _median_seconds(device: Device, source: Buffer, target: Buffer, repeat: int) -> float:
    constants = {"LOCAL_SIZE": _LOCAL_SIZE, "COUNT": source.size // _VECTOR_BYTES}
    variant = "read.texels" if device.info.reads_texels else "read"
    pipeline = ComputePipeline(device, variant, constants)
    sets, pool = DescriptorSets(device), CommandPool(device, device.compute)
    try:
        buffers = {"Source": (source, 0, source.size), "Target": (target, 0, target.size)}
        bound = pipeline.bind(sets, buffers)
        fill, read = pool.allocate(2)
        with pool.record(fill):
            vk.vkCmdFillBuffer(fill, source.handle, 0, source.size, 0x3C003C00)
        with pool.record(read):
            pipeline.dispatch(read, bound, (_GROUPS, 1))
        _seconds(device, fill)
        _seconds(device, read)  # the first one warms up
        return statistics.median(_seconds(device, read) for _ in range(repeat))
    finally:
        pool.close()
        sets.close()
        pipeline.close()


def _seconds(device: Device, command_buffer: object) -> float:
    started = time.perf_counter()
    device.compute.wait(device.compute.submit([command_buffer]))
    return time.perf_counter() - started
