"""Kernels are timed by the device's own clock, also once frames are drawn on the same device."""

from contextlib import closing

from imgui_bundle import imgui

from llm_lite.core.metrics.kernel_study.forms import VULKAN
from llm_lite.core.metrics.kernel_study.on_vulkan import VulkanProducts
from llm_lite.core.metrics.kernel_study.study import operands


def a_window(_draw_list):
    imgui.begin("Panel")
    imgui.text("a frame")
    imgui.end()


def least_seconds(device, size):
    with closing(VulkanProducts(device, *operands(size, size, size))) as products:
        naive = products.paced(VULKAN[0])
        return min(naive.whole(lambda: None) for _ in range(3))


def test_more_work_takes_longer_by_the_clock_once_frames_are_drawn(device, scene):
    """llvmpipe takes the time of a mark when it flushes what was drawn. If that is late, all work
    seems to take the same time."""
    scene(64, 64).draw(a_window, frames=2)
    assert least_seconds(device, 192) > 20 * least_seconds(device, 4)
