"""A window's swapchain, and the presenter that replaces it when the window changes.

Nothing waits for the device to be idle in the common path: an old swapchain is handed to its
successor and destroyed some frames later.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import Struct

from llm_lite.core.errors import DeviceError
from llm_lite.core.gpu.create import create, vk, vulkan_errors
from llm_lite.core.gpu.device import Device
from llm_lite.desktop.render.retired import finish
from llm_lite.desktop.render.surface import SurfaceFrame, create_framebuffer, create_render_pass

ACQUIRE_TIMEOUT_NS = 1_000_000_000  # a window that shows nothing for so long drops the frame
KEEP_FRAMES = 4  # frames presented by its successor before a swapchain is destroyed
MAX_OLD = 8

Extent = tuple[int, int]


class SurfaceFormat(Struct, frozen=True):
    format: int
    color_space: int


def choose_format(device: Device, surface: Any) -> SurfaceFormat:
    """An 8-bit UNORM format: the interface's colours are sRGB values already.

    Raises DeviceError when the device cannot show such a format in this window.
    """
    get = device.instance_function("vkGetPhysicalDeviceSurfaceFormatsKHR")
    with vulkan_errors("vkGetPhysicalDeviceSurfaceFormatsKHR"):
        found = [SurfaceFormat(f.format, f.colorSpace) for f in get(device.physical, surface)]
    wanted = (vk.VK_FORMAT_B8G8R8A8_UNORM, vk.VK_FORMAT_R8G8B8A8_UNORM)
    for form in wanted:
        for candidate in found:
            if candidate == SurfaceFormat(form, vk.VK_COLOR_SPACE_SRGB_NONLINEAR_KHR):
                return candidate
    raise DeviceError(
        f"{device.info.name} offers no 8-bit UNORM colour format for windows, only "
        f"{sorted({f.format for f in found})}."
    )


class Swapchain:
    """Images of one size, each with view, framebuffer and a semaphore for 'drawn'."""

    def __init__(
        self, device: Device, surface: Any, form: SurfaceFormat, render_pass: Any,
        extent: Extent, old: Swapchain | None,
    ) -> None:  # fmt: skip
        self._device = device
        info = _swapchain_info(device, surface, form, extent, old)
        self.extent: Extent = (info.imageExtent.width, info.imageExtent.height)
        self._copies = bool(info.imageUsage & vk.VK_IMAGE_USAGE_TRANSFER_DST_BIT)
        self.targets: list[Any] = []  # images that can be copied to; None where they cannot
        self.views: list[Any] = []
        self.framebuffers: list[Any] = []
        self.drawn: list[Any] = []
        self.handle: Any = create(device.function("vkCreateSwapchainKHR"), device.handle, info)
        try:
            self._make_images(form, render_pass)
        except BaseException:
            self.close()
            raise

    def _make_images(self, form: SurfaceFormat, render_pass: Any) -> None:
        device = self._device
        with vulkan_errors("vkGetSwapchainImagesKHR"):
            images = device.function("vkGetSwapchainImagesKHR")(device.handle, self.handle)
        self.targets = list(images) if self._copies else [None] * len(images)
        for image in images:
            view = _view(device, image, form.format)
            self.views.append(view)
            self.framebuffers.append(create_framebuffer(device, render_pass, view, self.extent))
            self.drawn.append(_semaphore(device))

    def close(self) -> None:
        device = self._device.handle
        for semaphore in self.drawn:
            vk.vkDestroySemaphore(device, semaphore, None)
        for framebuffer in self.framebuffers:
            vk.vkDestroyFramebuffer(device, framebuffer, None)
        for view in self.views:
            vk.vkDestroyImageView(device, view, None)
        self._device.function("vkDestroySwapchainKHR")(device, self.handle, None)


class _Old(Struct):
    swapchain: Swapchain
    until_present: int
    until_value: int


class Presenter:
    """Frames for one window on one device; `make_surface` gives a new VkSurfaceKHR.

    Raises DeviceError when this device cannot present to the window.
    """

    def __init__(self, device: Device, make_surface: Callable[[], Any]) -> None:
        self._device = device
        self._make_surface = make_surface
        self._surface = make_surface()
        self._swapchain: Swapchain | None = None
        self._old: list[_Old] = []
        self._free: list[tuple[Any, int]] = []  # acquire semaphores, timeline value of last use
        self._acquiring: Any = None
        self._presented = 0
        self._last_value = 0
        self._stale = False
        self._surface_lost = False
        self.recreated = 0  # swapchains made
        try:
            self._check_support()
            self._form = choose_format(device, self._surface)
            self.color_format = self._form.format
            layout = vk.VK_IMAGE_LAYOUT_PRESENT_SRC_KHR
            self._render_pass = create_render_pass(device, self.color_format, layout)
        except BaseException:
            self._destroy_surface()
            raise

    def _check_support(self) -> None:
        device = self._device
        supports = device.instance_function("vkGetPhysicalDeviceSurfaceSupportKHR")
        if not supports(device.physical, device.family, self._surface):
            raise DeviceError(f"{device.info.name} cannot present to this window.")

    def begin(self, extent: Extent) -> SurfaceFrame | None:
        """Return the next image for a window of `extent` pixels; None when it must be skipped."""
        self._sweep()
        if self._surface_lost:
            self._replace_surface()
        current = self._swapchain
        if current is None or self._stale or current.extent != extent:
            current = self._replace(extent)
        if current is None:
            return None
        index = self._acquire(current)
        if index is None:
            return None
        stages = vk.VK_PIPELINE_STAGE_COLOR_ATTACHMENT_OUTPUT_BIT
        wait = (self._acquiring, stages | vk.VK_PIPELINE_STAGE_TRANSFER_BIT)
        framebuffer, drawn = current.framebuffers[index], current.drawn[index]
        return SurfaceFrame(
            self._render_pass, framebuffer, current.extent, index, (wait,), (drawn,),
            current.targets[index], vk.VK_IMAGE_LAYOUT_PRESENT_SRC_KHR,
        )  # fmt: skip

    def _acquire(self, swapchain: Swapchain) -> int | None:
        self._acquiring = self._semaphore()
        index = vk.ffi.new("uint32_t*")
        acquire = self._device.function("vkAcquireNextImageKHR")
        arguments = (self._device.handle, swapchain.handle, ACQUIRE_TIMEOUT_NS)
        try:
            with vulkan_errors("vkAcquireNextImageKHR"):
                acquire(*arguments, self._acquiring, None, index)
        except (vk.VkTimeout, vk.VkNotReady):
            self._give_up()
            return None
        except vk.VkSuboptimalKhr:
            self._stale = True  # the image is ours all the same: draw it, then replace
        except DeviceError as error:
            self._learn(error.__cause__, error)
            self._give_up()
            return None
        return int(index[0])

    def _give_up(self) -> None:
        """The semaphore was not signalled: it can be used again at once."""
        self._free.insert(0, (self._acquiring, 0))
        self._acquiring = None

    def _learn(self, cause: object, error: Exception) -> None:
        """Remember what must be replaced, or raise `error` when replacing does not help."""
        if isinstance(cause, vk.VkErrorOutOfDateKhr | vk.VkSuboptimalKhr):
            self._stale = True
        elif isinstance(cause, vk.VkErrorSurfaceLostKhr):
            self._surface_lost = True
        else:
            raise error

    def end(self, frame: SurfaceFrame, value: int) -> None:
        """Queue a frame for presentation; its submit signals timeline value `value`."""
        assert self._swapchain is not None
        self._free.append((self._acquiring, value))
        self._acquiring = None
        self._last_value = value
        self._presented += 1
        handle, (drawn,) = self._swapchain.handle, frame.signals
        try:
            self._device.queue.present(handle, frame.image_index, drawn)
        except (vk.VkErrorOutOfDateKhr, vk.VkSuboptimalKhr, vk.VkErrorSurfaceLostKhr) as error:
            self._learn(error, error)

    def _semaphore(self) -> Any:
        """Return a binary semaphore that no submit still waits for."""
        if self._free and self._free[0][1] <= self._device.queue.completed():
            return self._free.pop(0)[0]
        return _semaphore(self._device)

    def _replace(self, extent: Extent) -> Swapchain | None:
        old = self._swapchain
        fitted = surface_extent(self._device, self._surface, extent)
        if 0 in fitted:
            return None
        self._swapchain = Swapchain(
            self._device, self._surface, self._form, self._render_pass, fitted, old
        )
        if old is not None:
            self._old.append(_Old(old, self._presented + KEEP_FRAMES, self._last_value))
        self._stale = False
        self.recreated += 1
        return self._swapchain

    def _replace_surface(self) -> None:
        self._device.queue.wait_idle()
        self._close_swapchains()
        self._destroy_surface()
        self._surface = self._make_surface()
        self._check_support()
        self._surface_lost = False

    def _sweep(self) -> None:
        if len(self._old) > MAX_OLD:  # replaced again and again without showing anything
            self._device.queue.wait_idle()
            self._close_old()
            return
        completed = self._device.queue.completed() if self._old else 0
        while self._old and self._old[0].until_present <= self._presented:
            if self._old[0].until_value > completed:
                break
            self._old.pop(0).swapchain.close()

    def _close_old(self) -> None:
        while self._old:
            self._old.pop(0).swapchain.close()

    def _close_swapchains(self) -> None:
        self._close_old()
        if self._swapchain is not None:
            self._swapchain.close()
            self._swapchain = None

    def _destroy_surface(self) -> None:
        destroy = self._device.instance_function("vkDestroySurfaceKHR")
        destroy(self._device.instance, self._surface, None)

    def close(self) -> None:
        """Destroy everything. Frames and presents are waited for, unless the device is lost."""
        finish(self._device.queue.wait_idle)
        self._close_swapchains()
        for semaphore in (self._acquiring, *(free for free, _ in self._free)):
            if semaphore is not None:
                vk.vkDestroySemaphore(self._device.handle, semaphore, None)
        vk.vkDestroyRenderPass(self._device.handle, self._render_pass, None)
        self._destroy_surface()


def surface_extent(device: Device, surface: Any, extent: Extent) -> Extent:
    """Limit `extent` to what the window system allows."""
    capabilities = _capabilities(device, surface)
    fixed = capabilities.currentExtent
    if fixed.width != 0xFFFFFFFF:
        return fixed.width, fixed.height
    low, high = capabilities.minImageExtent, capabilities.maxImageExtent
    return (
        min(max(extent[0], low.width), high.width),
        min(max(extent[1], low.height), high.height),
    )


def _capabilities(device: Device, surface: Any) -> Any:
    with vulkan_errors("vkGetPhysicalDeviceSurfaceCapabilitiesKHR"):
        get = device.instance_function("vkGetPhysicalDeviceSurfaceCapabilitiesKHR")
        return get(device.physical, surface)


def _swapchain_info(
    device: Device, surface: Any, form: SurfaceFormat, extent: Extent, old: Swapchain | None
) -> Any:
    capabilities = _capabilities(device, surface)
    count = capabilities.minImageCount + 1
    if capabilities.maxImageCount:
        count = min(count, capabilities.maxImageCount)
    copied = capabilities.supportedUsageFlags & vk.VK_IMAGE_USAGE_TRANSFER_DST_BIT
    opaque = vk.VK_COMPOSITE_ALPHA_OPAQUE_BIT_KHR
    supported = capabilities.supportedCompositeAlpha
    return vk.VkSwapchainCreateInfoKHR(
        surface=surface,
        minImageCount=count,
        imageFormat=form.format,
        imageColorSpace=form.color_space,
        imageExtent=vk.VkExtent2D(*extent),
        imageArrayLayers=1,
        imageUsage=vk.VK_IMAGE_USAGE_COLOR_ATTACHMENT_BIT | copied,
        imageSharingMode=vk.VK_SHARING_MODE_EXCLUSIVE,
        preTransform=capabilities.currentTransform,
        compositeAlpha=opaque if supported & opaque else supported & -supported,
        presentMode=vk.VK_PRESENT_MODE_FIFO_KHR,  # always there; sleeps with the screen
        clipped=1,
        oldSwapchain=old.handle if old is not None else None,
    )


def _view(device: Device, image: Any, form: int) -> Any:
    colour = vk.VkImageSubresourceRange(vk.VK_IMAGE_ASPECT_COLOR_BIT, 0, 1, 0, 1)
    info = vk.VkImageViewCreateInfo(
        image=image, viewType=vk.VK_IMAGE_VIEW_TYPE_2D, format=form, subresourceRange=colour
    )
    return create(vk.vkCreateImageView, device.handle, info, colour)


def _semaphore(device: Device) -> Any:
    return create(vk.vkCreateSemaphore, device.handle, vk.VkSemaphoreCreateInfo())
