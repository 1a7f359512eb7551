"""Render pass and framebuffers for one colour image: what a surface draws into."""

from __future__ import annotations

from typing import Any

from llm_lite.core.gpu.create import create, vk
from llm_lite.core.gpu.device import Device


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
