"""The one Vulkan device that the frame and the model share."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any, TypeVar

from llm_lite.core.errors import DeviceError
from llm_lite.core.gpu.create import abandon, create, unless_abandoned, vk, vulkan_errors
from llm_lite.core.gpu.info import (
    BESIDE_MATRICES,
    INTEGER_DOT,
    MATRICES,
    SUBGROUP_CONTROL,
    DeviceInfo,
    describe,
    device_extensions,
)
from llm_lite.core.gpu.instance import Instance, validation_wanted
from llm_lite.core.gpu.memory import Staging
from llm_lite.core.gpu.memory_types import MemoryTypes
from llm_lite.core.gpu.pipeline_store import PipelineStore
from llm_lite.core.gpu.pipelines import PipelineCache
from llm_lite.core.gpu.queue import Queue

__all__ = ["Device", "DeviceInfo", "list_devices"]

log = logging.getLogger(__name__)

Part = TypeVar("Part", Queue, PipelineCache, PipelineStore, Staging)

_PREFERENCE = ("discrete", "integrated", "virtual", "other", "software")
_OPTIONAL_EXTENSIONS = ("VK_KHR_portability_subset",)  # must be enabled where a driver has it


def list_devices() -> tuple[DeviceInfo, ...]:
    """Return every physical device, usable or not; () without a loader or a driver."""
    try:
        instance = Instance()
    except DeviceError:
        return ()
    try:
        return _descriptions(instance)
    except DeviceError:
        return ()
    finally:
        instance.close()


class Device:
    """VkDevice with its instance, queues, pipeline cache and staging; made by `Device.open`.

    `queue` serves graphics and compute; `compute` is a second queue of the same family, at a
    lower priority, where the driver has one, else the same object.
    """

    def __init__(self, owner: Instance, physical: Any, info: DeviceInfo, swapchain: bool) -> None:
        self._owner = owner
        self._closed = False
        self.instance: Any = owner.handle
        self.validation_messages: list[str] = owner.messages
        self.physical: Any = physical
        self.info = info
        assert info.family is not None
        self.family: int = info.family
        self._functions: dict[str, Any] = {}
        count = min(2, info.queue_families[self.family].count)
        self.handle: Any = _create_device(physical, info, count, swapchain)
        self.memory_types = MemoryTypes(physical)
        self._parts = ExitStack()  # what is closed before the device, in reverse
        try:
            self.queue = self._own(Queue(self, self.family, 0))
            second = count > 1
            self.compute = self._own(Queue(self, self.family, 1)) if second else self.queue
            self.pipeline_cache = self._own(PipelineCache(self))
            self.pipelines = self._own(PipelineStore(self))
            self.staging = self._own(Staging(self))
        except BaseException:
            self._destroy()
            raise

    def _own(self, part: Part) -> Part:
        self._parts.callback(part.close)
        return part

    def _destroy(self) -> None:
        self._parts.close()
        vk.vkDestroyDevice(self.handle, None)

    @classmethod
    def open(
        cls,
        index: int | None = None,
        *,
        window_extensions: Sequence[str] = (),
        validation: bool = False,
    ) -> Device:
        """Open device `index` of `list_devices()`, or the best usable one.

        `window_extensions` are the instance extensions that a window needs; giving some also
        enables VK_KHR_swapchain. Raises DeviceError when there is no such or no usable device.
        """
        instance = Instance(window_extensions, validation=validation_wanted(validation))
        try:
            physical, info = _choose(instance, index)
            if window_extensions and not info.features["swapchain"]:
                raise DeviceError(f"{info.name} cannot draw to a window (no VK_KHR_swapchain).")
            return cls(instance, physical, info, bool(window_extensions))
        except BaseException:
            instance.close()
            raise

    def function(self, name: str) -> Any:
        """Return a function of an extension of the device, for example vkCreateSwapchainKHR.

        Raises DeviceError where the driver has no such function.
        """
        if name not in self._functions:
            try:
                found = vk.vkGetDeviceProcAddr(self.handle, name)
                self._functions[name] = unless_abandoned(name, found)
            except (vk.ProcedureNotFoundError, vk.ExtensionNotSupportedError) as error:
                raise DeviceError(f"The Vulkan driver does not offer {name}.") from error
        return self._functions[name]

    def instance_function(self, name: str) -> Any:
        """Return a function of an extension of the instance: its first argument is the instance or
        a physical device. Raises DeviceError where the loader has no such function."""
        return self._owner.function(name)

    def abandon(self) -> None:
        """Close nothing of it, now or later: it does not finish its work, which uses all this."""
        for handle in (self.handle, self.instance):
            abandon(handle, self)

    def wait_idle(self) -> None:
        self.queue.wait_idle()
        if self.compute is not self.queue:
            self.compute.wait_idle()

    def close(self) -> None:
        """Destroy everything this object made; buffers and pipelines of others come first."""
        if self._closed:
            return
        self._closed = True
        try:
            self.wait_idle()
        except DeviceError as error:  # what waited for the work has raised it already
            log.warning("%s", error)
        self._destroy()
        self._owner.close()

    def __enter__(self) -> Device:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _descriptions(instance: Instance) -> tuple[DeviceInfo, ...]:
    physical = enumerate(instance.physical_devices())
    return tuple(describe(instance.handle, one, index) for index, one in physical)


def _choose(instance: Instance, index: int | None) -> tuple[Any, DeviceInfo]:
    found = list(zip(instance.physical_devices(), _descriptions(instance), strict=True))
    if index is not None:
        if not 0 <= index < len(found):
            raise DeviceError(f"there is no Vulkan device {index}: {len(found)} were found")
        physical, info = found[index]
        if not info.usable:
            raise DeviceError(f"{info.name} cannot be used: {info.why_not}")
        return physical, info
    usable = [pair for pair in found if pair[1].usable]
    if not usable:
        reasons = "; ".join(f"{i.name}: {i.why_not}" for _, i in found) or "no driver found"
        raise DeviceError(f"There is no usable Vulkan device ({reasons}).")
    return min(usable, key=lambda pair: _PREFERENCE.index(pair[1].kind))


def _create_device(physical: Any, info: DeviceInfo, queues: int, swapchain: bool) -> Any:
    available = device_extensions(physical)
    extensions = [name for name in _OPTIONAL_EXTENSIONS if name in available]
    if swapchain:
        extensions.append("VK_KHR_swapchain")
    priorities = vk.ffi.new("float[]", [1.0, 0.0][:queues])
    queue_info = vk.VkDeviceQueueCreateInfo(
        queueFamilyIndex=info.family, queueCount=queues, pQueuePriorities=priorities
    )
    extra = dict.fromkeys(BESIDE_MATRICES, 1) if info.matrices else {}
    chain: list[Any] = [vk.VkPhysicalDeviceVulkan12Features(timelineSemaphore=1, **extra)]
    if info.features["integer_dot_product"]:
        extensions.append(INTEGER_DOT)
        dots = vk.VkPhysicalDeviceShaderIntegerDotProductFeatures
        chain.append(dots(pNext=chain[-1], shaderIntegerDotProduct=1))
    if info.matrices:
        extensions += [MATRICES, SUBGROUP_CONTROL]
        control = vk.VkPhysicalDeviceSubgroupSizeControlFeatures
        chain.append(control(pNext=chain[-1], computeFullSubgroups=1))
        matrices = vk.VkPhysicalDeviceCooperativeMatrixFeaturesKHR
        chain.append(matrices(pNext=chain[-1], cooperativeMatrix=1))
    wanted = vk.VkDeviceCreateInfo(
        pNext=chain[-1], pQueueCreateInfos=[queue_info], ppEnabledExtensionNames=extensions
    )
    with vulkan_errors("vkCreateDevice"):
        return create(vk.vkCreateDevice, physical, wanted, chain, queue_info, priorities)
