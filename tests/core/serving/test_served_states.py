"""Clients of a model with recurrent states: each answer has its own, and goes on from others'."""

import numpy as np
import pytest

from llm_lite.core.errors import OutOfMemoryError, RequestError
from llm_lite.core.inspect.text_maps import EVERY_QUERY
from llm_lite.core.loading.client_room import room_for
from llm_lite.core.messages import (
    ChatMessage,
    FollowToken,
    ReadAttentionRows,
    SamplingOptions,
    StartServing,
)
from llm_lite.core.plan.step import PAGE
from tests.core.serving.clients import Asked, serve
from tests.runners import BACKENDS, exact, running

CONTEXT = 8 * PAGE
SEVERAL = SamplingOptions(temperature=0.0, repetition_penalty=1.0, max_new_tokens=10)
RANDOM = np.random.default_rng(4)
SYSTEM = tuple(RANDOM.integers(30, 260, 2 * PAGE + 20).tolist())
ENDS = [tuple(RANDOM.integers(30, 260, n).tolist()) for n in (3, 40, 131, 7, 90)]


@pytest.fixture(scope="module")
def alone(recurrent_folder):
    """Whether an answer is that of the model alone: at each token the likeliest, or as likely."""
    with running(recurrent_folder, exact("numpy")) as runner:

        def check(prompt, said):
            runner.session.clear()
            logits = [runner.session.prefill(prompt)]
            logits += [runner.session.decode(token) for token in said[:-1]]
            assert all(row.max() - row[t] < 1e-3 for row, t in zip(logits, said, strict=True))

        yield check


@pytest.mark.parametrize("backend", BACKENDS)
def test_answers_beside_each_other_are_those_of_the_model_alone(
    client, device, recurrent_folder, alone, backend
):
    client.engine.device_lost(device)
    client.load(recurrent_folder, exact(backend))
    said = client.ask((ChatMessage("user", "hello"),), SEVERAL)[1]
    service = serve(client, parallel=3)
    pages = client.engine._host.runner.executor.program.pages
    own = pages.states - pages.client_states - pages.drafted_states
    assert (pages.client_states, own) == (12, 16)
    prompts = [SYSTEM + end for end in ENDS]
    asked = [Asked(service, tokens=prompt, sampling=SEVERAL) for prompt in prompts]
    assert client.ask((ChatMessage("user", "hello"),), SEVERAL)[1] == said, "the chat beside them"
    found = [one.tokens() for one in asked]
    for prompt, tokens in zip(prompts, found, strict=True):
        alone(prompt, tokens)
    turn = prompts[-1] + tuple(found[-1]) + ENDS[0]
    following = Asked(service, tokens=turn, sampling=SEVERAL)
    alone(turn, following.tokens())
    assert following.started.reused_tokens >= len(prompts[-1]) + len(found[-1]) - 1
    again = Asked(service, tokens=SYSTEM + ENDS[1][::-1], sampling=SEVERAL)
    alone(SYSTEM + ENDS[1][::-1], again.tokens())
    assert again.started.reused_tokens == 2 * PAGE


def test_answers_that_had_to_wait_for_pages_are_the_same(client, recurrent_folder, alone):
    client.load(recurrent_folder, exact("numpy"))
    runner = client.engine._host.runner
    whole = room_for(runner, StartServing(parallel=1)).pages
    service = serve(client, parallel=3)
    batch = client.engine._clients._serving._batch
    for _ in range(len(batch.pool._free) - whole):  # room for hardly more than one
        batch.pool._free.pop()
    long = [SYSTEM + tuple(RANDOM.integers(30, 260, 3 * PAGE).tolist()) for _ in range(3)]
    asked = [Asked(service, tokens=prompt, sampling=SEVERAL) for prompt in long]
    for prompt, one in zip(long, asked, strict=True):
        alone(prompt, one.tokens())


def test_what_a_response_still_shows(client, recurrent_folder):
    client.load(recurrent_folder, exact("numpy", query_budget=EVERY_QUERY))
    service = serve(client, parallel=2)
    Asked(service, tokens=SYSTEM, response="one", sampling=SEVERAL).tokens()
    maps = service.attention("one", 3, (0, 1), 5, 9)
    assert np.allclose(maps.sum(axis=2), 1, atol=1e-4)
    row = service.attention_rows("one", ReadAttentionRows(9, "from", "layer-mean", layer=3))
    assert sum(row.weights) == pytest.approx(1, abs=1e-4)
    scores = service.scores("one")["entropy"]
    assert np.isnan(scores[[0, 1, 2, 4]]).all() and np.isfinite(scores[3]).all()
    assert service.statistics("one", "received").layers == (3,)
    for look, sentence in (
        (lambda: service.attention("one", 0, (0,), 0, 9), "layer 0 has a recurrent state"),
        (lambda: service.lens("one", 5), "holds no recurrent state"),
        (lambda: service.trace("one", FollowToken(5, 3, 0, 0)), "holds no recurrent state"),
        (
            lambda: service.attention_rows("one", ReadAttentionRows(9, "from", "rollout")),
            "not all layers of this model attend",
        ),
    ):
        with pytest.raises(RequestError, match=sentence):
            look()


def test_texts_become_vectors(client, recurrent_folder):
    client.load(recurrent_folder, exact("numpy"))
    service = serve(client, parallel=2)
    texts = [SYSTEM, *ENDS, *[SYSTEM[i : i + 4] for i in range(20)]]
    vectors = service.embed(texts).vectors
    assert np.allclose(service.embed(texts[::-1]).vectors[::-1], vectors, atol=1e-5)


def test_states_count_in_the_budget(client, recurrent_folder):
    client.load(recurrent_folder, exact("numpy"))
    runner = client.engine._host.runner
    state = runner.model.shape.state_bytes
    pages = room_for(runner, StartServing(parallel=2, cache_budget=1 << 20)).pages
    fewer = room_for(runner, StartServing(parallel=2, cache_budget=(1 << 20) - 8 * state)).pages
    assert fewer < pages
    with pytest.raises(OutOfMemoryError):
        room_for(runner, StartServing(parallel=2, cache_budget=8 * state))
