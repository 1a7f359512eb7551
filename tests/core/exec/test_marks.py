"""`-m vulkan` finds what runs on Vulkan's driver (`make vulkan`), and no more."""

import pytest


@pytest.mark.parametrize("backend", ["cpu", "vulkan"])
def test_a_case_on_vulkan_is_marked(request, backend):
    assert (request.node.get_closest_marker("vulkan") is not None) == (backend == "vulkan")


def test_what_uses_the_device_is_marked(request, device):
    assert request.node.get_closest_marker("vulkan") is not None
