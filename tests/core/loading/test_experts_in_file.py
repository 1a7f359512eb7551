"""Experts that stay in their file: the same answers, in a step of one token, of many and of several
clients, and nothing of them in the program's own memory."""

import numpy as np
import pytest

from llm_lite.core.messages import EngineOptions
from tests.mixture_in_blocks import VOCABULARY, write_mixture_in_blocks
from tests.runners import exact, running

TOKENS = np.random.default_rng(3).integers(6, VOCABULARY, 40).tolist()


@pytest.fixture(scope="module")
def mixture(tmp_path_factory):
    return write_mixture_in_blocks(tmp_path_factory.mktemp("mixture"))


@pytest.mark.parametrize("activations", ["a32", "a8"])
def test_answers_are_the_same(mixture, activations):
    found = []
    for experts in ("memory", "file"):
        options = exact("cpu", experts=experts, activations=activations)
        with running(mixture, options) as runner:
            assert runner.executor_info.experts_in_file is (experts == "file")
            logits = [runner.session.prefill(TOKENS)]
            logits += [runner.session.decode(token) for token in (7, 8, 9)]
            found.append(logits)
    assert all(map(np.array_equal, *found))


@pytest.mark.parametrize("mode", ["int4", "fp16"])
def test_converted_experts_are_in_memory(mixture, mode):
    with running(mixture, exact("cpu", experts="file", mode=mode)) as runner:
        assert not runner.executor_info.experts_in_file


def test_other_executors_take_no_notice(mixture):
    with running(mixture, exact("numpy", experts="file")) as runner:
        assert not runner.executor_info.experts_in_file


def test_a_dense_model_reads_all_its_weights(tiny_llama):
    with running(tiny_llama, EngineOptions(backend="cpu", experts="file")) as runner:
        assert not runner.executor_info.experts_in_file
        assert runner.executor_info.active_bytes == 0
