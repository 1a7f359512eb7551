"""Textures of Dear ImGui on the device: its font atlas, uploaded as glyphs arrive, and images
of ours, by number."""

from __future__ import annotations

from typing import Any

import numpy as np
from imgui_bundle import imgui
from msgspec import Struct
from numpy.typing import NDArray

from llm_lite.core.gpu.create import vk
from llm_lite.core.gpu.device import Device
from llm_lite.core.gpu.memory import Buffer, Image2D
from llm_lite.desktop.render.imgui_pipeline import ImageSets, ImguiPipeline
from llm_lite.desktop.render.retired import Retired

MAX_RECTANGLES = 64  # beyond that one bounding rectangle is cheaper than many copies
TEXEL_BYTES = 4


class Rect(Struct):
    """Texels."""

    x: int
    y: int
    w: int
    h: int


class _Atlas(Struct):
    image: Image2D
    fresh: bool = True  # its contents are still undefined


class Textures:
    """Numbered textures (`ImTextureID`); 0 is none. Freed when no frame in flight reads them."""

    def __init__(self, device: Device, pipeline: ImguiPipeline, retired: Retired) -> None:
        self._device = device
        self._retired = retired
        self._sets = ImageSets(device, pipeline)
        self._by_id: dict[int, Any] = {}  # number -> VkDescriptorSet[1]
        self._atlases: dict[int, _Atlas] = {}  # number -> what Dear ImGui asked for
        self._next_id = 1

    def register(self, view: Any, image_layout: int, nearest: bool) -> int:
        number, self._next_id = self._next_id, self._next_id + 1
        descriptor_set = self._sets.allocate(view, image_layout, nearest)
        self._by_id[number] = vk.ffi.new("VkDescriptorSet[1]", [descriptor_set])
        return number

    def unregister(self, number: int) -> None:
        """Forget a texture that no frame reads any more; its descriptor is used again."""
        self._sets.free(self._by_id.pop(number)[0])

    def descriptor(self, number: int) -> Any:
        """VkDescriptorSet[1]; raises KeyError for a number that is not registered."""
        return self._by_id[number]

    def pending(self) -> list[imgui.ImTextureData]:
        """List the current context's textures that wait for a change, those to destroy included."""
        ok = imgui.ImTextureStatus.ok
        return [t for t in imgui.get_platform_io().textures if t.status != ok]

    def serve(
        self, command_buffer: Any, pending: list[imgui.ImTextureData], staging: StagingArea,
        after: int,
    ) -> None:  # fmt: skip
        """Record what Dear ImGui asks for; outside a render pass. `after`: the timeline value of
        the last frame that may use a texture that goes away."""
        status = imgui.ImTextureStatus
        for texture in pending:
            if texture.status == status.want_destroy:
                self._destroy(texture, after)
                continue
            if texture.status == status.want_create:
                self._create(texture)
            if texture.status in (status.want_create, status.want_updates):
                self._upload(command_buffer, texture, staging)
                texture.set_status(status.ok)

    def _create(self, texture: imgui.ImTextureData) -> None:
        usage = vk.VK_IMAGE_USAGE_SAMPLED_BIT | vk.VK_IMAGE_USAGE_TRANSFER_DST_BIT
        form = vk.VK_FORMAT_R8G8B8A8_UNORM
        image = Image2D(self._device, texture.width, texture.height, form, usage)
        layout = vk.VK_IMAGE_LAYOUT_SHADER_READ_ONLY_OPTIMAL
        number = self.register(image.view, layout, nearest=False)
        self._atlases[number] = _Atlas(image)
        texture.set_tex_id(number)

    def _destroy(self, texture: imgui.ImTextureData, after: int) -> None:
        number = texture.get_tex_id()
        if number in self._atlases:
            self._retired.add(after, lambda: self.unregister(number))
            self._retired.add(after, self._atlases.pop(number).image.close)
        texture.set_tex_id(0)
        texture.set_status(imgui.ImTextureStatus.destroyed)

    def _upload(
        self, command_buffer: Any, texture: imgui.ImTextureData, staging: StagingArea
    ) -> None:
        atlas = self._atlases[texture.get_tex_id()]
        if texture.bytes_per_pixel != TEXEL_BYTES:
            raise ValueError(f"expected RGBA texels, found {texture.bytes_per_pixel} bytes each")
        pixels = texture.get_pixels_array().view(np.uint32).reshape(texture.height, texture.width)
        rectangles = _rectangles(texture, whole=atlas.fresh)
        regions = [staging.add(pixels, rectangle) for rectangle in rectangles]
        image = atlas.image.handle
        _transition(command_buffer, image, to_copy=True, fresh=atlas.fresh)
        vk.vkCmdCopyBufferToImage(
            command_buffer, staging.buffer.handle, image,
            vk.VK_IMAGE_LAYOUT_TRANSFER_DST_OPTIMAL, len(regions), regions,
        )  # fmt: skip
        _transition(command_buffer, image, to_copy=False, fresh=False)
        atlas.fresh = False

    def close(self) -> None:
        """Destroy what is left; the current context's textures are marked as destroyed."""
        for texture in imgui.get_platform_io().textures:
            if texture.get_tex_id() in self._atlases:
                self._destroy(texture, 0)
        self._retired.close()
        for atlas in self._atlases.values():
            atlas.image.close()
        self._atlases.clear()
        self._by_id.clear()
        self._sets.close()


