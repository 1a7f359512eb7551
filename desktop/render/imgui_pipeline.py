"""The graphics pipeline that draws Dear ImGui's triangles, and its descriptor sets."""

from __future__ import annotations

import weakref
from typing import Any

from llm_lite.core.gpu.create import create, vk, vulkan_errors
from llm_lite.core.gpu.device import Device
from llm_lite.core.gpu.shaders import load_spirv
from llm_lite.desktop.render.surface import create_render_pass

SETS_PER_POOL = 64
PUSH_BYTES = 16  # scale and translation, two floats each
VERTEX_BYTES = 20  # ImDrawVert: float position[2], uv[2]; sRGB colour, four bytes


class ImguiPipeline:
    """Pipeline, layout and samplers for targets of `color_format` (a UNORM format: Dear ImGui's
    colours are sRGB already and must be stored as they are)."""

    def __init__(self, device: Device, color_format: int) -> None:
        self._device = device
        self.samplers = {near: _sampler(device, near) for near in (False, True)}
        self.set_layout = _set_layout(device)
        self.layout = _layout(device, self.set_layout)
        layout = vk.VK_IMAGE_LAYOUT_COLOR_ATTACHMENT_OPTIMAL
        render_pass = create_render_pass(device, color_format, layout)
        try:
            self.handle = _pipeline(device, self.layout, render_pass)
        finally:
            vk.vkDestroyRenderPass(device.handle, render_pass, None)

    def close(self) -> None:
        device = self._device.handle
        vk.vkDestroyPipeline(device, self.handle, None)
        vk.vkDestroyPipelineLayout(device, self.layout, None)
        vk.vkDestroyDescriptorSetLayout(device, self.set_layout, None)
        for sampler in self.samplers.values():
            vk.vkDestroySampler(device, sampler, None)


class ImageSets:
    """Descriptor sets of one sampled image each; pools are added as needed, sets come back."""

    def __init__(self, device: Device, pipeline: ImguiPipeline) -> None:
        self._device = device
        self._pipeline = pipeline
        self._pools: list[Any] = []
        self._free: list[Any] = []

    def allocate(self, view: Any, image_layout: int, nearest: bool) -> Any:
        if not self._free:
            self._grow()
        target = self._free.pop()
        image = vk.VkDescriptorImageInfo(
            sampler=self._pipeline.samplers[nearest], imageView=view, imageLayout=image_layout
        )
        write = vk.VkWriteDescriptorSet(
            dstSet=target,
            dstBinding=0,
            descriptorCount=1,
            descriptorType=vk.VK_DESCRIPTOR_TYPE_COMBINED_IMAGE_SAMPLER,
            pImageInfo=[image],
        )
        vk.vkUpdateDescriptorSets(self._device.handle, 1, [write], 0, None)
        return target

    def free(self, descriptor_set: Any) -> None:
        self._free.append(descriptor_set)

    def _grow(self) -> None:
        size = vk.VkDescriptorPoolSize(
            type=vk.VK_DESCRIPTOR_TYPE_COMBINED_IMAGE_SAMPLER, descriptorCount=SETS_PER_POOL
        )
        info = vk.VkDescriptorPoolCreateInfo(maxSets=SETS_PER_POOL, pPoolSizes=[size])
        pool = create(vk.vkCreateDescriptorPool, self._device.handle, info, size)
        self._pools.append(pool)
        layouts = [self._pipeline.set_layout] * SETS_PER_POOL
        request = vk.VkDescriptorSetAllocateInfo(
            descriptorPool=pool, descriptorSetCount=SETS_PER_POOL, pSetLayouts=layouts
        )
        with vulkan_errors("vkAllocateDescriptorSets"):
            made = vk.vkAllocateDescriptorSets(self._device.handle, request)
        self._free.extend(made[i] for i in range(SETS_PER_POOL))

    def close(self) -> None:
        for pool in self._pools:
            vk.vkDestroyDescriptorPool(self._device.handle, pool, None)
        self._pools.clear()
        self._free.clear()


def _sampler(device: Device, nearest: bool) -> Any:
    choice = vk.VK_FILTER_NEAREST if nearest else vk.VK_FILTER_LINEAR
    edge = vk.VK_SAMPLER_ADDRESS_MODE_CLAMP_TO_EDGE
    info = vk.VkSamplerCreateInfo(
        magFilter=choice,
        minFilter=choice,
        mipmapMode=vk.VK_SAMPLER_MIPMAP_MODE_NEAREST,
        addressModeU=edge,
        addressModeV=edge,
        addressModeW=edge,
        maxLod=0.0,
    )
    return create(vk.vkCreateSampler, device.handle, info)


def _set_layout(device: Device) -> Any:
    binding = vk.VkDescriptorSetLayoutBinding(
        binding=0,
        descriptorType=vk.VK_DESCRIPTOR_TYPE_COMBINED_IMAGE_SAMPLER,
        descriptorCount=1,
        stageFlags=vk.VK_SHADER_STAGE_FRAGMENT_BIT,
    )
    info = vk.VkDescriptorSetLayoutCreateInfo(pBindings=[binding])
    return create(vk.vkCreateDescriptorSetLayout, device.handle, info, binding)


