"""A surface without a window system: one image that can be read back."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from imgui_bundle import imgui
from numpy.typing import NDArray

from llm_lite.core.gpu.commands import CommandPool
from llm_lite.core.gpu.create import vk
from llm_lite.core.gpu.device import Device
from llm_lite.core.gpu.memory import Buffer, Image2D
from llm_lite.desktop.render.retired import finish
from llm_lite.desktop.render.surface import SurfaceFrame, create_framebuffer, create_render_pass


class OffscreenTarget:
    """`width` x `height` pixels. `ui_scale` plays a HiDPI screen. With `delta_s` every frame
    lasts that long for animations, whatever the clock says, so that pictures can be repeated."""

    def __init__(
        self,
        device: Device,
        width: int,
        height: int,
        *,
        ui_scale: float = 1.0,
        delta_s: float | None = None,
        color_format: int = int(vk.VK_FORMAT_R8G8B8A8_UNORM),
    ) -> None:
        self._device = device
        self.color_format = color_format
        self.ui_scale = ui_scale
        self.drawable = True
        self._delta_s = delta_s
        self._last_time = time.perf_counter()
        self._last_value = 0
        layout = vk.VK_IMAGE_LAYOUT_TRANSFER_SRC_OPTIMAL
        self._render_pass = create_render_pass(device, self.color_format, layout)
        self._pool = CommandPool(device, device.queue)
        self._open(width, height)

    def _open(self, width: int, height: int) -> None:
        self.width, self.height = width, height
        usage = vk.VK_IMAGE_USAGE_COLOR_ATTACHMENT_BIT | vk.VK_IMAGE_USAGE_TRANSFER_SRC_BIT
        usage |= vk.VK_IMAGE_USAGE_TRANSFER_DST_BIT
        self._image = Image2D(self._device, width, height, self.color_format, usage)
        self._framebuffer = create_framebuffer(
            self._device, self._render_pass, self._image.view, (width, height)
        )

    def resize(self, width: int, height: int) -> None:
        """Take another size; waits for the last frame."""
        self._wait()
        self._close_image()
        self._open(width, height)

    def new_frame(self) -> None:
        io = imgui.get_io()
        now = time.perf_counter()
        elapsed, self._last_time = now - self._last_time, now
        io.delta_time = max(elapsed if self._delta_s is None else self._delta_s, 1e-5)
        io.display_size = imgui.ImVec2(self.width, self.height)
        io.display_framebuffer_scale = imgui.ImVec2(1.0, 1.0)

    def begin_frame(self) -> SurfaceFrame | None:
        return SurfaceFrame(
            self._render_pass,
            self._framebuffer,
            (self.width, self.height),
            image=self._image.handle,
            layout=vk.VK_IMAGE_LAYOUT_TRANSFER_SRC_OPTIMAL,
        )

    def end_frame(self, frame: SurfaceFrame, value: int) -> None:
        self._last_value = value

    def read_rgba(self) -> NDArray[np.uint8]:
        """Wait for the last frame and return it, uint8 [height, width, 4]."""
        if not self._last_value:
            raise ValueError("nothing has been drawn yet")
        size = self.width * self.height * 4
        buffer = Buffer(self._device, size, vk.VK_BUFFER_USAGE_TRANSFER_DST_BIT, host=True)
        try:
            self._copy_to(buffer)
            pixels = buffer.array(np.uint8)[:size].reshape(self.height, self.width, 4)
            swapped = self.color_format == vk.VK_FORMAT_B8G8R8A8_UNORM
            return pixels[..., [2, 1, 0, 3]] if swapped else pixels.copy()
        finally:
            buffer.close()

    def _copy_to(self, buffer: Buffer) -> None:
        layers = vk.VkImageSubresourceLayers(vk.VK_IMAGE_ASPECT_COLOR_BIT, 0, 0, 1)
        region = vk.VkBufferImageCopy(
            imageSubresource=layers, imageExtent=vk.VkExtent3D(self.width, self.height, 1)
        )
        layout = vk.VK_IMAGE_LAYOUT_TRANSFER_SRC_OPTIMAL
        (commands,) = self._pool.allocate()
        with self._pool.record(commands, once=True):
            vk.vkCmdCopyImageToBuffer(
                commands, self._image.handle, layout, buffer.handle, 1, [region]
            )
            _make_visible_to_host(commands)
        self._last_value = self._device.queue.submit([commands])
        self._wait()
        self._pool.free([commands])

    def _wait(self) -> None:
        if self._last_value:
            self._device.queue.wait(self._last_value)

    def _close_image(self) -> None:
        vk.vkDestroyFramebuffer(self._device.handle, self._framebuffer, None)
        self._image.close()

    def close(self) -> None:
        """Destroy everything; waits for the last frame."""
        finish(self._wait)
        self._close_image()
        vk.vkDestroyRenderPass(self._device.handle, self._render_pass, None)
        self._pool.close()


def _make_visible_to_host(command_buffer: Any) -> None:
    barrier = vk.VkMemoryBarrier(
        srcAccessMask=vk.VK_ACCESS_TRANSFER_WRITE_BIT, dstAccessMask=vk.VK_ACCESS_HOST_READ_BIT
    )
    vk.vkCmdPipelineBarrier(
        command_buffer, vk.VK_PIPELINE_STAGE_TRANSFER_BIT, vk.VK_PIPELINE_STAGE_HOST_BIT,
        0, 1, [barrier], 0, None, 0, None,
    )  # fmt: skip
