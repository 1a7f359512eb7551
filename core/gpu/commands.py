"""Command pools that count what is recorded: decoding must not record at all."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any, ClassVar

from llm_lite.core.gpu.create import create, vk, vulkan_errors
from llm_lite.core.gpu.logical_device import LogicalDevice
from llm_lite.core.gpu.queue import Queue


class CommandPool:
    """VkCommandPool for one thread; `recorded` counts the recordings begun so far, `all_recorded`
    those of every pool of the process."""

    all_recorded: ClassVar[int] = 0
    _counting: ClassVar[threading.Lock] = threading.Lock()

    def __init__(self, device: LogicalDevice, queue: Queue) -> None:
        self._device = device
        self.recorded = 0
        info = vk.VkCommandPoolCreateInfo(
            flags=vk.VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT, queueFamilyIndex=queue.family
        )
        self.handle: Any = create(vk.vkCreateCommandPool, device.handle, info)

    def allocate(self, count: int = 1) -> list[Any]:
        info = vk.VkCommandBufferAllocateInfo(
            commandPool=self.handle,
            level=vk.VK_COMMAND_BUFFER_LEVEL_PRIMARY,
            commandBufferCount=count,
        )
        with vulkan_errors("vkAllocateCommandBuffers"):
            return list(vk.vkAllocateCommandBuffers(self._device.handle, info))

    def begin(self, command_buffer: Any, *, once: bool = False) -> None:
        self.recorded += 1
        with CommandPool._counting:
            CommandPool.all_recorded += 1
        once_bit = vk.VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT
        info = vk.VkCommandBufferBeginInfo(flags=once_bit if once else 0)
        with vulkan_errors("vkBeginCommandBuffer"):
            vk.vkBeginCommandBuffer(command_buffer, info)

    def end(self, command_buffer: Any) -> None:
        with vulkan_errors("vkEndCommandBuffer"):
            vk.vkEndCommandBuffer(command_buffer)

    @contextmanager
    def record(self, command_buffer: Any, *, once: bool = False) -> Iterator[Any]:
        self.begin(command_buffer, once=once)
        yield command_buffer
        self.end(command_buffer)

    def reset(self, command_buffer: Any) -> None:
        with vulkan_errors("vkResetCommandBuffer"):
            vk.vkResetCommandBuffer(command_buffer, 0)

    def free(self, command_buffers: Sequence[Any]) -> None:
        if command_buffers:
            vk.vkFreeCommandBuffers(
                self._device.handle, self.handle, len(command_buffers), list(command_buffers)
            )

    def close(self) -> None:
        if self.handle is not None:
            vk.vkDestroyCommandPool(self._device.handle, self.handle, None)
            self.handle = None


def memory_barrier(
    command_buffer: Any, source: tuple[int, int], destination: tuple[int, int]
) -> None:
    """Record a global memory barrier; source and destination are (pipeline stages, accesses)."""
    null = vk.ffi.NULL
    barrier = _accesses(source[1], destination[1])
    vk.lib.vkCmdPipelineBarrier(
        command_buffer, source[0], destination[0], 0, 1, barrier, 0, null, 0, null
    )


@cache
def _accesses(source: int, destination: int) -> Any:
    """Return a VkMemoryBarrier to point to: there are few kinds, and dozens a recording."""
    kind = vk.VK_STRUCTURE_TYPE_MEMORY_BARRIER
    return vk.ffi.new("VkMemoryBarrier*", (kind, vk.ffi.NULL, source, destination))
