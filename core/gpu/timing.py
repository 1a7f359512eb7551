"""GPU timestamps in milliseconds, and what dispatches take by them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from llm_lite.core.errors import UnsupportedError
from llm_lite.core.gpu.commands import CommandPool, memory_barrier
from llm_lite.core.gpu.create import create, vk, vulkan_errors

if TYPE_CHECKING:
    from llm_lite.core.gpu.device import Device


class Timestamps:
    """A query pool of `count` timestamps. `reset` and `mark` are recorded; `read` waits."""

    def __init__(self, device: Device, count: int) -> None:
        self._device = device
        self.count = count
        info = vk.VkQueryPoolCreateInfo(queryType=vk.VK_QUERY_TYPE_TIMESTAMP, queryCount=count)
        self.handle: Any = create(vk.vkCreateQueryPool, device.handle, info)
        bits = device.info.queue_families[device.family].timestamp_bits
        self._mask = np.uint64((1 << bits) - 1)

    def reset(self, command_buffer: Any) -> None:
        vk.vkCmdResetQueryPool(command_buffer, self.handle, 0, self.count)

    def mark(self, command_buffer: Any, index: int) -> None:
        stage = vk.VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT
        vk.vkCmdWriteTimestamp(command_buffer, stage, self.handle, index)

    def read(self) -> NDArray[np.float64]:
        """Return the milliseconds of every mark since the first, float64 [count]."""
        ticks = np.zeros(self.count, np.uint64)
        flags = vk.VK_QUERY_RESULT_64_BIT | vk.VK_QUERY_RESULT_WAIT_BIT
        with vulkan_errors("vkGetQueryPoolResults"):
            vk.vkGetQueryPoolResults(
                self._device.handle, self.handle, 0, self.count, ticks.nbytes,
                vk.ffi.from_buffer(ticks), 8, flags,
            )  # fmt: skip
        elapsed = (ticks - ticks[0]) & self._mask
        return elapsed.astype(np.float64) * self._device.info.timestamp_ns * 1e-6

    def close(self) -> None:
        vk.vkDestroyQueryPool(self._device.handle, self.handle, None)


class DispatchClock:
    """Times dispatches by the device's own clock, one submit each.

    UnsupportedError where the device has no clock.
    """

    def __init__(self, device: Device) -> None:
        if not device.info.queue_families[device.family].timestamp_bits:
            raise UnsupportedError(f"{device.info.name} has no clock to measure kernels with")
        self._queue = device.compute
        self._closing = ExitStack()
        self._pool = CommandPool(device, device.compute)
        self._closing.callback(self._pool.close)
        self._marks = Timestamps(device, 2)
        self._closing.callback(self._marks.close)

    def record(self, dispatch: Callable[[Any], None]) -> Any:
        """Record a command buffer of what `dispatch` records between two marks, to be given to
        `seconds` any number of times."""
        access = vk.VK_ACCESS_SHADER_READ_BIT | vk.VK_ACCESS_SHADER_WRITE_BIT
        shaders = vk.VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, access
        command_buffer = self._pool.allocate()[0]
        with self._pool.record(command_buffer):
            self._marks.reset(command_buffer)
            self._marks.mark(command_buffer, 0)
            # Behind shaders of earlier submits. Once llvmpipe has drawn, it takes the time of a
            # mark only when something flushes the command buffer, as a barrier does.
            memory_barrier(command_buffer, shaders, shaders)
            dispatch(command_buffer)
            memory_barrier(command_buffer, shaders, shaders)
            self._marks.mark(command_buffer, 1)
        return command_buffer

    def seconds(self, command_buffer: Any) -> float:
        """Submit the recording and wait; return its seconds, above 0."""
        self._queue.wait(self._queue.submit([command_buffer]))
        return max(float(self._marks.read()[1]) * 1e-3, 1e-9)

    def close(self) -> None:
        self._closing.close()
