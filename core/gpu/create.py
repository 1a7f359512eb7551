"""The one import of Vulkan: a lazy module, create-infos that stay alive, errors of our own family.

The `vulkan` package loads the loader's library when it is imported, so nothing here may import it
before the first use. Two of its habits decide the rules below:

- a struct nested by value is copied without the Python object that owns what it points to; every
  nested struct must therefore be held until the call returns (`create` holds what it is given);
- a result code missing from its table raises KeyError instead of a VkError.

A device that does not finish its work is abandoned: all that it may still use stays, as what would
destroy it does nothing (`abandon`).
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

from llm_lite.core.errors import DeviceError, DeviceLostError, OutOfDeviceMemoryError

# VK_ERROR_OUT_OF_POOL_MEMORY and VK_ERROR_FRAGMENTATION, unknown to the package's table.
_POOL_EXHAUSTED = (-1000069000, -1000161000)


# Handles of abandoned devices and instances, with the object that they belong to: it keeps what the
# driver calls back.
_abandoned: dict[Any, Any] = {}


def abandon(handle: Any, owner: Any) -> None:
    """Mark a VkDevice or VkInstance as abandoned: no function destroys or frees anything of it from
    now on."""
    _abandoned[handle] = owner


def is_abandoned(handle: Any) -> bool:
    return handle in _abandoned


def unless_abandoned(name: str, function: Any) -> Any:
    """Return the function; one that destroys or frees then does nothing to what belongs to an
    abandoned device or instance, its first argument."""
    if not name.startswith(("vkDestroy", "vkFree")):
        return function

    @wraps(function)
    def destroy(owner: Any, *arguments: Any) -> None:
        if not is_abandoned(owner):
            function(owner, *arguments)

    return destroy


class _LazyVulkan:
    """The module `vulkan`, imported at its first use."""

    def __getattr__(self, name: str) -> Any:
        try:
            value = getattr(importlib.import_module("vulkan"), name)
        except OSError as error:
            raise DeviceError(
                "The Vulkan loader (libvulkan.so.1 or its like) is not installed."
            ) from error
        value = unless_abandoned(name, value)
        setattr(self, name, value)
        return value


vk: Any = _LazyVulkan()


def _as_device_error(error: Exception, what: str) -> DeviceError:
    if isinstance(error, KeyError):
        code = error.args[0]
        if code in _POOL_EXHAUSTED:
            return OutOfDeviceMemoryError(f"{what} failed: the device's pool is exhausted.")
        return DeviceError(f"{what} failed with Vulkan result {code}.")
    if isinstance(error, vk.VkErrorDeviceLost):
        return DeviceLostError(f"The device was lost during {what}.")
    if isinstance(error, vk.VkErrorOutOfDeviceMemory | vk.VkErrorOutOfHostMemory):
        return OutOfDeviceMemoryError(f"{what} failed: the device has not enough memory.")
    if isinstance(error, vk.VkErrorIncompatibleDriver):
        return DeviceError("No Vulkan driver was found.")
    return DeviceError(f"{what} failed: {type(error).__name__}.")


@contextmanager
def vulkan_errors(what: str) -> Iterator[None]:
    """Turn the package's exceptions into DeviceError and its children; `what` names the call."""
    try:
        yield
    except KeyError as error:
        if not (error.args and isinstance(error.args[0], int)):
            raise
        raise _as_device_error(error, what) from error
    except vk.VkError as error:
        raise _as_device_error(error, what) from error


def create(function: Callable[..., Any], owner: Any, info: Any, *keep: Any) -> Any:
    """Call `function(owner, info, None)` and return the new handle.

    `owner` is None for the instance. `keep` lists whatever `info` points to through a struct
    nested by value; the references live until the call has returned.
    Raises DeviceLostError, OutOfDeviceMemoryError or DeviceError.
    """
    held = (info, keep)
    name = getattr(function, "__name__", "Vulkan call")
    with vulkan_errors(name):
        arguments = (info, None) if owner is None else (owner, info, None)
        handle = function(*arguments)
    del held
    return handle
