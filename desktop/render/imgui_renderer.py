"""Draws Dear ImGui's draw data on the shared device, into the caller's command buffer.

Per frame in flight one slot holds vertices, indices and staged texels, so nothing here ever waits
for the queue. Vulkan commands in the inner loop go straight to the loader (`vk.lib`): the Python
wrappers cost several microseconds a call.
"""

from __future__ import annotations

import ctypes
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np
from imgui_bundle import imgui

from llm_lite.core.gpu.create import vk
from llm_lite.core.gpu.device import Device
from llm_lite.core.gpu.memory import Buffer, Image2D
from llm_lite.desktop.render.damage import Damage
from llm_lite.desktop.render.draw_lists import Box, DrawList, Draws, read
from llm_lite.desktop.render.imgui_pipeline import PUSH_BYTES, VERTEX_BYTES, ImguiPipeline
from llm_lite.desktop.render.imgui_textures import StagingArea, Textures, staging_bytes
from llm_lite.desktop.render.retired import Retired, finish
from llm_lite.desktop.render.surface import SurfaceFrame, create_framebuffer, create_render_pass

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
        """Give the image this size; return True if it had it and so still holds a picture."""
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


Color = tuple[float, float, float, float]  # sRGB, straight alpha, 0..1
BLACK: Color = (0.0, 0.0, 0.0, 1.0)
FIRST_BYTES = 1 << 18
MAX_ATLAS_SIDE = 8192


