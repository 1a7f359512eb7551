"""A Vulkan instance with, on request, the validation layer and a messenger that keeps its words."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from llm_lite.core.errors import DeviceError
from llm_lite.core.gpu.create import create, unless_abandoned, vk, vulkan_errors

VALIDATION_LAYER = "VK_LAYER_KHRONOS_validation"
LAYER_SETTINGS = "VK_EXT_layer_settings"
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
        settings = _layer_settings() if validation else (None,)
        features = vk.VkValidationFeaturesEXT(pNext=settings[0], pEnabledValidationFeatures=checks)
        info = vk.VkInstanceCreateInfo(
            pNext=features if validation else None,
            flags=_PORTABILITY_FLAG if PORTABILITY in available else 0,
            pApplicationInfo=application,
            ppEnabledLayerNames=[VALIDATION_LAYER] if validation else [],
            ppEnabledExtensionNames=extensions,
        )
        return create(vk.vkCreateInstance, None, info, application, features, checks, *settings)

    def _open_messenger(self) -> None:
        def listen(_severity: int, _kind: int, data: Any, _user: Any) -> int:
            name, text = (_text(words) for words in (data.pMessageIdName, data.pMessage))
            self.messages.append(text if name in text else f"{name}: {text}")  # newer ones lack it
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
        """Return an extension function of the instance, for example vkDestroySurfaceKHR."""
        try:
            return unless_abandoned(name, vk.vkGetInstanceProcAddr(self.handle, name))
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


def _text(words: Any) -> str:
    """Return the text at a pointer to bytes; "" for a null pointer."""
    return vk.ffi.string(words).decode("utf-8", "replace") if words else ""


def _layer_settings() -> tuple[Any, ...]:
    """Return a create-info of the layer, followed by what it points to: synchronization validation
    is to watch what shaders read and write in buffers, which newer layers do not by default
    (1.4.309).

    Only None for a layer that has no settings, as 1.3.239, which always watches them.
    """
    if LAYER_SETTINGS not in _instance_extensions(VALIDATION_LAYER):
        return (None,)
    value = vk.ffi.new("VkBool32[]", [vk.VK_TRUE])
    setting = vk.VkLayerSettingEXT(
        pLayerName=VALIDATION_LAYER,
        pSettingName="syncval_shader_accesses_heuristic",
        type=vk.VK_LAYER_SETTING_TYPE_BOOL32_EXT,
        valueCount=1,
        pValues=value,
    )
    return vk.VkLayerSettingsCreateInfoEXT(pSettings=[setting]), setting, value


def _instance_extensions(layer: str | None = None) -> set[str]:
    """Return the extensions of the loader and its drivers, or of a layer."""
    with vulkan_errors("vkEnumerateInstanceExtensionProperties"):
        return {e.extensionName for e in vk.vkEnumerateInstanceExtensionProperties(layer)}


def _has_layer(name: str) -> bool:
    with vulkan_errors("vkEnumerateInstanceLayerProperties"):
        return any(layer.layerName == name for layer in vk.vkEnumerateInstanceLayerProperties())
