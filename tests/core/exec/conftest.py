"""Executors that are closed when the test ends."""

import pytest

from llm_lite.core.exec.vulkan.executor import VulkanExecutor
from llm_lite.core.exec.vulkan.tuning import shuffles_vectors


@pytest.fixture
def make_vulkan(device):
    """VulkanExecutors on the shared device, closed when the test ends, however it ends."""
    made = []

    def executor(model, weights, *, tuning=None, **options):
        if tuning and tuning.vector_tokens and not shuffles_vectors(device.info):
            pytest.skip("the device's subgroups cannot shuffle among the 8 lanes of matmul_rows")
        made.append(VulkanExecutor(device, model, weights, tuning=tuning, **options))
        return made[-1]

    yield executor
    for each in made:
        each.close()
