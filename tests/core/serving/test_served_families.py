"""Every family of models, served: windows, caps, sinks and shared caches are as in the chat."""

import numpy as np
import pytest

from llm_lite.core.inspect.attention import head_maps
from llm_lite.core.inspect.text_maps import EVERY_QUERY
from llm_lite.core.messages import Inspect, SamplingOptions
from tests.asking import served_maps
from tests.core.serving.clients import Asked, serve
from tests.families import family_of
from tests.family_checks import RECURRENT, RECURRENT_MIXTURES, write_case
from tests.make_huggingface import write_tiny_gemma3n
from tests.paths import FIXTURES
from tests.runners import exact, running

FAMILIES = {path.stem for path in (FIXTURES / "families").glob("*.npz")}
NAMES = sorted(FAMILIES - {*RECURRENT, *RECURRENT_MIXTURES})  # these: test_served_states.py
TOKENS, SEVERAL = tuple(range(30, 46)), SamplingOptions(temperature=0.0, max_new_tokens=4)


@pytest.fixture(scope="module", params=[*NAMES, "gemma3n"])
def folder(request, tmp_path_factory):
    path = tmp_path_factory.mktemp(request.param) / "m"
    if request.param == "gemma3n":
        return write_tiny_gemma3n(path)
    family = family_of(request.param)
    return write_case(family, next(iter(family.cases)), path)


def test_a_family_is_served(client, folder):
    client.load(folder, exact())
    service = serve(client, parallel=2)
    asked = [Asked(service, tokens=TOKENS[n:], response=f"r{n}", sampling=SEVERAL) for n in (0, 3)]
    produced = asked[1].tokens()
    told = service.answer_tokens("r3")
    layers = range(told.layers)
    with running(folder, exact(query_budget=EVERY_QUERY, whole_caches=True)) as runner:
        session, shapes = runner.session, runner.attention.layers
        logits = [session.prefill(TOKENS[3:])]
        for token in produced[:-1]:
            logits.append(session.decode(token))
        assert [int(row.argmax()) for row in logits] == produced
        for layer in layers:
            heads = tuple(range(shapes[layer].heads))
            maps = np.empty((len(heads), len(told.tokens), len(told.tokens)), np.float32)
            head_maps(runner.attention, layer, heads, maps)
            found = served_maps(service, "r3", layer, heads, 0, len(told.tokens))
            assert np.allclose(found, maps, atol=1e-4), layer
    assert len(service.ask("r3", Inspect(5)).rows) == told.layers
    vectors = service.embed([TOKENS, TOKENS[3:]]).vectors
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
