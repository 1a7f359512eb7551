"""Drafts by a slice of the served model's own weights: the same answers, the same pages."""

import pytest

from llm_lite.core.generation.speculation.speculation import LongestDrafts, Speculation
from llm_lite.core.messages import SamplingOptions, ServingChanged, StartServing
from llm_lite.core.plan.step import PAGE
from llm_lite.core.serving import drafts
from tests.asking import served_maps
from tests.core.serving.clients import Asked, serve
from tests.make_huggingface import TALL_SLICED, write_tall_gemma3n
from tests.runners import exact
from tests.tiers import thorough

PROMPT = tuple(30 + i % 250 for i in range(PAGE - 12))  # the answer begins a page
GREEDY = SamplingOptions(temperature=0.0, max_new_tokens=4)
DRAWN = SamplingOptions(temperature=1.2, seed=5, max_new_tokens=14)


@pytest.fixture(scope="module")
def sliceable(tmp_path_factory):
    """E4B's layers, each tiny."""
    return write_tall_gemma3n(tmp_path_factory.mktemp("tall") / "source", **TALL_SLICED)


@pytest.fixture(autouse=True)
def drafted_whether_it_pays_or_not(monkeypatch):
    """A slice of random weights is hardly ever right."""

    def longest(sources, policy):
        return Speculation(sources, LongestDrafts())

    monkeypatch.setattr(drafts, "Speculation", longest)


def sources(asked):
    return {one.source for one in asked.finished().stats.drafted_by}


@pytest.mark.parametrize("backend", ["numpy", "cpu", thorough("vulkan")])
def test_answers_and_maps_are_the_same(client, device, sliceable, backend):
    """The slice writes rows that belong to no token yet, also at the end of a page; the next
    question sees nothing of them."""
    client.engine.device_lost(device)
    client.load(sliceable, exact(backend))
    found = []
    for speculate in ("off", "slice"):
        service = serve(client, speculate=speculate, parallel=1)
        asked = Asked(service, tokens=PROMPT, sampling=DRAWN, response="first")
        tokens, told = asked.tokens(), service.answer_tokens("first")
        maps = [served_maps(service, "first", i, (0,), 0, len(told.tokens)) for i in (0, 19, 34)]
        following = Asked(service, tokens=(*PROMPT, *tokens, 7), sampling=GREEDY).tokens()
        found.append((tokens, [one.tobytes() for one in maps], following))
    assert found[0] == found[1]
    assert "slice" in sources(asked)


def test_a_model_without_a_slice_is_not_served_by_one(client, served_model):
    client.load(served_model, exact("cpu"))
    client.send(StartServing(speculate="slice"))
    changed = client.until(ServingChanged)
    assert not changed.is_on
    assert "--speculate slice: this model was not trained" in changed.problem


def test_the_chats_slice_drafts_for_a_server_too(client, sliceable):
    client.load(sliceable, exact("cpu", speculate="slice"))
    asked = Asked(serve(client, speculate=None), tokens=PROMPT, sampling=DRAWN)
    assert "slice" in sources(asked)
