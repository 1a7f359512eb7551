"""The plain read that decoding is held against."""

import pytest

from llm_lite.core.gpu.bandwidth import read_gb_s

pytestmark = pytest.mark.vulkan


def test_bandwidth_is_that_of_a_memory(device):
    rates = [read_gb_s(device, repeat=3) for _ in range(2)]
    assert all(0.05 < rate < 20_000 for rate in rates)
    assert max(rates) < 20 * min(rates)
