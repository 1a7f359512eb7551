"""Answers that share steps on a Vulkan device: the same alone and together, weights held once."""

import pytest

from llm_lite.core.loading.client_room import free_bytes, most_pages, row_bytes
from llm_lite.core.messages import ServingChanged, StartServing, StopServing
from llm_lite.core.plan.step import PAGE
from llm_lite.core.records import replace
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
    assert vulkan.engine._host.runner.beside == [], "one executor for all"
    vulkan.send(StopServing())
    assert not vulkan.until(ServingChanged).is_on
    assert len(vulkan.ask()[1]) == 12, "the chat's executor still has its weights"
    by_numpy = Client()
    try:
        assert answers(by_numpy, model, "numpy")[1] == alone
    finally:
        by_numpy.engine.close()


def test_no_more_pages_than_a_device_binds(vulkan, model, monkeypatch):
    """Of the widest cache, here of queries with 256 bytes a position, and of its own memory."""
    vulkan.load(model, exact("vulkan"))
    runner = vulkan.engine._host.runner
    info = runner.choice.info
    rows = row_bytes(runner)
    assert not rows.windowed and max(rows.whole) == 256 and len(rows.whole) == 2 * (2 + 1)
    small = replace(info, max_storage_buffer_range=9 * PAGE * 256)
    assert most_pages(small, rows.whole) == 9 and most_pages(None, rows.whole) is None
    discrete = replace(info, kind="discrete", memory_bytes=8 << 20)
    assert 6 << 20 < free_bytes(discrete, runner.executor) < 8 << 20
    monkeypatch.setattr(type(runner.choice), "info", small)
    assert serve(vulkan, parallel=3).status().pages == 9 - 4, "the chat has 4"
    vulkan.send(StopServing(), StartServing(cache_budget=PAGE * sum(rows.whole)))
    while not (changed := vulkan.until(ServingChanged)).problem:
        pass
    assert "smaller context" in changed.problem
