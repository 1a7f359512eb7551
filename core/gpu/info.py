"""The capabilities of a physical device, queried once and kept as plain data."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from msgspec import Struct, field

from llm_lite.core.gpu.create import vk, vulkan_errors
from llm_lite.core.records import replace

_KINDS = {0: "other", 1: "integrated", 2: "discrete", 3: "virtual", 4: "software"}
MINIMUM_VERSION = (1, 2)
INTEGER_DOT = "VK_KHR_shader_integer_dot_product"
MATRICES = "VK_KHR_cooperative_matrix"
# Features of Vulkan 1.2 with them. Once the memory model is enabled, shaders whose fences and
# atomics are of device scope, as attention.comp, need that of device scope too.
BESIDE_MATRICES = ("shaderFloat16", "vulkanMemoryModel", "vulkanMemoryModelDeviceScope")
SUBGROUP_CONTROL = "VK_EXT_subgroup_size_control"  # which a pipeline with matrices asks for


class QueueFamily(Struct, frozen=True):
    flags: int
    count: int
    timestamp_bits: int


class DeviceInfo(Struct, frozen=True):
    """A physical device; sizes in bytes, `timestamp_ns` in nanoseconds a tick."""

    index: int
    name: str
    kind: str  # 'discrete' | 'integrated' | 'software' | 'virtual' | 'other'
    vendor: int
    driver: str
    api_version: tuple[int, int, int]
    memory_bytes: int
    queue_families: tuple[QueueFamily, ...]
    subgroup_size: int
    max_storage_buffer_range: int
    max_texel_elements: int  # of a texel buffer's view
    max_workgroup_invocations: int
    max_shared_memory: int
    max_groups_x: int
    storage_alignment: int
    timestamp_ns: float
    # M, N, K of products of halves, with float32 sums, that a subgroup does at once
    matrices: tuple[tuple[int, int, int], ...] = ()
    features: Mapping[str, bool] = field(default_factory=lambda: MappingProxyType({}))
    usable: bool = True
    why_not: str = ""

    @property
    def reads_texels(self) -> bool:
        """Return True if all that can be bound can be read as texels of 16 bytes, and should be:
        software drivers read these with one load."""
        return self.kind == "software" and self.max_texel_elements * 16 >= (
            self.max_storage_buffer_range
        )

    @property
    def unpacks_halves(self) -> bool:
        """Return True if shaders may unpack both float16 of a word by unpackHalf2x16. Lavapipe on
        Arm may not: LLVM 15.0.6 ends the process over it ("Cannot select ... AArch64ISD::VLSHR").
        """
        return self.kind != "software" or platform.machine() not in ("aarch64", "arm64")

    @property
    def family(self) -> int | None:
        """Return the queue family for graphics and compute, which the UI and the model share."""
        wanted = 1 | 2  # VK_QUEUE_GRAPHICS_BIT | VK_QUEUE_COMPUTE_BIT
        fits = (i for i, f in enumerate(self.queue_families) if f.flags & wanted == wanted)
        compute_only = (i for i, f in enumerate(self.queue_families) if f.flags & 2)
        return next(fits, next(compute_only, None))


def describe(instance: Any, physical: Any, index: int) -> DeviceInfo:
    """Ask the driver for everything DeviceInfo holds. `instance` and `physical` are handles."""
    properties = vk.vkGetPhysicalDeviceProperties(physical)
    limits = properties.limits
    version = _version(properties.apiVersion)
    families = tuple(
        QueueFamily(int(f.queueFlags), int(f.queueCount), int(f.timestampValidBits))
        for f in vk.vkGetPhysicalDeviceQueueFamilyProperties(physical)
    )
    driver, subgroup, features = "", (1, 0, 0), {"timeline_semaphore": False}
    matrices: tuple[tuple[int, int, int], ...] = ()
    if version[:2] >= MINIMUM_VERSION:
        driver, subgroup = _driver_and_subgroup(physical)
        extensions = device_extensions(physical)
        features = _features(physical, extensions, subgroup, families)
        if {MATRICES, SUBGROUP_CONTROL} <= extensions:
            matrices = _matrices(instance, physical)
    info = DeviceInfo(
        index=index,
        name=str(properties.deviceName),
        kind=_KINDS.get(int(properties.deviceType), "other"),
        vendor=int(properties.vendorID),
        driver=driver,
        api_version=version,
        memory_bytes=_device_memory(physical),
        queue_families=families,
        subgroup_size=subgroup[0],
        max_storage_buffer_range=int(limits.maxStorageBufferRange),
        max_texel_elements=int(limits.maxTexelBufferElements),
        max_workgroup_invocations=int(limits.maxComputeWorkGroupInvocations),
        max_shared_memory=int(limits.maxComputeSharedMemorySize),
        max_groups_x=int(limits.maxComputeWorkGroupCount[0]),
        storage_alignment=int(limits.minStorageBufferOffsetAlignment),
        timestamp_ns=float(limits.timestampPeriod),
        matrices=matrices,
        features=MappingProxyType(features),
    )
    return _with_usability(info)


def _with_usability(info: DeviceInfo) -> DeviceInfo:
    """Return the device with `usable` and `why_not` decided by the minimum requirements."""
    problem = ""
    if info.api_version[:2] < MINIMUM_VERSION:
        problem = f"needs Vulkan 1.2, the driver offers {info.api_version[0]}.{info.api_version[1]}"
    elif not info.features["timeline_semaphore"]:
        problem = "the driver has no timeline semaphores"
    elif info.family is None:
        problem = "the device has no compute queue"
    if not problem:
        return info
    return replace(info, usable=False, why_not=problem)


def _version(packed: int) -> tuple[int, int, int]:
    return (packed >> 22) & 0x7F, (packed >> 12) & 0x3FF, packed & 0xFFF


def _driver_and_subgroup(physical: Any) -> tuple[str, tuple[int, int, int]]:
    """Return the driver's name and version, and of subgroups (size, stages, operations)."""
    subgroup = vk.VkPhysicalDeviceSubgroupProperties()
    driver = vk.VkPhysicalDeviceDriverProperties(pNext=subgroup)
    chain = vk.VkPhysicalDeviceProperties2(pNext=driver)
    vk.vkGetPhysicalDeviceProperties2(physical, vk.ffi.addressof(chain))
    words = (
        vk.ffi.string(text).decode("utf-8", "replace")
        for text in (driver.driverName, driver.driverInfo)
    )
    numbers = (subgroup.subgroupSize, subgroup.supportedStages, subgroup.supportedOperations)
    return " ".join(words).strip(), (int(numbers[0]), int(numbers[1]), int(numbers[2]))


