"""Where a mixture's experts are: in memory, in C++ beside a device, or in their file. The same
answers, in a step of one token, of many and of several clients."""

import numpy as np
import pytest

from llm_lite.core.loading.client_room import room_for, with_room
from llm_lite.core.messages import EngineOptions, StartServing
from tests.mixture_in_blocks import VOCABULARY, write_mixture_in_blocks
from tests.runners import exact, running

TOKENS = np.random.default_rng(3).integers(6, VOCABULARY, 40).tolist()
VULKAN = pytest.mark.vulkan


@pytest.fixture(scope="module")
def mixture(tmp_path_factory):
    return write_mixture_in_blocks(tmp_path_factory.mktemp("mixture"))


def logits_of(runner):
    session = runner.session
    return [session.prefill(TOKENS), *(session.decode(token) for token in (7, 8, 9))]


@pytest.mark.parametrize("activations", ["a32", "a8"])
def test_answers_are_the_same(mixture, activations):
    found = []
    for experts in ("memory", "file"):
        options = exact("cpu", experts=experts, activations=activations)
        with running(mixture, options) as runner:
            assert runner.executor_info.experts == experts
            found.append(logits_of(runner))
    assert all(map(np.array_equal, *found))


@VULKAN
@pytest.mark.parametrize("mode", ["as-stored", "int4"])
@pytest.mark.parametrize("experts", ["cpu", "file"])
def test_a_device_has_all_else(mixture, device, experts, mode):
    found = []
    for where in ("memory", experts):
        options = exact("vulkan", experts=where, mode=mode)
        with running(mixture, options, device=device) as runner:
            converted = mode == "int4" and where == "file"
            assert runner.executor_info.experts == ("cpu" if converted else where)
            found.append(logits_of(runner))
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, atol=2e-3)


@VULKAN
def test_clients_have_them_there_too(mixture, device):
    with running(mixture, exact("vulkan", experts="file"), device=device) as runner:
        alone = logits_of(runner)
        serving = with_room(runner, room_for(runner, StartServing(parallel=2)))
        try:
            assert serving.executor_info.experts == "file"
            assert serving.executor.weight_bytes == runner.executor.weight_bytes
            shared = logits_of(serving)
        finally:
            serving.executor.close()
    for one, other in zip(alone, shared, strict=True):
        np.testing.assert_allclose(one, other, atol=2e-3)


@pytest.mark.parametrize("mode", ["int4", "fp16"])
def test_converted_experts_are_in_memory(mixture, mode):
    with running(mixture, exact("cpu", experts="file", mode=mode)) as runner:
        assert runner.executor_info.experts == "memory"


@pytest.mark.parametrize("experts", ["cpu", "file"])
def test_other_executors_have_them_in_memory(mixture, experts):
    with running(mixture, exact("numpy", experts=experts)) as runner:
        assert runner.executor_info.experts == "memory"


def test_a_dense_model_has_none(tiny_llama):
    with running(tiny_llama, EngineOptions(backend="cpu", experts="file")) as runner:
        assert (runner.executor_info.experts, runner.executor_info.active_bytes) == ("", 0)
