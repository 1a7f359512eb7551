"""Compute pipelines from SPIR-V by name, their descriptor sets, and a pipeline cache on disk."""

from __future__ import annotations

import logging
import os
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from llm_lite.core.errors import DeviceError, FileError
from llm_lite.core.files.json_text import read_bytes
from llm_lite.core.files.places import user_folder
from llm_lite.core.files.writing import make_folder, write_file
from llm_lite.core.gpu.create import create, vk, vulkan_errors
from llm_lite.core.gpu.logical_device import LogicalDevice
from llm_lite.core.gpu.memory import Buffer
from llm_lite.core.gpu.shaders import interface_of, load_spirv

log = logging.getLogger(__name__)

_MOST_CACHED = 256 << 20  # bytes of pipelines that are taken over
SETS_PER_POOL = 256
BINDINGS_PER_SET = 10  # the most of any shader
FULL_SUBGROUPS = 0x2  # VK_PIPELINE_SHADER_STAGE_CREATE_REQUIRE_FULL_SUBGROUPS_BIT
DISPATCH_BASE = 0x10  # VK_PIPELINE_CREATE_DISPATCH_BASE_BIT, unknown to the package

BufferRange = tuple[Buffer, int, int]  # buffer, offset in bytes, size in bytes


class PipelineCache:
    """VkPipelineCache, read from and written to the user's cache folder.

    The driver checks the header (vendor, device, UUID) and ignores foreign data.
    """

    def __init__(self, device: LogicalDevice) -> None:
        self._device = device
        folder = os.environ.get("LLM_LITE_CACHE_DIR") or user_folder("cache")
        self.path = Path(folder) / f"pipelines-{device.info.vendor:08x}-{device.info.index}.bin"
        data = self._read()
        held = vk.ffi.from_buffer(data)
        info = vk.VkPipelineCacheCreateInfo(initialDataSize=len(data), pInitialData=held)
        self.handle: Any = create(vk.vkCreatePipelineCache, device.handle, info, held, data)
        # Not the size of the file: of a file of another driver nothing is taken over.
        self._saved_bytes = len(self._data())

    def _read(self) -> bytes:
        if not self.path.exists():
            return b""
        try:
            return read_bytes(self.path, _MOST_CACHED)
        except FileError as error:
            log.warning("the pipeline cache: %s", error)
            return b""

    def _data(self) -> bytes:
        size = vk.ffi.new("size_t*")
        get = vk.lib.vkGetPipelineCacheData
        get(self._device.handle, self.handle, size, vk.ffi.NULL)
        data = vk.ffi.new("char[]", size[0])
        get(self._device.handle, self.handle, size, data)
        return bytes(vk.ffi.buffer(data, size[0]))

    def save(self) -> None:
        """Write the cache if it grew; a full or read-only disk is logged, not raised."""
        data = self._data()
        if len(data) <= self._saved_bytes:
            return
        try:
            make_folder(self.path.parent)
            write_file(self.path, data)
            self._saved_bytes = len(data)
        except FileError as error:
            log.warning("the pipeline cache is not saved: %s", error)

    def close(self) -> None:
        self.save()
        vk.vkDestroyPipelineCache(self._device.handle, self.handle, None)
        self.handle = None


class CachingDevice(LogicalDevice, Protocol):
    """A device with the cache that its pipelines are made through."""

    @property
    def pipeline_cache(self) -> PipelineCache: ...


