"""Executors that are closed when the test ends."""

import pytest

from llm_lite.core.exec.vulkan.executor import VulkanExecutor


@pytest.fixture
def make_vulkan(device):
    """VulkanExecutors on the shared device, closed when the test ends, however it ends."""
    made = []

    def executor(model, weights, **options):
        made.append(VulkanExecutor(device, model, weights, **options))
        return made[-1]

    yield executor
    for each in made:
        each.close()
