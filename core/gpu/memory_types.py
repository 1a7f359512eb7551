"""The memory types of a physical device and the choice among them."""

from __future__ import annotations

from typing import Any

from llm_lite.core.errors import OutOfDeviceMemoryError
from llm_lite.core.gpu.create import vk

# VkMemoryPropertyFlagBits
HOST_VISIBLE, HOST_COHERENT, HOST_CACHED, DEVICE_LOCAL = 0x2, 0x4, 0x8, 0x1


class MemoryTypes:
    """The memory types, read once from a VkPhysicalDevice."""

    def __init__(self, physical: Any) -> None:
        memory = vk.vkGetPhysicalDeviceMemoryProperties(physical)
        count = memory.memoryTypeCount
        self._flags = [int(memory.memoryTypes[i].propertyFlags) for i in range(count)]

    def choose(self, allowed_bits: int, choices: tuple[int, ...]) -> int:
        """Return the index of the first memory type with all flags of the earliest choice that can
        be met."""
        for wanted in choices:
            for index, flags in enumerate(self._flags):
                if allowed_bits >> index & 1 and flags & wanted == wanted:
                    return index
        raise OutOfDeviceMemoryError("The device has no memory of the kind that is needed.")
