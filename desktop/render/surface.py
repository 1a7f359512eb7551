"""The protocol that windows and offscreen images share, their render pass and framebuffers."""

from __future__ import annotations

from typing import Any, Protocol

from msgspec import Struct, field

from llm_lite.core.gpu.create import create, vk
from llm_lite.core.gpu.device import Device


class SurfaceFrame(Struct, frozen=True):
    """An image to draw into. `extent` in pixels; `waits` and `signals` go to the submit."""

    render_pass: Any
    framebuffer: Any
    extent: tuple[int, int]
    image_index: int = 0
    waits: tuple[tuple[Any, int], ...] = field(default=())
    signals: tuple[Any, ...] = field(default=())
    image: Any = None  # where it can be copied to as well; it must be left in `layout`
    layout: int = 0


class Surface(Protocol):
    """A window or an offscreen image.

    `ui_scale`: display pixels of the interface per design pixel; fonts and spacing follow it.
    """

    color_format: int

    @property
    def ui_scale(self) -> float: ...

    @property
    def drawable(self) -> bool:
        """Return False while there is nothing to draw to: minimised, closed."""

    def new_frame(self) -> None:
        """Tell Dear ImGui display size, framebuffer scale, time and input."""

    def begin_frame(self) -> SurfaceFrame | None:
        """Return the next image, or None when this frame must be dropped."""

    def end_frame(self, frame: SurfaceFrame, value: int) -> None:
        """Show the frame whose submit signals timeline value `value`."""


def create_render_pass(
    device: Device, color_format: int, final_layout: int, *, initial_layout: int | None = None
) -> Any:
    """Create a pass with one colour attachment, cleared, then left in `final_layout`. With
    `initial_layout`, which the image must be in then, what lies outside the pass's area stays.
    Passes of one format are compatible whatever their layouts, so a pipeline made for one of them
    serves all."""
    color = vk.VkAttachmentDescription(
        format=color_format,
        samples=vk.VK_SAMPLE_COUNT_1_BIT,
        loadOp=vk.VK_ATTACHMENT_LOAD_OP_CLEAR,
        storeOp=vk.VK_ATTACHMENT_STORE_OP_STORE,
        stencilLoadOp=vk.VK_ATTACHMENT_LOAD_OP_DONT_CARE,
        stencilStoreOp=vk.VK_ATTACHMENT_STORE_OP_DONT_CARE,
        initialLayout=initial_layout or vk.VK_IMAGE_LAYOUT_UNDEFINED,
        finalLayout=final_layout,
    )
    reference = vk.VkAttachmentReference(
        attachment=0, layout=vk.VK_IMAGE_LAYOUT_COLOR_ATTACHMENT_OPTIMAL
    )
    subpass = vk.VkSubpassDescription(
        pipelineBindPoint=vk.VK_PIPELINE_BIND_POINT_GRAPHICS, pColorAttachments=[reference]
    )
    dependencies = _dependencies()
    info = vk.VkRenderPassCreateInfo(
        pAttachments=[color], pSubpasses=[subpass], pDependencies=dependencies
    )
    return create(
        vk.vkCreateRenderPass, device.handle, info, color, reference, subpass, dependencies
    )


def _dependencies() -> list[Any]:
    """Order the pass after the previous frame's drawing and copying, and before a copy out of the
    image."""
    drawing = vk.VK_PIPELINE_STAGE_COLOR_ATTACHMENT_OUTPUT_BIT
    copying = vk.VK_PIPELINE_STAGE_TRANSFER_BIT
    before = vk.VkSubpassDependency(
        srcSubpass=vk.VK_SUBPASS_EXTERNAL,
        dstSubpass=0,
        srcStageMask=drawing | copying,
        dstStageMask=drawing,
        srcAccessMask=vk.VK_ACCESS_COLOR_ATTACHMENT_WRITE_BIT,
        dstAccessMask=vk.VK_ACCESS_COLOR_ATTACHMENT_WRITE_BIT,
    )
    after = vk.VkSubpassDependency(
        srcSubpass=0,
        dstSubpass=vk.VK_SUBPASS_EXTERNAL,
        srcStageMask=drawing,
        dstStageMask=copying,
        srcAccessMask=vk.VK_ACCESS_COLOR_ATTACHMENT_WRITE_BIT,
        dstAccessMask=vk.VK_ACCESS_TRANSFER_READ_BIT,
    )
    return [before, after]


def create_framebuffer(device: Device, render_pass: Any, view: Any, extent: tuple[int, int]) -> Any:
    info = vk.VkFramebufferCreateInfo(
        renderPass=render_pass,
        pAttachments=[view],
        width=extent[0],
        height=extent[1],
        layers=1,
    )
    return create(vk.vkCreateFramebuffer, device.handle, info)