def _features(
    physical: Any,
    extensions: set[str],
    subgroup: tuple[int, int, int],
    families: tuple[QueueFamily, ...],
) -> dict[str, bool]:
    vulkan12 = vk.VkPhysicalDeviceVulkan12Features()
    chain = vk.VkPhysicalDeviceFeatures2(pNext=vulkan12)
    vk.vkGetPhysicalDeviceFeatures2(physical, vk.ffi.addressof(chain))
    integer_dot = INTEGER_DOT in extensions
    return {
        "timeline_semaphore": bool(vulkan12.timelineSemaphore),
        "subgroup_arithmetic": _has(vk.VK_SUBGROUP_FEATURE_ARITHMETIC_BIT, *subgroup[1:]),
        "subgroup_shuffle": _has(vk.VK_SUBGROUP_FEATURE_SHUFFLE_BIT, *subgroup[1:]),
        "shader_float16": bool(vulkan12.shaderFloat16),
        "shader_int8": bool(vulkan12.shaderInt8),
        "integer_dot_product": integer_dot,
        "integer_dot_accelerated": integer_dot and _has_fast_dot(physical),
        "swapchain": "VK_KHR_swapchain" in extensions,
        "timestamps": any(f.timestamp_bits for f in families if f.flags & 2),
        "second_queue": any(f.count > 1 for f in families if f.flags & 3 == 3),
    }