class ComputePipeline:
    """A compute pipeline of one shader variant.

    `constants` sets specialization constants by their names in GLSL (int, bool or float);
    a name the shader does not declare raises DeviceError. Bindings are reflected; descriptor
    sets are made by `bind`.
    """

    def __init__(
        self,
        device: CachingDevice,
        spirv_name: str,
        constants: Mapping[str, int | float] | None = None,
    ) -> None:
        self._device = device
        self.name = spirv_name
        spirv, self.interface = load_spirv(spirv_name), interface_of(spirv_name)
        self.set_layout: Any = None
        self.layout: Any = None
        self.handle: Any = None
        try:
            self.set_layout = self._create_set_layout()
            self.layout = self._create_layout()
            self.handle = self._create_pipeline(spirv, self._of_driver() | dict(constants or {}))
        except BaseException:
            self.close()
            raise

    def _of_driver(self) -> dict[str, int | float]:
        """Return the constants, of those that the shader declares, that say what the driver can
        compile."""
        known = {"UNPACKS_HALVES": self._device.info.unpacks_halves}
        return {name: known[name] for name in known if name in self.interface.constants}

    def _create_set_layout(self) -> Any:
        bindings = [
            vk.VkDescriptorSetLayoutBinding(
                binding=b.binding,
                descriptorType=descriptor_type(b.kind),
                descriptorCount=1,
                stageFlags=vk.VK_SHADER_STAGE_COMPUTE_BIT,
            )
            for b in self.interface.bindings
        ]
        info = vk.VkDescriptorSetLayoutCreateInfo(pBindings=bindings)
        return create(vk.vkCreateDescriptorSetLayout, self._device.handle, info, bindings)

    def _create_layout(self) -> Any:
        ranges = []
        if self.interface.push_bytes:
            stage = vk.VK_SHADER_STAGE_COMPUTE_BIT
            ranges = [vk.VkPushConstantRange(stageFlags=stage, size=self.interface.push_bytes)]
        info = vk.VkPipelineLayoutCreateInfo(
            pSetLayouts=[self.set_layout], pPushConstantRanges=ranges
        )
        return create(vk.vkCreatePipelineLayout, self._device.handle, info, ranges)

    def _create_pipeline(self, spirv: bytes, constants: Mapping[str, int | float]) -> Any:
        module_info = vk.VkShaderModuleCreateInfo(codeSize=len(spirv), pCode=spirv)
        module = create(vk.vkCreateShaderModule, self._device.handle, module_info, spirv)
        try:
            special, keep = self._specialization(constants)
            name = vk.ffi.new("char[]", b"main")
            stage = vk.VkPipelineShaderStageCreateInfo(
                flags=FULL_SUBGROUPS if self.interface.full_subgroups else 0,
                stage=vk.VK_SHADER_STAGE_COMPUTE_BIT,
                module=module,
                pName=name,
                pSpecializationInfo=special,
            )
            info = vk.VkComputePipelineCreateInfo(
                flags=DISPATCH_BASE, stage=stage, layout=self.layout
            )
            held = (info, stage, special, name, keep)
            with vulkan_errors(f"Creating the pipeline {self.name}"):
                cache = self._device.pipeline_cache.handle
                made = vk.vkCreateComputePipelines(self._device.handle, cache, 1, [info], None)
            del held
            return made[0]
        finally:
            vk.vkDestroyShaderModule(self._device.handle, module, None)

    def _specialization(self, constants: Mapping[str, int | float]) -> tuple[Any, Any]:
        entries, data = [], b""
        for name, value in constants.items():
            if name not in self.interface.constants:
                raise DeviceError(f"Shader {self.name} has no specialization constant {name}.")
            identity = self.interface.constants[name]
            entries.append(vk.VkSpecializationMapEntry(identity, len(data), 4))
            # Negative integers and unsigned ones share their bits.
            data += (
                struct.pack("<f", value)
                if isinstance(value, float)
                else struct.pack("<I", value & 0xFFFFFFFF)
            )
        held = vk.ffi.new("char[]", data)
        info = vk.VkSpecializationInfo(pMapEntries=entries, dataSize=len(data), pData=held)
        return info, (entries, held)

    def bind(self, sets: DescriptorSets, buffers: Mapping[str, BufferRange]) -> Any:
        """Return a descriptor set with every binding filled by name: (buffer, offset, size)."""
        writes, keep = [], []
        target = sets.allocate(self.set_layout)
        for b in self.interface.bindings:
            if b.name not in buffers:
                raise DeviceError(f"Shader {self.name} has no buffer for its binding {b.name}.")
            buffer, offset, size = buffers[b.name]
            part = vk.VkDescriptorBufferInfo(buffer=buffer.handle, offset=offset, range=size)
            keep.append(part)
            texels = b.kind == "texel_buffer"
            writes.append(
                vk.VkWriteDescriptorSet(
                    dstSet=target,
                    dstBinding=b.binding,
                    descriptorCount=1,
                    descriptorType=descriptor_type(b.kind),
                    pBufferInfo=None if texels else [part],
                    pTexelBufferView=[sets.view(buffers[b.name], b.format)] if texels else None,
                )
            )
        vk.vkUpdateDescriptorSets(self._device.handle, len(writes), writes, 0, None)
        del keep
        return target

    def dispatch(
        self,
        command_buffer: Any,
        descriptor_set: Any,
        groups: tuple[int, int],
        first: tuple[int, int] = (0, 0),
    ) -> None:
        """Record bind and dispatch of `groups` workgroups in x and y, numbered from `first`."""
        point, lib = vk.VK_PIPELINE_BIND_POINT_COMPUTE, vk.lib  # its wrappers take 20 us a call
        sets = vk.ffi.new("VkDescriptorSet[1]", [descriptor_set])
        lib.vkCmdBindPipeline(command_buffer, point, self.handle)
        lib.vkCmdBindDescriptorSets(command_buffer, point, self.layout, 0, 1, sets, 0, vk.ffi.NULL)
        if first == (0, 0):  # synchronization validation is blind to vkCmdDispatchBase
            lib.vkCmdDispatch(command_buffer, *groups, 1)
        else:
            lib.vkCmdDispatchBase(command_buffer, *first, 0, *groups, 1)

    def close(self) -> None:
        if self.handle is not None:
            vk.vkDestroyPipeline(self._device.handle, self.handle, None)
        if self.layout is not None:
            vk.vkDestroyPipelineLayout(self._device.handle, self.layout, None)
        if self.set_layout is not None:
            vk.vkDestroyDescriptorSetLayout(self._device.handle, self.set_layout, None)
        self.handle = self.layout = self.set_layout = None