class ImguiRenderer:
    """One renderer for one ImGui context; made when that context is current.

    With `partial`, a frame draws only what differs from the one before: for devices that are slow
    to fill pixels. Call `touched` when a registered image has changed.
    """

    def __init__(
        self, device: Device, color_format: int, *, frames_in_flight: int = 2,
        partial: bool = False,
    ) -> None:  # fmt: skip
        self._device = device
        self.retired = Retired(device.queue)
        self.vanished = 0  # images that were unregistered so far
        self._pipeline = ImguiPipeline(device, color_format)
        self._textures = Textures(device, self._pipeline, self.retired)
        self._slots = deque(_Slot(device, self.retired) for _ in range(frames_in_flight))
        self._leaving: list[Callable[[], None]] = []  # to be closed after the next frame
        self._last_value = 0  # timeline value of the last frame that was submitted
        self._index_type = (
            vk.VK_INDEX_TYPE_UINT32 if imgui.INDEX_SIZE == 4 else vk.VK_INDEX_TYPE_UINT16
        )
        self._structs = _Structs()
        self._kept = KeptImage(device, color_format, self.retired) if partial else None
        self._damage, self._touched, self._clear = Damage(), set[int](), BLACK
        self._announce()

    def _announce(self) -> None:
        if imgui.VERTEX_SIZE != VERTEX_BYTES:
            raise ValueError(f"ImDrawVert: expected {VERTEX_BYTES} bytes, is {imgui.VERTEX_SIZE}")
        flags = imgui.BackendFlags_
        io, platform = imgui.get_io(), imgui.get_platform_io()
        io.backend_flags |= flags.renderer_has_textures | flags.renderer_has_vtx_offset
        properties = vk.vkGetPhysicalDeviceProperties(self._device.physical)  # holds its limits
        side = min(int(properties.limits.maxImageDimension2D), MAX_ATLAS_SIDE)
        platform.renderer_texture_max_width = platform.renderer_texture_max_height = side

    def register_image(
        self, view: Any, *, nearest: bool = False, image_layout: int | None = None
    ) -> int:
        """Return a texture number for `imgui.ImTextureRef`, for a view that is in `image_layout`
        (SHADER_READ_ONLY_OPTIMAL by default) whenever a frame draws it. `nearest` shows texels as
        squares instead of blending them."""
        if image_layout is None:
            image_layout = vk.VK_IMAGE_LAYOUT_SHADER_READ_ONLY_OPTIMAL
        return self._textures.register(view, image_layout, nearest)

    def unregister_image(self, texture: int) -> None:
        """Forget a number once the frame that is being built, which may draw it, is done."""
        self.vanished += 1
        self.retire(lambda: self._textures.unregister(texture))

    def retire(self, close: Callable[[], None]) -> None:
        """Call `close` when the frame that is being built, and all before it, are done on the
        device: the way to destroy an image that has been drawn (`retire(image.close)`)."""
        self._leaving.append(close)

    def touched(self, texture: int) -> None:
        """Note that the image with this number shows something else from the next frame on."""
        self._touched.add(texture)

    def record(
        self, command_buffer: Any, draw_data: imgui.ImDrawData, frame: SurfaceFrame,
        clear: Color = BLACK, *, aside: bool = False,
    ) -> None:  # fmt: skip
        """Record texture uploads and drawing; `aside` is something else than the next frame. The
        frame submitted `frames_in_flight` frames ago must be done on the device: the caller waits
        for it."""
        self.retired.sweep()
        slot = self._slots[0]
        pending = self._textures.pending()
        if pending:
            slot.staging.begin(max(staging_bytes(pending), 1), self._last_value)
            self._textures.serve(command_buffer, pending, slot.staging, self._last_value)
        lists = read(draw_data)
        slot.fill(lists, self._last_value)
        draws = Draws(lists, draw_data, frame.extent)
        if self._kept is None or frame.image is None or aside:
            whole, target = (0, 0, *frame.extent), (frame.render_pass, frame.framebuffer)
            self._pass(command_buffer, draw_data, draws, frame.extent, target, whole, clear)
            return
        for box, target in self._changes(self._kept, lists, frame.extent, clear):
            self._pass(command_buffer, draw_data, draws, frame.extent, target, box, clear)
        self._kept.copy_to(command_buffer, frame)

    def _changes(
        self, kept: KeptImage, lists: list[DrawList], extent: tuple[int, int], clear: Color
    ) -> list[tuple[Box, tuple[Any, Any]]]:
        """List the boxes to draw again, with render pass and framebuffer for each."""
        if not kept.fit(extent, self._last_value) or clear != self._clear:
            self._damage.forget()
        self._clear = clear
        boxes = self._damage.of(lists, extent, self._touched)
        self._touched.clear()
        if boxes is None:
            return [((0, 0, *extent), (kept.whole, kept.framebuffer))]
        return [(box, (kept.part, kept.framebuffer)) for box in boxes]

    def _pass(
        self, command_buffer: Any, draw_data: imgui.ImDrawData, draws: Draws,
        extent: tuple[int, int], target: tuple[Any, Any], box: Box, clear: Color,
    ) -> None:  # fmt: skip
        self._begin_pass(command_buffer, target, box, clear)
        if draws.commands:
            self._bind(command_buffer, draw_data, self._slots[0], extent)
            self._draw(command_buffer, draws, box)
        vk.lib.vkCmdEndRenderPass(command_buffer)

    def submitted(self, value: int) -> None:
        """Tell the timeline value of the frame that was recorded last."""
        self._last_value = value
        self._slots.rotate(-1)
        for close in self._leaving:
            self.retired.add(value, close)
        self._leaving.clear()

    def _begin_pass(
        self, command_buffer: Any, target: tuple[Any, Any], box: Box, clear: Color
    ) -> None:
        info = self._structs.render_pass
        info.renderPass, info.framebuffer = target
        _set_box(info.renderArea, box)
        self._structs.clear[0].color.float32 = clear
        vk.lib.vkCmdBeginRenderPass(command_buffer, info, vk.VK_SUBPASS_CONTENTS_INLINE)

    def _bind(
        self, command_buffer: Any, draw_data: imgui.ImDrawData, slot: _Slot,
        extent: tuple[int, int],
    ) -> None:  # fmt: skip
        lib, structs = vk.lib, self._structs
        graphics = vk.VK_PIPELINE_BIND_POINT_GRAPHICS
        lib.vkCmdBindPipeline(command_buffer, graphics, self._pipeline.handle)
        structs.viewport.width, structs.viewport.height = extent
        lib.vkCmdSetViewport(command_buffer, 0, 1, structs.viewport)
        structs.buffer[0] = slot.vertices.handle
        lib.vkCmdBindVertexBuffers(command_buffer, 0, 1, structs.buffer, structs.zero)
        lib.vkCmdBindIndexBuffer(command_buffer, slot.indices.handle, 0, self._index_type)
        structs.set_projection(draw_data)
        lib.vkCmdPushConstants(
            command_buffer, self._pipeline.layout, vk.VK_SHADER_STAGE_VERTEX_BIT,
            0, PUSH_BYTES, structs.projection,
        )  # fmt: skip

    def _draw(self, command_buffer: Any, draws: Draws, area: Box) -> None:
        lib, scissor, layout = vk.lib, self._structs.scissor, self._pipeline.layout
        graphics = vk.VK_PIPELINE_BIND_POINT_GRAPHICS
        texture, clip = 0, None
        for at, box in draws.within(area):
            number, count, first, vertex = draws.commands[at]
            if number != texture:
                descriptor = self._textures.descriptor(number)
                lib.vkCmdBindDescriptorSets(
                    command_buffer, graphics, layout, 0, 1, descriptor, 0, vk.ffi.NULL
                )
                texture = number
            if box != clip:
                _set_box(scissor, box)
                lib.vkCmdSetScissor(command_buffer, 0, 1, scissor)
                clip = box
            lib.vkCmdDrawIndexed(command_buffer, count, 1, first, vertex, 0)

    def close(self) -> None:
        """Destroy everything; waits for the last submitted frame."""
        if self._last_value:
            finish(lambda: self._device.queue.wait(self._last_value))
        flags = imgui.BackendFlags_
        imgui.get_io().backend_flags &= ~(
            flags.renderer_has_textures | flags.renderer_has_vtx_offset
        )
        for close in self._leaving:
            self.retired.add(self._last_value, close)
        self._textures.close()
        for slot in self._slots:
            slot.close()
        if self._kept is not None:
            self._kept.close()
        self._pipeline.close()