def _has_fast_dot(physical: Any) -> bool:
    """Return True if products of four signed bytes in a word are one instruction."""
    found = vk.VkPhysicalDeviceShaderIntegerDotProductProperties()
    chain = vk.VkPhysicalDeviceProperties2(pNext=found)
    vk.vkGetPhysicalDeviceProperties2(physical, vk.ffi.addressof(chain))
    return bool(found.integerDotProduct4x8BitPackedSignedAccelerated)


def _matrices(instance: Any, physical: Any) -> tuple[tuple[int, int, int], ...]:
    """Return the shapes of cooperative matrices; () if the device lacks what their shaders need
    besides."""
    vulkan12 = vk.VkPhysicalDeviceVulkan12Features()
    control = vk.VkPhysicalDeviceSubgroupSizeControlFeatures(pNext=vulkan12)
    matrix = vk.VkPhysicalDeviceCooperativeMatrixFeaturesKHR(pNext=control)
    chain = vk.VkPhysicalDeviceFeatures2(pNext=matrix)
    vk.vkGetPhysicalDeviceFeatures2(physical, vk.ffi.addressof(chain))
    beside = all(getattr(vulkan12, name) for name in BESIDE_MATRICES)
    if not (matrix.cooperativeMatrix and control.computeFullSubgroups and beside):
        return ()
    half, single = vk.VK_COMPONENT_TYPE_FLOAT16_KHR, vk.VK_COMPONENT_TYPE_FLOAT32_KHR
    return tuple(
        (int(one.MSize), int(one.NSize), int(one.KSize))
        for one in _matrix_properties(instance, physical)
        if (one.AType, one.BType, one.CType, one.ResultType) == (half, half, single, single)
        and one.scope == vk.VK_SCOPE_SUBGROUP_KHR
    )


def _matrix_properties(instance: Any, physical: Any) -> list[Any]:
    """Return the properties of cooperative matrices; [] if the driver has none. The package's own
    wrapper leaves types unset."""
    name = b"vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR"
    address = vk.lib.vkGetInstanceProcAddr(instance, name)
    if address == vk.ffi.NULL:
        return []
    list_matrices = vk.ffi.cast(f"PFN_{name.decode()}", address)
    count = vk.ffi.new("uint32_t*")
    if list_matrices(physical, count, vk.ffi.NULL) != vk.VK_SUCCESS:
        return []
    found = vk.ffi.new("VkCooperativeMatrixPropertiesKHR[]", count[0])
    for one in found:
        one.sType = vk.VK_STRUCTURE_TYPE_COOPERATIVE_MATRIX_PROPERTIES_KHR
    done = list_matrices(physical, count, found) == vk.VK_SUCCESS
    return list(found)[: count[0]] if done else []


def _has(operation: int, stages: int, operations: int) -> bool:
    return bool(stages & vk.VK_SHADER_STAGE_COMPUTE_BIT and operations & operation)


def device_extensions(physical: Any) -> set[str]:
    with vulkan_errors("vkEnumerateDeviceExtensionProperties"):
        found = vk.vkEnumerateDeviceExtensionProperties(physical, None)
        return {extension.extensionName for extension in found}


def _device_memory(physical: Any) -> int:
    """Return the bytes of the largest device-local heap."""
    memory = vk.vkGetPhysicalDeviceMemoryProperties(physical)
    heaps = [memory.memoryHeaps[i] for i in range(memory.memoryHeapCount)]
    local = [int(h.size) for h in heaps if h.flags & vk.VK_MEMORY_HEAP_DEVICE_LOCAL_BIT]
    return max(local, default=0)
