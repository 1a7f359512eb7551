"""Instructions that not every device has, and that not every driver gets right."""

import logging

import pytest

from llm_lite.core.errors import DeviceError, DeviceLostError, OutOfDeviceMemoryError
from llm_lite.core.exec.numpy_executor import NumpyExecutor
from llm_lite.core.exec.vulkan import self_test
from llm_lite.core.exec.vulkan.self_test import validated
from llm_lite.core.exec.vulkan.tuning import Tuning, largest_matrix
from llm_lite.core.gpu.pipeline_store import PipelineStore
from llm_lite.core.gpu.pipelines import ComputePipeline
from llm_lite.core.loading.backends import ExecutorChoice, activations
from llm_lite.core.models.model import ModelShape
from llm_lite.core.records import replace

pytestmark = pytest.mark.vulkan


@pytest.fixture
def offers(device, monkeypatch):
    """As if the device were fast at everything that it can do."""
    found = Tuning(
        integer_dot=True,
        matrix=largest_matrix(device.info),
        subgroup_size=device.info.subgroup_size,
    )
    monkeypatch.setattr(Tuning, "of", lambda info: found)
    monkeypatch.setattr(self_test, "_validated", {})
    return found


def test_what_is_right_is_relied_on(device, offers, caplog):
    assert validated(device) == offers
    assert caplog.records == []
    assert activations(ExecutorChoice("vulkan", "", device), "auto") == "a8"


def test_small_models_have_float_activations(device, offers):
    """Quantizing for their products would take longer than these."""
    shape = ModelShape(30, 9, 3, 64, 576, 1536, 49152, 8192)
    choice = ExecutorChoice("vulkan", "", device)
    assert activations(choice, "auto", shape) == "a32"
    assert activations(choice, "a8", shape) == "a8"
    assert activations(choice, "auto", replace(shape, width=2048, feed_forward=16384)) == "a8"


def hardware(device, **changes):
    features = {**device.info.features, "integer_dot_accelerated": True}
    usual = {"kind": "discrete", "features": features, "subgroup_size": 32, "matrices": ()}
    return replace(device.info, **(usual | changes))


def test_tuning_of_hardware(device):
    large, small = (Tuning.of(hardware(device, kind=kind)) for kind in ("discrete", "integrated"))
    for each in (large, small):
        assert each.tile_lanes == 16 and each.integer_dot and each.vector_tokens == 0
        assert each.attention_splits > 1 and each.matrix == (0, 0, 0)
    assert large.tile > small.tile and large.attention_splits > small.attention_splits
    assert Tuning.of(hardware(device, max_workgroup_invocations=128)).most_lanes == 128


def test_the_largest_matrices_that_fit(device):
    def chosen(*matrices, **changes):
        return Tuning.of(hardware(device, matrices=matrices, **changes)).matrix

    assert chosen((16, 8, 16), (16, 16, 16), (8, 8, 8)) == (16, 16, 16)
    assert chosen((16, 16, 64), (12, 12, 4)) == (0, 0, 0), "a block has 32 values"
    assert chosen((32, 32, 16), (16, 16, 16), max_shared_memory=16384) == (16, 16, 16)
    assert chosen((16, 16, 16), subgroup_size=128, max_workgroup_invocations=256) == (0, 0, 0)


def test_it_is_tried_once(device, offers, monkeypatch):
    validated(device)
    monkeypatch.setattr(self_test, "VulkanExecutor", None)
    assert validated(device) == offers


def test_what_is_wrong_is_left_out(device, offers, monkeypatch, caplog):
    class Other(NumpyExecutor):
        def run(self, step, should_cancel=None):
            found = super().run(step).copy()
            found[-1, -1] += 0.5
            return found

    monkeypatch.setattr(self_test, "NumpyExecutor", Other)
    with caplog.at_level(logging.WARNING):
        assert validated(device) == replace(offers, integer_dot=False, matrix=(0, 0, 0))
    assert "dot products are left out: they give wrong products" in caplog.text
    assert activations(ExecutorChoice("vulkan", "", device), "auto") == "a32"


@pytest.fixture
def fails(device, monkeypatch):
    """Pipelines that the device should have fail as it is told."""
    none_yet = PipelineStore(device)
    monkeypatch.setattr(device, "pipelines", none_yet)

    def how(error):
        def make(device, variant, constants):
            if ".dot" in variant or ".matrix" in variant:
                raise error
            return ComputePipeline(device, variant, constants)

        monkeypatch.setattr("llm_lite.core.gpu.pipeline_store.ComputePipeline", make)

    yield how
    none_yet.close()


def test_what_fails_is_left_out(device, offers, fails, caplog):
    fails(DeviceError("Creating the pipeline failed."))
    with caplog.at_level(logging.WARNING):
        assert validated(device) == replace(offers, integer_dot=False, matrix=(0, 0, 0))
    assert "Creating the pipeline failed" in caplog.text


def test_what_loses_the_device_is_not_tried_again(device, offers, fails):
    fails(DeviceLostError("The device was lost."))
    with pytest.raises(DeviceLostError):
        validated(device)
    assert validated(device) == replace(offers, integer_dot=False, matrix=(0, 0, 0))


def test_a_full_device_says_nothing_of_it(device, offers, fails, monkeypatch):
    fails(OutOfDeviceMemoryError("There is not enough memory."))
    with pytest.raises(OutOfDeviceMemoryError):
        validated(device)
    monkeypatch.setattr("llm_lite.core.gpu.pipeline_store.ComputePipeline", ComputePipeline)
    assert validated(device) == offers


def test_a_software_driver_is_not_tried(device, monkeypatch):
    monkeypatch.setattr(self_test, "VulkanExecutor", None)
    monkeypatch.setattr(device, "info", replace(device.info, kind="software"))
    assert validated(device) == Tuning.of(device.info)
