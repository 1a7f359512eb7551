"""Queue: every submit of the program goes through here; one lock, one timeline."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

from llm_lite.core.errors import DeviceLostError
from llm_lite.core.gpu.create import create, is_abandoned, vk, vulkan_errors
from llm_lite.core.gpu.logical_device import LogicalDevice

# Seconds after which a device is taken for lost: no submit takes a hundredth of that. A software
# device computes on the processor, and a busy machine may give it a few percent of that.
PATIENCE_S = 60.0
SOFTWARE_PATIENCE_S = 3600.0


class Queue:
    """One VkQueue. Each submit signals the next value of a timeline semaphore.

    Methods may be called from any thread.
    """

    def __init__(self, device: LogicalDevice, family: int, index: int) -> None:
        self._device = device
        self.family = family
        self.handle: Any = vk.vkGetDeviceQueue(device.handle, family, index)
        self.lock = threading.Lock()
        self._value = 0  # the last value handed out
        software = device.info.kind == "software"
        self.patience_s = SOFTWARE_PATIENCE_S if software else PATIENCE_S
        kind = vk.VkSemaphoreTypeCreateInfo(semaphoreType=vk.VK_SEMAPHORE_TYPE_TIMELINE)
        info = vk.VkSemaphoreCreateInfo(pNext=kind)
        self.timeline: Any = create(vk.vkCreateSemaphore, device.handle, info, kind)

    def submit(
        self,
        command_buffers: Sequence[Any],
        *,
        waits: Sequence[tuple[Any, int]] = (),
        signals: Sequence[Any] = (),
    ) -> int:
        """Submit in order; returns the timeline value that is reached when all have run.

        `waits`: (binary semaphore, pipeline stage) pairs; `signals`: binary semaphores. Raises
        DeviceLostError.
        """
        self._check()
        with self.lock:
            value = self._value + 1
            # Binary semaphores ignore their value; the arrays must still match in length.
            timeline = vk.VkTimelineSemaphoreSubmitInfo(
                pWaitSemaphoreValues=[0] * len(waits),
                pSignalSemaphoreValues=[0] * len(signals) + [value],
            )
            info = vk.VkSubmitInfo(
                pNext=timeline,
                pWaitSemaphores=[semaphore for semaphore, _ in waits],
                pWaitDstStageMask=[stage for _, stage in waits],
                pCommandBuffers=list(command_buffers),
                pSignalSemaphores=[*signals, self.timeline],
            )
            with vulkan_errors("vkQueueSubmit"):
                vk.vkQueueSubmit(self.handle, 1, [info], None)
            self._value = value
            return value

    def completed(self) -> int:
        """Return the timeline value reached so far."""
        with vulkan_errors("vkGetSemaphoreCounterValue"):
            return int(vk.vkGetSemaphoreCounterValue(self._device.handle, self.timeline))

    def wait(self, value: int) -> None:
        """Block until `value` is reached; DeviceLostError when it is not within `patience_s`.

        The device is abandoned then: it may still use what the program closes.
        """
        self._check()
        info = vk.VkSemaphoreWaitInfo(pSemaphores=[self.timeline], pValues=[value])
        with vulkan_errors("vkWaitSemaphores"):
            try:
                vk.vkWaitSemaphores(self._device.handle, info, int(self.patience_s * 1e9))
            except vk.VkTimeout as error:
                self._device.abandon()
                raise DeviceLostError(
                    f"The device did not finish its work in {self.patience_s:g} s and is taken for "
                    "lost."
                ) from error

    def _check(self) -> None:
        if is_abandoned(self._device.handle):
            raise DeviceLostError("The device did not finish its work and was taken for lost.")

    def present(self, swapchain: Any, image_index: int, wait_semaphore: Any) -> None:
        """Queue the image for display. VkSuboptimalKhr, VkErrorOutOfDateKhr and
        VkErrorSurfaceLostKhr pass through: only the owner of the swapchain can answer them."""
        info = vk.VkPresentInfoKHR(
            pWaitSemaphores=[wait_semaphore], pSwapchains=[swapchain], pImageIndices=[image_index]
        )
        present = self._device.function("vkQueuePresentKHR")
        passing = (vk.VkErrorOutOfDateKhr, vk.VkErrorSurfaceLostKhr)
        with self.lock:
            try:
                present(self.handle, info)
            except passing:
                raise
            except vk.VkErrorDeviceLost as error:
                raise DeviceLostError("The device was lost while presenting a frame.") from error

    def wait_idle(self) -> None:
        """Block until all is done and presented; DeviceLostError as by `wait`."""
        self.wait(self._value)
        with self.lock, vulkan_errors("vkQueueWaitIdle"):
            vk.vkQueueWaitIdle(self.handle)

    def close(self) -> None:
        vk.vkDestroySemaphore(self._device.handle, self.timeline, None)
        self.timeline = None
