"""The last picture, kept on the device: new frames change parts of it, and show a copy."""

from __future__ import annotations

from typing import Any

from llm_lite.core.gpu.create import vk
from llm_lite.core.gpu.device import Device
from llm_lite.core.gpu.memory import Image2D
from llm_lite.desktop.render.retired import Retired
from llm_lite.desktop.render.surface import SurfaceFrame
from llm_lite.desktop.render.targets import create_framebuffer, create_render_pass

Extent = tuple[int, int]


class KeptImage:
    """One image of a surface's size. `passes`: over all of it, over a part that leaves the rest."""

    def __init__(self, device: Device, color_format: int, retired: Retired) -> None:
        self._device, self._format, self._retired = device, color_format, retired
        rest = vk.VK_IMAGE_LAYOUT_TRANSFER_SRC_OPTIMAL
        self.whole = create_render_pass(device, color_format, rest)
        self.part = create_render_pass(device, color_format, rest, initial_layout=rest)
        self._image: Image2D | None = None
        self.framebuffer: Any = None
        self.extent: Extent = (0, 0)

    def fit(self, extent: Extent, last_value: int) -> bool:
        """Of this size from now on; whether it holds a picture still."""
        if extent == self.extent:
            return True
        self._leave(last_value)
        usage = vk.VK_IMAGE_USAGE_COLOR_ATTACHMENT_BIT | vk.VK_IMAGE_USAGE_TRANSFER_SRC_BIT
        self._image = Image2D(self._device, *extent, self._format, usage)
        self.framebuffer = create_framebuffer(self._device, self.whole, self._image.view, extent)
        self.extent = extent
        return False

    def copy_to(self, commands: Any, frame: SurfaceFrame) -> None:
        """Record the copy into the frame's image, which is left as its surface wants it."""
        assert self._image is not None
        into = vk.VK_IMAGE_LAYOUT_TRANSFER_DST_OPTIMAL
        _move(commands, frame.image, vk.VK_IMAGE_LAYOUT_UNDEFINED, into)
        layers = vk.VkImageSubresourceLayers(vk.VK_IMAGE_ASPECT_COLOR_BIT, 0, 0, 1)
        region = vk.VkImageCopy(
            srcSubresource=layers, dstSubresource=layers, extent=vk.VkExtent3D(*self.extent, 1)
        )
        source = vk.VK_IMAGE_LAYOUT_TRANSFER_SRC_OPTIMAL
        vk.vkCmdCopyImage(commands, self._image.handle, source, frame.image, into, 1, [region])
        _move(commands, frame.image, into, frame.layout)

    def _leave(self, last_value: int) -> None:
        image, framebuffer = self._image, self.framebuffer
        if image is not None:
            self._retired.add(last_value, lambda: self._destroy(image, framebuffer))
        self._image, self.extent = None, (0, 0)

    def _destroy(self, image: Image2D, framebuffer: Any) -> None:
        vk.vkDestroyFramebuffer(self._device.handle, framebuffer, None)
        image.close()

    def close(self) -> None:
        """The device is done with every frame."""
        if self._image is not None:
            self._destroy(self._image, self.framebuffer)
            self._image = None
        for one in (self.whole, self.part):
            vk.vkDestroyRenderPass(self._device.handle, one, None)


def _move(commands: Any, image: Any, old: int, new: int) -> None:
    """Another layout, ordered after copies before and ahead of copies after."""
    copy = vk.VK_PIPELINE_STAGE_TRANSFER_BIT
    both = vk.VK_ACCESS_TRANSFER_READ_BIT | vk.VK_ACCESS_TRANSFER_WRITE_BIT
    barrier = vk.VkImageMemoryBarrier(
        srcAccessMask=vk.VK_ACCESS_TRANSFER_WRITE_BIT,
        dstAccessMask=both,
        oldLayout=old,
        newLayout=new,
        srcQueueFamilyIndex=vk.VK_QUEUE_FAMILY_IGNORED,
        dstQueueFamilyIndex=vk.VK_QUEUE_FAMILY_IGNORED,
        image=image,
        subresourceRange=vk.VkImageSubresourceRange(vk.VK_IMAGE_ASPECT_COLOR_BIT, 0, 1, 0, 1),
    )
    vk.vkCmdPipelineBarrier(commands, copy, copy, 0, 0, None, 0, None, 1, [barrier])
