"""The Vulkan executor: submits and barriers, and what happens when the device or memory fails."""

import numpy as np
import pytest

from llm_lite.core.errors import (
    CancelledError,
    DeviceLostError,
    OutOfDeviceMemoryError,
    RequestError,
)
from llm_lite.core.exec.compare import compare
from llm_lite.core.exec.numpy_executor import NumpyExecutor
from llm_lite.core.exec.vulkan.executor import VulkanExecutor
from llm_lite.core.exec.vulkan.tuning import Tuning
from llm_lite.core.gpu.create import vk
from llm_lite.core.gpu.device import Device
from llm_lite.core.gpu.memory import Buffer
from llm_lite.core.plan.step import Step
from llm_lite.core.records import replace
from tests.core.exec.vulkan.vulkan_program import VOCABULARY, program, steps, weight

pytestmark = pytest.mark.vulkan


def test_vectors_are_for_software_devices_whose_subgroups_can_shuffle(device):
    limit = device.info.max_storage_buffer_range
    whole = replace(device.info, subgroup_size=8, max_texel_elements=limit)
    able = {**whole.features, "subgroup_shuffle": True}
    software, usual = replace(whole, kind="software", features=able), Tuning()
    assert Tuning.of(software).vector_tokens
    narrow = replace(software, subgroup_size=4)
    mute = replace(software, features={**software.features, "subgroup_shuffle": False})
    for info in (narrow, mute, replace(software, kind="discrete")):
        assert Tuning.of(info).vector_tokens == usual.vector_tokens == 0


def test_large_tensors_are_bound_in_parts(device, make_vulkan, monkeypatch):
    info = replace(device.info, max_storage_buffer_range=2048)
    monkeypatch.setattr(device, "info", info)
    tensors = [weight("table", (VOCABULARY, 96), "q8_0"), weight("w", (127, 96), "q4_1", 1)]
    built = program(tensors, lambda b, x: b.matmul(x, b.weight("w"), "product"), tokens=3)
    model, weights = built
    executor = make_vulkan(model, weights)
    assert len(executor.matrix("table")) > 1 and len(executor.matrix("w")) > 1
    tokens = np.array([0, 20, VOCABULARY - 1], np.int32)
    assert compare(NumpyExecutor(model, weights), executor, Step(tokens, 0)) is None


def test_stop_between_submits_and_go_on(make_vulkan, monkeypatch):
    monkeypatch.setattr("llm_lite.core.exec.vulkan.pacing.TARGET_S", 0.0)  # a submit a segment
    tensors = [weight("table", (VOCABULARY, 32)), weight("norm", (32,), seed=1)]

    def ops(b, x):
        for i in range(40):
            x = b.rms_norm(x, b.weight("norm"), 1e-5, f"norm{i}")
        return x

    model, weights = program(tensors, ops, tokens=1)
    executor = make_vulkan(model, weights, tuning=Tuning(segment_work=1000))
    expected = executor.run(steps(1))
    answers = iter([False, False, True])
    with pytest.raises(CancelledError):
        executor.run(steps(1), lambda: next(answers, True))
    np.testing.assert_array_equal(executor.run(steps(1)), expected)

    def interrupt():
        if next(answers, True):
            raise KeyboardInterrupt
        return False

    answers = iter([False, False, True])
    with pytest.raises(KeyboardInterrupt):  # what is in flight ends before the next step begins
        executor.run(steps(1), interrupt)
    np.testing.assert_array_equal(executor.run(steps(1)), expected)


def test_positions_beyond_the_cache_are_refused(make_vulkan):
    model, weights = program(
        [weight("table", (VOCABULARY, 32))], lambda b, x: b.add(x, x, "end"), tokens=2, context=8
    )
    executor = make_vulkan(model, weights)
    executor.run(steps(2, start=6))
    with pytest.raises(RequestError, match="a context of 8"):
        executor.run(steps(2, start=7))


def test_a_planted_error_is_found_by_name(make_vulkan):
    tensors = [weight("table", (VOCABULARY, 32)), weight("norm", (32,), seed=1)]

    def ops(b, x):
        x = b.rms_norm(x, b.weight("norm"), 1e-5, "first")
        return b.rms_norm(x, b.weight("norm"), 1e-5, "second")

    model, weights = program(tensors, ops, tokens=2)
    executor = make_vulkan(model, weights)
    buffer, offset, size = executor.vector("norm")
    buffer.upload(np.full(size // 4, 3, np.float32), offset)
    found = compare(NumpyExecutor(model, weights), executor, steps(2))
    assert found is not None and (found.op, found.label) == ("rms_norm", "first")


def test_a_missing_barrier_would_be_reported(monkeypatch):
    """That every other test is silent means something only if this one is not."""
    monkeypatch.setattr("llm_lite.core.exec.vulkan.record.Hazards.conflict", lambda *_: False)
    tensors = [weight("table", (VOCABULARY, 32)), weight("norm", (32,), seed=1)]
    model, weights = program(
        tensors, lambda b, x: b.rms_norm(x, b.weight("norm"), 1e-5, "normed"), tokens=2
    )
    with Device.open(validation=True) as device:
        executor = VulkanExecutor(device, model, weights)
        executor.run(steps(2))
        executor.close()
    assert any("SYNC-HAZARD-READ-AFTER-WRITE" in m for m in device.validation_messages)


def test_a_lost_device_is_told_and_closed(monkeypatch):
    tensors = [weight("table", (VOCABULARY, 32)), weight("norm", (32,), seed=1)]
    model, weights = program(
        tensors, lambda b, x: b.rms_norm(x, b.weight("norm"), 1e-5, "normed"), tokens=2
    )
    device = Device.open(validation=True)
    executor = VulkanExecutor(device, model, weights)
    executor.run(steps(2))

    def lost(*_):
        raise vk.VkErrorDeviceLost

    device.wait_idle()
    with monkeypatch.context() as patch:
        patch.setattr(vk, "vkWaitSemaphores", lost)
        with pytest.raises(DeviceLostError):
            executor.run(steps(2))
    device.wait_idle()  # the real device is well, and may only be freed when it is idle
    monkeypatch.setattr(vk, "vkQueueWaitIdle", lost)
    executor.close()
    device.close()
    assert device.validation_messages == []


@pytest.mark.parametrize("allocations", [0, 1, 2, 3])
def test_memory_that_runs_out_leaves_nothing_behind(monkeypatch, allocations):
    tensors = [weight("table", (VOCABULARY, 32)), weight("norm", (32,), seed=1)]
    model, weights = program(
        tensors, lambda b, x: b.rms_norm(x, b.weight("norm"), 1e-5, "normed"), tokens=2
    )
    allocate, left = vk.vkAllocateMemory, allocations

    def limited(*arguments):
        nonlocal left
        left -= 1
        if left < 0:
            raise vk.VkErrorOutOfDeviceMemory
        return allocate(*arguments)

    with Device.open(validation=True) as own:
        own.staging.read(scratch := Buffer(own, 4, 0, host=False), 0, 4)
        scratch.close()
        with monkeypatch.context() as patch:
            patch.setattr(vk, "vkAllocateMemory", limited)
            with pytest.raises(OutOfDeviceMemoryError):
                VulkanExecutor(own, model, weights)
    assert own.validation_messages == []
