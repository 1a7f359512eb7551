"""Maps on the device: their values, their colours, and the image that is drawn."""

from __future__ import annotations

from typing import Any

from llm_lite.core.gpu.create import vk
from llm_lite.core.gpu.device import Device
from llm_lite.core.gpu.memory import Buffer, Image2D
from llm_lite.desktop.attention.cells import Cell
from llm_lite.desktop.attention.kernels import COLOR_CHUNK
from llm_lite.desktop.render.imgui_renderer import ImguiRenderer

WORD = 4  # bytes of a value, of a colour
STORAGE = 0x20  # VK_BUFFER_USAGE_STORAGE_BUFFER_BIT


class MapSurface:
    """Cells of one size, `columns` beside each other in the image.

    `values` and `colors` hold the cells one after the other, row by row, without gaps.
    """

    def __init__(
        self, device: Device, renderer: ImguiRenderer, count: int, columns: int,
        size: tuple[int, int],
    ) -> None:  # fmt: skip
        self._renderer = renderer
        self.size, self.columns = size, columns
        self.cells: list[Cell] = []
        pixels = count * size[0] * size[1]
        self.values = Buffer(device, pixels * WORD, STORAGE, host=False)
        self.colors = Buffer(device, pixels * WORD, STORAGE, host=False)
        usage = vk.VK_IMAGE_USAGE_SAMPLED_BIT | vk.VK_IMAGE_USAGE_TRANSFER_DST_BIT
        form = vk.VK_FORMAT_R8G8B8A8_UNORM
        rows = -(-count // columns)
        self.image = Image2D(device, columns * size[0], rows * size[1], form, usage)
        self.texture = renderer.register_image(self.image.view, nearest=True)
        self.fresh = True  # the image has never been written
        self.spans: dict[int, tuple[int, int]] = {}  # cell -> pixel rows to colour again

    @property
    def nbytes(self) -> int:
        return 3 * self.values.size

    def place(self, number: int) -> tuple[int, int]:
        """Return the upper left pixel of a cell in the image."""
        row, column = divmod(number, self.columns)
        return column * self.size[0], row * self.size[1]

    def recolor(self, number: int, first: int, last: int) -> None:
        """Note that pixel rows first .. last - 1 of a cell show other values now."""
        before = self.spans.get(number)
        if before:
            first, last = min(first, before[0]), max(last, before[1])
        self.spans[number] = (first, last)

    def pieces(self) -> list[tuple[int, int]]:
        """List the pixels to colour again, (first, count), each piece for a workgroup."""
        width, found = self.size[0], []
        for number, (first, last) in self.spans.items():
            start = self.cells[number].origin + first * width
            end = start + (last - first) * width
            for at in range(start, end, COLOR_CHUNK):
                found.append((at, min(COLOR_CHUNK, end - at)))
        return found

    def copy_colors(self, commands: Any) -> None:
        """Record the copy of all spans from `colors` into the image, which can then be drawn."""
        width = self.size[0]
        regions = vk.ffi.new("VkBufferImageCopy[]", len(self.spans))
        for region, (number, (first, last)) in zip(regions, self.spans.items(), strict=True):
            x, y = self.place(number)
            region.bufferOffset = (self.cells[number].origin + first * width) * WORD
            region.imageSubresource.aspectMask = vk.VK_IMAGE_ASPECT_COLOR_BIT
            region.imageSubresource.layerCount = 1
            region.imageOffset.x, region.imageOffset.y = x, y + first
            extent = region.imageExtent
            extent.width, extent.height, extent.depth = width, last - first, 1
        self._move(commands, to_copy=True)
        vk.lib.vkCmdCopyBufferToImage(
            commands, self.colors.handle, self.image.handle,
            vk.VK_IMAGE_LAYOUT_TRANSFER_DST_OPTIMAL, len(regions), regions,
        )  # fmt: skip
        self._move(commands, to_copy=False)
        self.spans.clear()

    def prepare(self, commands: Any) -> None:
        """Make an image transparent that has never been written."""
        if not self.fresh:
            return
        self._move(commands, to_copy=True)
        whole = vk.VkImageSubresourceRange(
            aspectMask=vk.VK_IMAGE_ASPECT_COLOR_BIT, levelCount=1, layerCount=1
        )
        clear = vk.VkClearColorValue(float32=[0.0] * 4)
        vk.vkCmdClearColorImage(
            commands, self.image.handle, vk.VK_IMAGE_LAYOUT_TRANSFER_DST_OPTIMAL, clear, 1, [whole]
        )
        self._move(commands, to_copy=False)
        self._renderer.touched(self.texture)
        self.fresh = False

    def _move(self, commands: Any, *, to_copy: bool) -> None:
        read = vk.VK_IMAGE_LAYOUT_SHADER_READ_ONLY_OPTIMAL
        write = vk.VK_IMAGE_LAYOUT_TRANSFER_DST_OPTIMAL
        shader, copy = vk.VK_PIPELINE_STAGE_FRAGMENT_SHADER_BIT, vk.VK_PIPELINE_STAGE_TRANSFER_BIT
        barrier = vk.VkImageMemoryBarrier(
            srcAccessMask=0 if to_copy else vk.VK_ACCESS_TRANSFER_WRITE_BIT,
            dstAccessMask=(
                vk.VK_ACCESS_TRANSFER_WRITE_BIT if to_copy
                else vk.VK_ACCESS_SHADER_READ_BIT | vk.VK_ACCESS_TRANSFER_WRITE_BIT
            ),
            oldLayout=(vk.VK_IMAGE_LAYOUT_UNDEFINED if self.fresh else read) if to_copy else write,
            newLayout=write if to_copy else read,
            srcQueueFamilyIndex=vk.VK_QUEUE_FAMILY_IGNORED,
            dstQueueFamilyIndex=vk.VK_QUEUE_FAMILY_IGNORED,
            image=self.image.handle,
            subresourceRange=vk.VkImageSubresourceRange(
                aspectMask=vk.VK_IMAGE_ASPECT_COLOR_BIT, levelCount=1, layerCount=1
            ),
        )  # fmt: skip
        before, after = (shader | copy, copy) if to_copy else (copy, shader | copy)
        vk.vkCmdPipelineBarrier(commands, before, after, 0, 0, None, 0, None, 1, [barrier])

    def retire(self) -> None:
        """Close when the frame that is being built, which may draw it, is done."""
        self._renderer.unregister_image(self.texture)
        self._renderer.retire(self.close)

    def close(self) -> None:
        self.image.close()
        self.values.close()
        self.colors.close()


def most_pieces(count: int, size: int) -> int:
    """Return the most `pieces` of a surface of `count` cells of `size` x `size` pixels."""
    return count * -(-size * size // COLOR_CHUNK)
