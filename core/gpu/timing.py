"""GPU timestamps in milliseconds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

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
        """Milliseconds of every mark since the first, float64 [count]."""
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