class StagingArea:
    """A host buffer that is filled from the front once a frame; one for each frame in flight."""

    def __init__(self, device: Device, retired: Retired) -> None:
        self._device = device
        self._retired = retired
        self._used = 0
        self._buffer: Buffer | None = None

    @property
    def buffer(self) -> Buffer:
        assert self._buffer is not None
        return self._buffer

    def begin(self, size: int, after: int) -> None:
        """Start over with room for `size` bytes."""
        self._used = 0
        if self._buffer is not None and self._buffer.size >= size:
            return
        if self._buffer is not None:
            self._retired.add(after, self._buffer.close)
        usage = vk.VK_BUFFER_USAGE_TRANSFER_SRC_BIT
        self._buffer = Buffer(self._device, 1 << (size - 1).bit_length(), usage, host=True)

    def add(self, pixels: NDArray[np.uint32], rect: Rect) -> Any:
        """Copy a rectangle in and return its VkBufferImageCopy."""
        count = rect.w * rect.h
        start = self._used // TEXEL_BYTES
        target = self.buffer.array(np.uint32)[start : start + count].reshape(rect.h, rect.w)
        target[:] = pixels[rect.y : rect.y + rect.h, rect.x : rect.x + rect.w]
        region = vk.VkBufferImageCopy(
            bufferOffset=self._used,
            imageSubresource=vk.VkImageSubresourceLayers(vk.VK_IMAGE_ASPECT_COLOR_BIT, 0, 0, 1),
            imageOffset=vk.VkOffset3D(rect.x, rect.y, 0),
            imageExtent=vk.VkExtent3D(rect.w, rect.h, 1),
        )
        self._used += count * TEXEL_BYTES
        return region

    def close(self) -> None:
        if self._buffer is not None:
            self._buffer.close()
            self._buffer = None


def staging_bytes(pending: list[imgui.ImTextureData]) -> int:
    """Return an upper bound of the bytes that `serve` will stage for these textures."""
    status = imgui.ImTextureStatus
    total = 0
    for texture in pending:
        if texture.status in (status.want_create, status.want_updates):
            whole = texture.status == status.want_create
            total += sum(r.w * r.h for r in _rectangles(texture, whole=whole)) * TEXEL_BYTES
    return total


def _rectangles(texture: imgui.ImTextureData, *, whole: bool) -> list[Rect]:
    if whole:
        return [Rect(0, 0, texture.width, texture.height)]
    if len(texture.updates) > MAX_RECTANGLES:
        bound = texture.update_rect
        return [Rect(bound.x, bound.y, bound.w, bound.h)]
    return [Rect(r.x, r.y, r.w, r.h) for r in texture.updates]


def _transition(command_buffer: Any, image: Any, *, to_copy: bool, fresh: bool) -> None:
    """Between being read by fragments and being written by copies; earlier frames are waited
    for on the device, never on the host."""
    shader = (
        vk.VK_PIPELINE_STAGE_FRAGMENT_SHADER_BIT,
        vk.VK_ACCESS_SHADER_READ_BIT,
        vk.VK_IMAGE_LAYOUT_SHADER_READ_ONLY_OPTIMAL,
    )
    copy = (
        vk.VK_PIPELINE_STAGE_TRANSFER_BIT,
        vk.VK_ACCESS_TRANSFER_WRITE_BIT,
        vk.VK_IMAGE_LAYOUT_TRANSFER_DST_OPTIMAL,
    )
    before, after = (shader, copy) if to_copy else (copy, shader)
    barrier = vk.VkImageMemoryBarrier(
        srcAccessMask=0 if to_copy else before[1],
        dstAccessMask=after[1],
        oldLayout=vk.VK_IMAGE_LAYOUT_UNDEFINED if fresh else before[2],
        newLayout=after[2],
        srcQueueFamilyIndex=vk.VK_QUEUE_FAMILY_IGNORED,
        dstQueueFamilyIndex=vk.VK_QUEUE_FAMILY_IGNORED,
        image=image,
        subresourceRange=vk.VkImageSubresourceRange(vk.VK_IMAGE_ASPECT_COLOR_BIT, 0, 1, 0, 1),
    )
    vk.vkCmdPipelineBarrier(command_buffer, before[0], after[0], 0, 0, None, 0, None, 1, [barrier])
