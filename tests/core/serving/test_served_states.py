"""Clients of a model with recurrent states: each answer has its own, and goes on from others'."""

from contextlib import contextmanager

import numpy as np
import pytest

from llm_lite.core.errors import CancelledError, GoneError, OutOfMemoryError, RequestError
from llm_lite.core.inspect.text_maps import EVERY_QUERY
from llm_lite.core.loading.client_room import room_for
from llm_lite.core.messages import (
    ChatMessage,
    FollowToken,
    Inspect,
    MeasureCache,
    ReadAttentionRows,
    ReadStates,
    SamplingOptions,
    StartServing,
    TokenDecoded,
)
from llm_lite.core.plan.plan import Kind
from llm_lite.core.plan.step import PAGE
from llm_lite.core.questions.scores import ReadScores
from llm_lite.core.records import replace
from llm_lite.core.serving import response_replay
from llm_lite.core.serving.places import PlaceTurns
from tests.asking import asked, lens, served_maps
from tests.core.serving.clients import Asked, serve
from tests.runners import BACKENDS, exact, running

CONTEXT = 8 * PAGE
SEVERAL = SamplingOptions(temperature=0.0, repetition_penalty=1.0, max_new_tokens=10)
RANDOM = np.random.default_rng(4)
SYSTEM = tuple(RANDOM.integers(30, 260, 2 * PAGE + 20).tolist())
ENDS = [tuple(RANDOM.integers(30, 260, n).tolist()) for n in (3, 40, 131, 7, 90)]


@contextmanager
def answers_alone(folder):
    """Whether an answer is that of the model alone: at each token the likeliest, or as likely."""
    with running(folder, exact("numpy")) as runner:

        def check(prompt, said):
            runner.session.clear()
            logits = [runner.session.prefill(prompt)]
            logits += [runner.session.decode(token) for token in said[:-1]]
            assert all(row.max() - row[t] < 1e-3 for row, t in zip(logits, said, strict=True))

        yield check


@pytest.fixture(scope="module")
def alone(each_recurrent_folder):
    with answers_alone(each_recurrent_folder) as check:
        yield check


@pytest.mark.parametrize("backend", BACKENDS)
def test_answers_beside_each_other_are_those_of_the_model_alone(
    client, device, each_recurrent_folder, alone, backend
):
    client.engine.device_lost(device)
    client.load(each_recurrent_folder, exact(backend))
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


def test_answers_that_had_to_wait_for_pages_are_the_same(client, each_recurrent_folder, alone):
    client.load(each_recurrent_folder, exact("numpy"))
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
    maps = served_maps(service, "one", 3, (0, 1), 5, 9)
    assert np.allclose(maps.sum(axis=2), 1, atol=1e-4)
    row = service.ask("one", ReadAttentionRows(9, "from", "layer-mean", layer=3))
    assert sum(row.weights) == pytest.approx(1, abs=1e-4)
    scores = service.ask("one", ReadScores()).scores["entropy"]
    assert np.isnan(scores[[0, 1, 2, 4]]).all() and np.isfinite(scores[3]).all()
    assert service.ask("one", MeasureCache("received")).layers == (3,)
    for look, sentence in (
        (lambda: served_maps(service, "one", 0, (0,), 0, 9), "layer 0 has a recurrent state"),
        (lambda: service.ask("one", FollowToken(5, 3, 0, 0)), "only tokens of the chat"),
        (lambda: service.ask("one", ReadStates(3, 0)), "layer 3 has no recurrent state"),
        (lambda: service.ask("one", Inspect(900)), "position 900 is not in the cache"),
        (
            lambda: service.ask("one", ReadAttentionRows(9, "from", "rollout")),
            "not all layers of this model attend",
        ),
    ):
        with pytest.raises(RequestError, match=sentence):
            look()


@pytest.fixture(params=BACKENDS)
def answered(request, client, device, recurrent_folder):
    """A service, and a response of it that is over."""
    client.engine.device_lost(device)
    client.load(recurrent_folder, exact(request.param, query_budget=EVERY_QUERY))
    service = serve(client, parallel=2)
    Asked(service, tokens=SYSTEM, response="one", sampling=SEVERAL).tokens()
    return service


def batch_of(client):
    return client.engine._clients._serving._batch


def caches_of(executor):
    """All bytes that executors hold of texts, but states."""
    tensors = [t for t in executor.program.plans[0].tensors if t.kind is Kind.STATE]
    kept = [t for t in tensors if not t.name.startswith(("delta", "conv"))]
    assert len(kept) < len(tensors)
    return [executor.read_state(t.name, 0, t.shape[0]).tobytes() for t in kept]


def test_the_lens_of_a_response_is_that_of_the_text_alone(client, answered, recurrent_folder):
    batch, tokens = batch_of(client), answered.answer_tokens("one").tokens
    states, before = batch.pool.states, caches_of(batch.executor)
    available = states.available
    for position in (len(tokens) - 1, 2 * PAGE + 5, 2 * PAGE, PAGE - 1, 0):
        found = answered.ask("one", Inspect(position, 3))
        with running(recurrent_folder, exact("numpy")) as other:
            other.session.prefill(tokens[: position + 1])
            known = lens(other.session, position)
        for one, (layer, logits) in zip(found.rows, known, strict=True):
            assert one.layer == layer
            likely = np.exp(logits - logits.max())
            exactly = (likely / likely.sum())[[best.token for best in one.tokens]]
            told = np.array([best.probability for best in one.tokens])
            assert np.abs(told - exactly).max() < 5e-4
        assert states.available == available, "slots are given back"
    assert caches_of(batch.executor) == before
    turn = (*tokens, *ENDS[0])
    following = Asked(answered, tokens=turn, sampling=SEVERAL)
    following.tokens()
    assert following.started.reused_tokens == len(tokens), "its states are there still"


