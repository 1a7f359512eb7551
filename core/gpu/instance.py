"""A Vulkan instance with, on request, the validation layer and a messenger that keeps its words."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from llm_lite.core.errors import DeviceError
from llm_lite.core.gpu.create import create, vk, vulkan_errors

VALIDATION_LAYER = "VK_LAYER_KHRONOS_validation"
PORTABILITY = "VK_KHR_portability_enumeration"
_PORTABILITY_FLAG = 0x00000001  # VK_INSTANCE_CREATE_ENUMERATE_PORTABILITY_BIT_KHR


def validation_wanted(validation: bool) -> bool:
    return validation or os.environ.get("LLM_LITE_VALIDATION", "") == "1"


class Instance:
    """VkInstance for API version 1.2.

    `messages` receives what the validation layer says (warnings and errors), also during close.
    Raises DeviceError when the loader, a driver or (if asked for) the layer is missing.
    """

    def __init__(self, extensions: Sequence[str] = (), *, validation: bool = False) -> None:
        self.messages: list[str] = []
        self._messenger: Any = None
        self._callback: Any = None  # must outlive the messenger
        available = _instance_extensions()
        missing = [name for name in extensions if name not in available]
        if missing:
            raise DeviceError(f"The Vulkan loader lacks the extension {missing[0]}.")
        if validation and not _has_layer(VALIDATION_LAYER):
            raise DeviceError(f"Validation was asked for, but {VALIDATION_LAYER} is not installed.")
        self.handle: Any = self._create(list(extensions), available, validation)
        if validation:
            try:
                self._open_messenger()
            except BaseException:
                self.close()
                raise

    def _create(self, extensions: list[str], available: set[str], validation: bool) -> Any:
        if PORTABILITY in available:
            extensions.append(PORTABILITY)
        if validation:
            extensions.append("VK_EXT_debug_utils")
        application = vk.VkApplicationInfo(
            pApplicationName="llm-lite",
            applicationVersion=1,
            apiVersion=vk.VK_MAKE_VERSION(1, 2, 0),
        )
        checks = [vk.VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT]
        features = vk.VkValidationFeaturesEXT(pEnabledValidationFeatures=checks)
        info = vk.VkInstanceCreateInfo(
            pNext=features if validation else None,
            flags=_PORTABILITY_FLAG if PORTABILITY in available else 0,
            pApplicationInfo=application,
            ppEnabledLayerNames=[VALIDATION_LAYER] if validation else [],
            ppEnabledExtensionNames=extensions,
        )
        return create(vk.vkCreateInstance, None, info, application, features, checks)

    def _open_messenger(self) -> None:
        def listen(_severity: int, _kind: int, data: Any, _user: Any) -> int:
            self.messages.append(vk.ffi.string(data.pMessage).decode("utf-8", "replace"))
            return 0

        self._callback = vk.ffi.callback("PFN_vkDebugUtilsMessengerCallbackEXT", listen)
        info = vk.ffi.new("VkDebugUtilsMessengerCreateInfoEXT*")
        info.sType = vk.VK_STRUCTURE_TYPE_DEBUG_UTILS_MESSENGER_CREATE_INFO_EXT
        info.messageSeverity = (
            vk.VK_DEBUG_UTILS_MESSAGE_SEVERITY_WARNING_BIT_EXT
            | vk.VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT
        )
        info.messageType = (
            vk.VK_DEBUG_UTILS_MESSAGE_TYPE_VALIDATION_BIT_EXT
            | vk.VK_DEBUG_UTILS_MESSAGE_TYPE_PERFORMANCE_BIT_EXT
        )
        info.pfnUserCallback = self._callback
        function = self.function("vkCreateDebugUtilsMessengerEXT")
        self._messenger = create(function, self.handle, info[0], info)

    def function(self, name: str) -> Any:
        """An extension function of the instance, for example vkDestroySurfaceKHR."""
        try:
            return vk.vkGetInstanceProcAddr(self.handle, name)
        except (vk.ProcedureNotFoundError, vk.ExtensionNotSupportedError) as error:
            raise DeviceError(f"The Vulkan driver does not offer {name}.") from error

    def physical_devices(self) -> list[Any]:
        with vulkan_errors("vkEnumeratePhysicalDevices"):
            return list(vk.vkEnumeratePhysicalDevices(self.handle))

    def close(self) -> None:
        if self.handle is None:
            return
        if self._messenger is not None:
            destroy = self.function("vkDestroyDebugUtilsMessengerEXT")
            destroy(self.handle, self._messenger, None)
            self._messenger = None
        vk.vkDestroyInstance(self.handle, None)
        self.handle = None


def _instance_extensions() -> set[str]:
    with vulkan_errors("vkEnumerateInstanceExtensionProperties"):
        return {e.extensionName for e in vk.vkEnumerateInstanceExtensionProperties(None)}


def _has_layer(name: str) -> bool:
    with vulkan_errors("vkEnumerateInstanceLayerProperties"):
        return any(layer.layerName == name for layer in vk.vkEnumerateInstanceLayerProperties())
