"""Device memory: buffers, two-dimensional images, and the staging that fills and reads them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy.typing import DTypeLike, NDArray

from llm_lite.core.gpu.commands import CommandPool, memory_barrier
from llm_lite.core.gpu.create import create, vk, vulkan_errors
from llm_lite.core.gpu.logical_device import LogicalDevice
from llm_lite.core.gpu.memory_types import (
    DEVICE_LOCAL,
    HOST_CACHED,
    HOST_COHERENT,
    HOST_VISIBLE,
    MemoryTypes,
)
from llm_lite.core.gpu.queue import Queue

STAGING_BYTES = 8 << 20

_HOST_CHOICES = (HOST_VISIBLE | HOST_COHERENT | HOST_CACHED, HOST_VISIBLE | HOST_COHERENT)
_DEVICE_CHOICES = (DEVICE_LOCAL, 0)

Bytes = bytes | bytearray | memoryview | NDArray[Any]


class StagedDevice(LogicalDevice, Protocol):
    """A device with the staging that fills and reads its memory."""

    @property
    def memory_types(self) -> MemoryTypes: ...

    @property
    def compute(self) -> Queue: ...

    @property
    def staging(self) -> Staging: ...


def _allocate(device: StagedDevice, requirements: Any, choices: tuple[int, ...]) -> Any:
    index = device.memory_types.choose(int(requirements.memoryTypeBits), choices)
    info = vk.VkMemoryAllocateInfo(allocationSize=requirements.size, memoryTypeIndex=index)
    return create(vk.vkAllocateMemory, device.handle, info)


class Buffer:
    """A VkBuffer with its own memory.

    `host=True`: mapped for its whole life, coherent, `array` and `upload` are plain memory.
    `host=False`: device memory; `upload` and `download` go through the device's staging and
    return when the copy is done. Transfer usage is added to `usage`.
    Raises OutOfDeviceMemoryError.
    """

    def __init__(self, device: StagedDevice, size: int, usage: int, *, host: bool) -> None:
        self._device = device
        self.size = size
        self.host = host
        self._mapping: Any = None
        self._memory: Any = None
        usage |= vk.VK_BUFFER_USAGE_TRANSFER_SRC_BIT | vk.VK_BUFFER_USAGE_TRANSFER_DST_BIT
        info = vk.VkBufferCreateInfo(size=size, usage=usage)
        self.handle: Any = create(vk.vkCreateBuffer, device.handle, info)
        try:
            self._bind()
        except BaseException:
            self.close()
            raise

    def _bind(self) -> None:
        requirements = vk.vkGetBufferMemoryRequirements(self._device.handle, self.handle)
        choices = _HOST_CHOICES if self.host else _DEVICE_CHOICES
        self._memory = _allocate(self._device, requirements, choices)
        with vulkan_errors("vkBindBufferMemory"):
            vk.vkBindBufferMemory(self._device.handle, self.handle, self._memory, 0)
        if self.host:
            with vulkan_errors("vkMapMemory"):
                self._mapping = vk.vkMapMemory(self._device.handle, self._memory, 0, self.size, 0)

    def array(self, dtype: DTypeLike) -> NDArray[Any]:
        """Return the mapped memory as a writable array; only for host buffers, only while open."""
        if self._mapping is None:
            raise ValueError("array() needs an open host buffer")
        kind = np.dtype(dtype)
        return np.frombuffer(self._mapping, kind, self.size // kind.itemsize)

    def upload(self, data: Bytes, offset: int = 0) -> None:
        source = _as_bytes(data)
        if offset + source.size > self.size:
            raise ValueError(f"{source.size} bytes at {offset} exceed a buffer of {self.size}")
        if self.host:
            self.array(np.uint8)[offset : offset + source.size] = source
        else:
            self._device.staging.write(self, offset, source)

    def download(self, offset: int = 0, size: int | None = None) -> NDArray[np.uint8]:
        """Copy `size` bytes from `offset` (all by default), uint8 [size]."""
        size = self.size - offset if size is None else size
        if self.host:
            return self.array(np.uint8)[offset : offset + size].copy()
        return self._device.staging.read(self, offset, size)

    def zero(self) -> None:
        """Set all bytes to 0; the size must be a multiple of four. Device buffers only."""
        self._device.staging.zero(self)

    def close(self) -> None:
        if self.handle is None:
            return
        vk.vkDestroyBuffer(self._device.handle, self.handle, None)
        self.handle = None
        self._mapping = None
        if self._memory is not None:
            vk.vkFreeMemory(self._device.handle, self._memory, None)
            self._memory = None


class Image2D:
    """A two-dimensional colour image in device memory with one view."""

    def __init__(
        self, device: StagedDevice, width: int, height: int, format: int, usage: int
    ) -> None:
        self._device = device
        self.width, self.height, self.format = width, height, format
        self.view: Any = None
        self.memory: Any = None
        extent = vk.VkExtent3D(width, height, 1)
        info = vk.VkImageCreateInfo(
            imageType=vk.VK_IMAGE_TYPE_2D,
            format=format,
            extent=extent,
            mipLevels=1,
            arrayLayers=1,
            samples=vk.VK_SAMPLE_COUNT_1_BIT,
            tiling=vk.VK_IMAGE_TILING_OPTIMAL,
            usage=usage,
            initialLayout=vk.VK_IMAGE_LAYOUT_UNDEFINED,
        )
        self.handle: Any = create(vk.vkCreateImage, device.handle, info, extent)
        try:
            self._bind()
        except BaseException:
            self.close()
            raise

    def _bind(self) -> None:
        requirements = vk.vkGetImageMemoryRequirements(self._device.handle, self.handle)
        self.memory = _allocate(self._device, requirements, _DEVICE_CHOICES)
        with vulkan_errors("vkBindImageMemory"):
            vk.vkBindImageMemory(self._device.handle, self.handle, self.memory, 0)
        colour = vk.VkImageSubresourceRange(
            aspectMask=vk.VK_IMAGE_ASPECT_COLOR_BIT, levelCount=1, layerCount=1
        )
        info = vk.VkImageViewCreateInfo(
            image=self.handle,
            viewType=vk.VK_IMAGE_VIEW_TYPE_2D,
            format=self.format,
            subresourceRange=colour,
        )
        self.view = create(vk.vkCreateImageView, self._device.handle, info, colour)

    def close(self) -> None:
        if self.handle is None:
            return
        if self.view is not None:
            vk.vkDestroyImageView(self._device.handle, self.view, None)
        vk.vkDestroyImage(self._device.handle, self.handle, None)
        if self.memory is not None:
            vk.vkFreeMemory(self._device.handle, self.memory, None)
        self.handle = self.view = self.memory = None


class Staging:
    """Copies between host and device memory in chunks of STAGING_BYTES; one user at a time."""

    def __init__(self, device: StagedDevice) -> None:
        self._device = device
        self._lock = threading.Lock()
        self._buffer: Buffer | None = None
        self._pool: CommandPool | None = None

    @property
    def recorded(self) -> int:
        """Return how many command buffers were recorded for copies so far."""
        return 0 if self._pool is None else self._pool.recorded

    def write(self, target: Buffer, offset: int, source: NDArray[np.uint8]) -> None:
        with self._lock:
            staging = self._open()
            for start in range(0, source.size, STAGING_BYTES):
                chunk = source[start : start + STAGING_BYTES]
                staging.array(np.uint8)[: chunk.size] = chunk
                self._copy(staging, target, 0, offset + start, chunk.size)

    def read(self, source: Buffer, offset: int, size: int) -> NDArray[np.uint8]:
        result = np.empty(size, np.uint8)
        with self._lock:
            staging = self._open()
            for start in range(0, size, STAGING_BYTES):
                count = min(STAGING_BYTES, size - start)
                self._copy(source, staging, offset + start, 0, count)
                result[start : start + count] = staging.array(np.uint8)[:count]
        return result

    def zero(self, target: Buffer) -> None:
        with self._lock:
            self._open()
            self._run(lambda cb: vk.vkCmdFillBuffer(cb, target.handle, 0, target.size, 0))

    def _open(self) -> Buffer:
        if self._buffer is None:
            self._buffer = Buffer(self._device, STAGING_BYTES, 0, host=True)
            self._pool = CommandPool(self._device, self._device.compute)
        return self._buffer

    def _copy(self, source: Buffer, target: Buffer, at: int, to: int, size: int) -> None:
        region = vk.VkBufferCopy(srcOffset=at, dstOffset=to, size=size)
        self._run(lambda cb: vk.vkCmdCopyBuffer(cb, source.handle, target.handle, 1, [region]))

    def _run(self, record: Callable[[Any], None]) -> None:
        assert self._pool is not None
        command_buffer = self._pool.allocate()[0]
        try:
            with self._pool.record(command_buffer, once=True):
                full_barrier(command_buffer)  # earlier shader writes are seen by the copy
                record(command_buffer)
                full_barrier(command_buffer)  # the copy is seen by the host and later work
            queue = self._device.compute
            queue.wait(queue.submit([command_buffer]))
        finally:
            self._pool.free([command_buffer])

    def close(self) -> None:
        if self._buffer is not None:
            self._buffer.close()
            self._buffer = None
        if self._pool is not None:
            self._pool.close()
            self._pool = None


def full_barrier(command_buffer: Any) -> None:
    """Record a barrier: everything before happens before all after, the host's reads included."""
    stages = vk.VK_PIPELINE_STAGE_ALL_COMMANDS_BIT | vk.VK_PIPELINE_STAGE_HOST_BIT
    read, write = vk.VK_ACCESS_MEMORY_READ_BIT, vk.VK_ACCESS_MEMORY_WRITE_BIT
    memory_barrier(command_buffer, (stages, write), (stages, read | write))


def _as_bytes(data: Bytes) -> NDArray[np.uint8]:
    if isinstance(data, np.ndarray):
        return np.ascontiguousarray(data).reshape(-1).view(np.uint8)
    return np.frombuffer(data, np.uint8)