def test_states_of_a_response_are_those_of_the_text_alone(client, answered, recurrent_folder):
    tokens = answered.answer_tokens("one").tokens
    with running(recurrent_folder, exact("numpy")) as other:
        other.session.prefill(tokens)
        for layer, head, positions in ((0, 0, 20), (4, 1, 200), (1, 1, 1000)):
            request = ReadStates(layer, head, positions)
            known, found = asked(request, other), answered.ask("one", request)
            assert found.first == known.first
            for name in ("kept", "written", "norms", "shares", "of_start"):
                difference = np.subtract(getattr(found, name), getattr(known, name))
                assert np.abs(difference).max() < 1e-3
            assert [at for at, _ in found.half_lives] == [0, 1, 2, 4]


def test_answers_go_on_while_tokens_run_again(client, answered, recurrent_folder):
    asked = [Asked(answered, tokens=SYSTEM + end, sampling=SEVERAL) for end in ENDS]
    found = answered.ask("one", ReadStates(0, 0, 250))
    again = answered.ask("one", ReadStates(0, 0, 250))
    with answers_alone(recurrent_folder) as alone:
        for one, end in zip(asked, ENDS, strict=True):
            alone(SYSTEM + end, one.tokens())
    assert np.abs(np.subtract(found.shares, again.shares)).max() < 1e-3


def test_what_runs_again_is_bounded_and_takes_a_slot(client, recurrent_folder, monkeypatch):
    client.load(recurrent_folder, exact("numpy"))
    service = serve(client, parallel=2)
    Asked(service, tokens=SYSTEM, response="one", sampling=SEVERAL).tokens()
    states, position = batch_of(client).pool.states, 2 * PAGE + 10
    expected = service.ask("one", Inspect(position))
    monkeypatch.setattr(response_replay, "MOST_AGAIN", 20)
    assert service.ask("one", Inspect(position)) == expected, "from the state behind its page"
    for page in list(states._pages):
        states.drop(page)
    sentence = f"267 tokens would run again.*before token {position}, .* behind 0: at most 20 run"
    with pytest.raises(RequestError, match=sentence):
        service.ask("one", Inspect(position))
    monkeypatch.setattr(response_replay, "MOST_AGAIN", 300)
    found = service.ask("one", Inspect(position))
    assert [[t.token for t in one.tokens] for one in found.rows] == [
        [t.token for t in one.tokens] for one in expected.rows
    ]
    taken = [states.allocate() for _ in range(states.available)]
    with pytest.raises(RequestError, match="answers use all slots of recurrent states"):
        service.ask("one", Inspect(position))
    for slot in taken:
        states.release(slot)
    assert service.ask("one", Inspect(position)) == found


def test_a_run_ends_once_nobody_wants_it_or_the_response_is_gone(client, recurrent_folder):
    client.load(recurrent_folder, exact("numpy"))
    service = serve(client, parallel=2)
    Asked(service, tokens=SYSTEM, response="one", sampling=SEVERAL).tokens()
    states = batch_of(client).pool.states
    available = states.available
    with pytest.raises(CancelledError):
        service.ask("one", ReadStates(0, 0, 250), lambda: True)
    with pytest.raises(CancelledError):
        service.ask("one", Inspect(2 * PAGE - 1, 5), lambda: True)

    def forget():
        client.engine._clients._serving._responses.clear()
        return False

    with pytest.raises(GoneError):
        service.ask("one", ReadStates(0, 0, 250), forget)
    assert states.available == available


def test_texts_become_vectors(client, each_recurrent_folder):
    client.load(each_recurrent_folder, exact("numpy"))
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


def test_an_answer_that_gives_its_place_up_goes_on_from_its_state(
    client, each_recurrent_folder, alone, monkeypatch
):
    """Two of one client give theirs up to small ones of others, and lose nothing."""
    given, give = [], PlaceTurns.giver

    def noted(turns, *asked):
        found = give(turns, *asked)
        given.append(found is not None)
        return found

    monkeypatch.setattr(PlaceTurns, "giver", noted)
    client.load(each_recurrent_folder, exact("numpy"))
    service = serve(client, parallel=2)
    long = replace(SEVERAL, max_new_tokens=60)
    prompts = [SYSTEM + end for end in ENDS]
    many = [Asked(service, tokens=p, sampling=long, client="10.0.0.1 many") for p in prompts[:2]]
    while not all(any(isinstance(e, TokenDecoded) for e in one.events) for one in many):
        assert not any(one.done.is_set() for one in many)
        many[0].done.wait(0.001)
    small = [
        Asked(service, tokens=p, sampling=SEVERAL, client=f"10.0.0.{n} small")
        for n, p in enumerate(prompts[2:], 2)
    ]
    for prompt, one in zip(prompts, (*many, *small), strict=True):
        alone(prompt, one.tokens())
    assert sum(given) >= 1
