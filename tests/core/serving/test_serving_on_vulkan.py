"""Answers that share steps on a Vulkan device: the same alone and together, weights held once."""

import pytest

from llm_lite.core.messages import ServingChanged, StopServing
from tests.core.engine_client import Client
from tests.core.serving.clients import Asked, serve
from tests.make_gguf import write_tiny_llama
from tests.runners import exact

pytestmark = pytest.mark.vulkan


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return write_tiny_llama(tmp_path_factory.mktemp("served") / "tiny.gguf", context=512, seed=2)


@pytest.fixture
def vulkan(device):
    client = Client(device)
    yield client
    client.engine.close()


PROMPTS = [tuple(range(5, 20)), tuple(range(30, 200)), (7, 8, 9), tuple(range(3, 150))]


def answers(client, model, backend):
    """Of the prompts, one after the other and then at once."""
    client.load(model, exact(backend))
    service = serve(client, parallel=3)
    alone = [Asked(service, tokens=tokens).tokens() for tokens in PROMPTS]
    together = [Asked(service, tokens=tokens) for tokens in reversed(PROMPTS)]
    return alone, [asked.tokens() for asked in reversed(together)]


def test_answers_are_the_same_alone_and_together(vulkan, model):
    alone, together = answers(vulkan, model, "vulkan")
    assert together == alone
    weights = {id(executor._weights) for executor in executors(vulkan)}
    assert len(executors(vulkan)) == 2 and len(weights) == 1
    vulkan.send(StopServing())
    assert not vulkan.until(ServingChanged).is_on
    assert len(vulkan.ask()[1]) == 12, "the chat's executor still has its weights"
    by_numpy = Client()
    try:
        assert answers(by_numpy, model, "numpy")[1] == alone
    finally:
        by_numpy.engine.close()


def executors(client):
    runner = client.engine._host.runner
    return [runner.executor, *runner.beside]