def _layout(device: Device, set_layout: Any) -> Any:
    push = vk.VkPushConstantRange(stageFlags=vk.VK_SHADER_STAGE_VERTEX_BIT, size=PUSH_BYTES)
    info = vk.VkPipelineLayoutCreateInfo(pSetLayouts=[set_layout], pPushConstantRanges=[push])
    return create(vk.vkCreatePipelineLayout, device.handle, info, push)


def _pipeline(device: Device, layout: Any, render_pass: Any) -> Any:
    vertex, fragment = (_module(device, name) for name in ("imgui.vert", "imgui.frag"))
    try:
        entry = vk.ffi.new("char[]", b"main")
        stages = [
            vk.VkPipelineShaderStageCreateInfo(stage=stage, module=module, pName=entry)
            for stage, module in (
                (vk.VK_SHADER_STAGE_VERTEX_BIT, vertex),
                (vk.VK_SHADER_STAGE_FRAGMENT_BIT, fragment),
            )
        ]
        state = _fixed_state()
        keep: list[Any] = [entry, stages, state, layout, render_pass]
        info = vk.VkGraphicsPipelineCreateInfo(
            pStages=stages, layout=layout, renderPass=render_pass, subpass=0, **state
        )
        with vulkan_errors("Creating the pipeline of the interface"):
            cache = device.pipeline_cache.handle
            made = vk.vkCreateGraphicsPipelines(device.handle, cache, 1, [info], None)
        keep.clear()
        return made[0]
    finally:
        for module in (vertex, fragment):
            vk.vkDestroyShaderModule(device.handle, module, None)


def _module(device: Device, name: str) -> Any:
    code = load_spirv(name)
    info = vk.VkShaderModuleCreateInfo(codeSize=len(code), pCode=code)
    return create(vk.vkCreateShaderModule, device.handle, info, code)


_hold: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()


def _kept(owner: Any, *parts: Any) -> Any:
    """Keep `parts`, to which `owner` points, alive as long as `owner`; return it."""
    _hold[owner] = parts
    return owner


def _fixed_state() -> dict[str, Any]:
    dynamic = [vk.VK_DYNAMIC_STATE_VIEWPORT, vk.VK_DYNAMIC_STATE_SCISSOR]
    return {
        "pVertexInputState": _vertex_input(),
        "pInputAssemblyState": vk.VkPipelineInputAssemblyStateCreateInfo(
            topology=vk.VK_PRIMITIVE_TOPOLOGY_TRIANGLE_LIST
        ),
        "pViewportState": vk.VkPipelineViewportStateCreateInfo(viewportCount=1, scissorCount=1),
        "pRasterizationState": vk.VkPipelineRasterizationStateCreateInfo(
            polygonMode=vk.VK_POLYGON_MODE_FILL,
            cullMode=vk.VK_CULL_MODE_NONE,
            frontFace=vk.VK_FRONT_FACE_COUNTER_CLOCKWISE,
            lineWidth=1.0,
        ),
        "pMultisampleState": vk.VkPipelineMultisampleStateCreateInfo(
            rasterizationSamples=vk.VK_SAMPLE_COUNT_1_BIT
        ),
        "pColorBlendState": _blending(),
        "pDynamicState": vk.VkPipelineDynamicStateCreateInfo(pDynamicStates=dynamic),
    }


def _vertex_input() -> Any:
    binding = vk.VkVertexInputBindingDescription(
        binding=0, stride=VERTEX_BYTES, inputRate=vk.VK_VERTEX_INPUT_RATE_VERTEX
    )
    attributes = [
        vk.VkVertexInputAttributeDescription(location=i, binding=0, format=kind, offset=offset)
        for i, (kind, offset) in enumerate(
            (
                (vk.VK_FORMAT_R32G32_SFLOAT, 0),
                (vk.VK_FORMAT_R32G32_SFLOAT, 8),
                (vk.VK_FORMAT_R8G8B8A8_UNORM, 16),
            )
        )
    ]
    info = vk.VkPipelineVertexInputStateCreateInfo(
        pVertexBindingDescriptions=[binding], pVertexAttributeDescriptions=attributes
    )
    return _kept(info, binding, attributes)


def _blending() -> Any:
    """Blend by straight alpha over the target, whose alpha is accumulated."""
    inverse = vk.VK_BLEND_FACTOR_ONE_MINUS_SRC_ALPHA
    attachment = vk.VkPipelineColorBlendAttachmentState(
        blendEnable=1,
        srcColorBlendFactor=vk.VK_BLEND_FACTOR_SRC_ALPHA,
        dstColorBlendFactor=inverse,
        colorBlendOp=vk.VK_BLEND_OP_ADD,
        srcAlphaBlendFactor=vk.VK_BLEND_FACTOR_ONE,
        dstAlphaBlendFactor=inverse,
        alphaBlendOp=vk.VK_BLEND_OP_ADD,
        colorWriteMask=0xF,
    )
    info = vk.VkPipelineColorBlendStateCreateInfo(pAttachments=[attachment])
    return _kept(info, attachment)
