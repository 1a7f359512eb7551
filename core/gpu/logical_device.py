"""The part of a device that the Vulkan objects made from it need; `device.Device` has it all."""

from __future__ import annotations

from typing import Any, Protocol

from llm_lite.core.gpu.info import DeviceInfo


class LogicalDevice(Protocol):
    """A VkDevice; its maker closes it after all that was made from it."""

    @property
    def handle(self) -> Any: ...

    @property
    def info(self) -> DeviceInfo: ...

    def function(self, name: str) -> Any:
        """Return a function of an extension of the device."""
        ...

    def abandon(self) -> None:
        """Close nothing of it, now or later: it does not finish its work, which uses all this."""
        ...