def descriptor_type(kind: str) -> int:
    return int(
        {
            "storage_buffer": vk.VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
            "uniform_buffer": vk.VK_DESCRIPTOR_TYPE_UNIFORM_BUFFER,
            "texel_buffer": vk.VK_DESCRIPTOR_TYPE_STORAGE_TEXEL_BUFFER,
            "storage_image": vk.VK_DESCRIPTOR_TYPE_STORAGE_IMAGE,
            "sampled_image": vk.VK_DESCRIPTOR_TYPE_COMBINED_IMAGE_SAMPLER,
        }[kind]
    )


class DescriptorSets:
    """Descriptor sets of storage and texel buffers; grows by pools, freed together."""

    def __init__(self, device: LogicalDevice) -> None:
        self._device = device
        self._pools: list[Any] = []
        self._views: dict[tuple[Buffer, int, int, int], Any] = {}
        self._left = 0

    def allocate(self, layout: Any) -> Any:
        if self._left == 0:
            self._grow()
        self._left -= 1
        info = vk.VkDescriptorSetAllocateInfo(
            descriptorPool=self._pools[-1], pSetLayouts=[layout], descriptorSetCount=1
        )
        with vulkan_errors("vkAllocateDescriptorSets"):
            return vk.vkAllocateDescriptorSets(self._device.handle, info)[0]

    def view(self, part: BufferRange, format: int) -> Any:
        """Return a view of a part of a buffer as texels of a VkFormat, freed with the sets."""
        buffer, offset, size = part
        key = (*part, format)
        if key not in self._views:
            info = vk.VkBufferViewCreateInfo(
                buffer=buffer.handle, format=format, offset=offset, range=size
            )
            self._views[key] = create(vk.vkCreateBufferView, self._device.handle, info)
        return self._views[key]

    def _grow(self) -> None:
        kinds = (
            vk.VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
            vk.VK_DESCRIPTOR_TYPE_STORAGE_TEXEL_BUFFER,
        )
        count = SETS_PER_POOL * BINDINGS_PER_SET
        sizes = [vk.VkDescriptorPoolSize(kind, count) for kind in kinds]
        info = vk.VkDescriptorPoolCreateInfo(maxSets=SETS_PER_POOL, pPoolSizes=sizes)
        self._pools.append(create(vk.vkCreateDescriptorPool, self._device.handle, info, sizes))
        self._left = SETS_PER_POOL

    def close(self) -> None:
        for pool in self._pools:
            vk.vkDestroyDescriptorPool(self._device.handle, pool, None)
        for view in self._views.values():
            vk.vkDestroyBufferView(self._device.handle, view, None)
        self._pools.clear()
        self._views.clear()
        self._left = 0