class _Structs:
    """C structs that live as long as the renderer and are refilled for each call."""

    def __init__(self) -> None:
        new = vk.ffi.new
        self.viewport = new("VkViewport*", {"minDepth": 0.0, "maxDepth": 1.0})
        self.scissor = new("VkRect2D*")
        self.buffer = new("VkBuffer[1]")
        self.zero = new("VkDeviceSize[1]", [0])
        self.projection = new("float[4]")
        self.clear = new("VkClearValue[1]")
        begin = vk.VK_STRUCTURE_TYPE_RENDER_PASS_BEGIN_INFO
        self.render_pass = new(
            "VkRenderPassBeginInfo*",
            {"sType": begin, "clearValueCount": 1, "pClearValues": self.clear},
        )

    def set_projection(self, draw_data: imgui.ImDrawData) -> None:
        """Set the mapping of display pixels to clip space: x * scale + translate."""
        position, size = draw_data.display_pos, draw_data.display_size
        scale_x, scale_y = 2.0 / size.x, 2.0 / size.y
        self.projection[0], self.projection[1] = scale_x, scale_y
        self.projection[2] = -1.0 - position.x * scale_x
        self.projection[3] = -1.0 - position.y * scale_y


class _Slot:
    """Host buffers of one frame in flight."""

    def __init__(self, device: Device, retired: Retired) -> None:
        self._device = device
        self._retired = retired
        self.staging = StagingArea(device, retired)
        self.vertices = self._buffer(FIRST_BYTES, vk.VK_BUFFER_USAGE_VERTEX_BUFFER_BIT)
        self.indices = self._buffer(FIRST_BYTES, vk.VK_BUFFER_USAGE_INDEX_BUFFER_BIT)

    def _buffer(self, size: int, usage: int) -> Buffer:
        return Buffer(self._device, size, usage, host=True)

    def fill(self, lists: list[DrawList], after: int) -> None:
        """Copy all lists, one move each for vertices and indices."""
        self._reserve(lists, after)
        vertex, index = _address(self.vertices), _address(self.indices)
        for one in lists:
            size = one.vertex_count * VERTEX_BYTES
            ctypes.memmove(vertex, one.vertices, size)
            vertex += size
            size = one.index_count * imgui.INDEX_SIZE
            ctypes.memmove(index, one.indices, size)
            index += size

    def _reserve(self, lists: list[DrawList], after: int) -> None:
        needed = sum(one.vertex_count for one in lists) * VERTEX_BYTES
        if needed > self.vertices.size:
            self._retired.add(after, self.vertices.close)
            usage = vk.VK_BUFFER_USAGE_VERTEX_BUFFER_BIT
            self.vertices = self._buffer(1 << needed.bit_length(), usage)
        needed = sum(one.index_count for one in lists) * imgui.INDEX_SIZE
        if needed > self.indices.size:
            self._retired.add(after, self.indices.close)
            usage = vk.VK_BUFFER_USAGE_INDEX_BUFFER_BIT
            self.indices = self._buffer(1 << needed.bit_length(), usage)

    def close(self) -> None:
        self.staging.close()
        self.vertices.close()
        self.indices.close()


def _set_box(rect: Any, box: Box) -> None:
    """Write a box into a VkRect2D."""
    rect.offset.x, rect.offset.y = box[0], box[1]
    rect.extent.width, rect.extent.height = box[2] - box[0], box[3] - box[1]


def _address(buffer: Buffer) -> int:
    return int(buffer.array(np.uint8).ctypes.data)


def _move(commands: Any, image: Any, old: int, new: int) -> None:
    """Change an image's layout, ordered after copies before and ahead of copies after."""
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
