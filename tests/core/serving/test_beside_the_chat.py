"""Clients and the chat in the same steps of one executor: each as it is alone."""

import threading

import numpy as np
import pytest

from llm_lite.core.errors import DeviceLostError
from llm_lite.core.handles import CANCELLED
from llm_lite.core.inspect.attention import head_maps
from llm_lite.core.messages import (
    ChatMessage,
    Generate,
    GenerationFinished,
    Reconfigure,
    SamplingOptions,
    SetInterventions,
    StopServing,
)
from llm_lite.core.records import replace
from tests.asking import served_maps
from tests.changes import scales
from tests.children import PATIENCE
from tests.core.engine_client import HELLO, Hook
from tests.core.serving.clients import Asked, serve
from tests.core.serving.test_served_gains import GAINS
from tests.families import family_of
from tests.family_checks import write_case
from tests.make_gguf import write_tiny_llama
from tests.runners import BACKENDS, exact

PARALLEL = 3
LONG = SamplingOptions(temperature=0.0, repetition_penalty=1.0, max_new_tokens=60)
PROMPTS = [tuple(range(5, 20)), tuple(range(30, 200)), (9,)]
TYPES = [{}, {"mode": "int8", "activations": "auto", "keys": "fp16"}]
STORY = (ChatMessage("user", "Tell me of " + "the sea and " * 60),)


def batch_of(client):
    return client.engine._clients._serving._batch


def together(client, service, messages=STORY, **changes):
    """The tokens of the chat's answer and of clients', who ask while it is read."""
    handle = client.send(Generate(messages, LONG, **changes))
    asked = [Asked(service, tokens=tokens, sampling=LONG) for tokens in PROMPTS]
    found = [one.tokens() for one in asked]
    handle.result(PATIENCE)
    return tokens_of(client, handle), found


def tokens_of(client, handle):
    client.take()
    return [e.token for e in client.of(object, handle) if hasattr(e, "context_used")]


def steps_of(client, monkeypatch):
    """All steps of the executor from now on, as (tokens, segments)."""
    executor, steps = batch_of(client).executor, []
    run = executor.run

    def noted(step, should_stop=None):
        steps.append((step.count, len(step.segments)))
        return run(step, should_stop)

    monkeypatch.setattr(executor, "run", noted)
    return steps


@pytest.mark.parametrize("types", TYPES, ids=["f32", "int8"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_each_is_as_alone(client, device, served_model, backend, types, monkeypatch):
    client.engine.device_lost(device)
    client.load(served_model, exact(backend, speculate="off", **types))
    service = serve(client, parallel=PARALLEL)
    alone = (
        client.ask(STORY, LONG)[1],
        [Asked(service, tokens=tokens, sampling=LONG).tokens() for tokens in PROMPTS],
    )
    client.send(StopServing())
    service = serve(client, parallel=PARALLEL)  # with an empty cache
    client.engine._host.runner.session.clear()
    steps = steps_of(client, monkeypatch)
    assert together(client, service) == alone
    assert len(steps) < 120, "one by one they are more than 240"
    assert max(segments for _, segments in steps) == 1 + PARALLEL


@pytest.mark.parametrize("speculate", ["off", "lookup"])
def test_as_in_caches_of_their_own(client, served_model, speculate):
    """The chat with gains and drafts, beside clients who have neither, and before anybody
    serves."""
    client.load(served_model, exact(speculate=speculate))
    client.send(SetInterventions(scales(GAINS[1])))
    alone = client.ask(STORY, LONG)[1]
    service = serve(client, parallel=PARALLEL)
    answers = [Asked(service, tokens=tokens, sampling=LONG).tokens() for tokens in PROMPTS]
    client.result(StopServing())
    service = serve(client, parallel=PARALLEL)
    client.engine._host.runner.session.clear()
    assert together(client, service) == (alone, answers)


def test_vectors_are_without_the_gains_of_the_chat(client, served_model):
    client.load(served_model, exact())
    service = serve(client, parallel=PARALLEL)
    before = service.embed(PROMPTS).vectors
    client.send(SetInterventions(scales(GAINS[1]))).result(PATIENCE)
    assert np.array_equal(service.embed(PROMPTS).vectors, before)


@pytest.mark.parametrize("backend", BACKENDS)
def test_maps_of_clients_beside_rings_of_the_chat(client, device, tmp_path, backend):
    family = family_of("gemma3")
    path = write_case(family, next(iter(family.cases)), tmp_path, max_position_embeddings=1024)
    client.engine.device_lost(device)
    client.load(path, exact(backend, context=700))
    tokens = tuple(n % 250 + 3 for n in range(200))
    runner = client.engine._host.runner
    runner.session.prefill(tokens)
    source, rows = runner.attention, range(120, 140)
    known = []
    for layer in range(len(source.layers)):
        maps = np.zeros((2, len(source.rows), len(tokens)), np.float32)
        head_maps(source, layer, (0, 1), maps)
        known.append(maps[:, rows.start - source.rows.start :][:, : len(rows), : rows.stop])
    service = serve(client, parallel=PARALLEL)
    asked = Asked(service, tokens=tokens)
    asked.tokens()
    found = [
        served_maps(service, asked.response, n, (0, 1), rows.start, rows.stop)[..., : rows.stop]
        for n in range(len(known))
    ]
    assert np.allclose(found, known, atol=1e-5)


def test_a_context_of_less_than_a_page(client, tmp_path):
    """Two prompts that are longer together than a step of the chat, and vectors."""
    path = write_tiny_llama(tmp_path / "tiny.gguf", context=64, seed=2)
    client.load(path, exact(speculate="lookup"))
    service = serve(client, parallel=PARALLEL)
    prompts = [tuple(range(5 + n, 58 + n)) for n in range(PARALLEL)]
    alone = [Asked(service, tokens=tokens).tokens() for tokens in prompts]
    client.result(StopServing())
    service = serve(client, parallel=PARALLEL)
    go, calls = threading.Event(), service._queue
    held = threading.Thread(target=lambda: calls.call(lambda _: go.wait(PATIENCE)))
    held.start()
    asked = [Asked(service, tokens=tokens) for tokens in prompts]
    go.set()
    held.join()
    assert [one.tokens() for one in asked] == alone
    assert len(service.embed(prompts).vectors) == PARALLEL


def test_drafts_are_not_judged_by_steps_with_company(client, served_model, monkeypatch):
    client.load(served_model, exact(speculate="lookup"))
    service = serve(client, parallel=PARALLEL)
    speculation, steps, noted = client.engine._host.runner.session.speculation, [], []
    batch = batch_of(client)
    alone, beside, note = batch.executor.run, batch.run, speculation.note_pass

    def run(*args):
        steps.append("alone")
        return alone(*args)

    def run_beside(*args):
        logits = beside(*args)
        steps[-1] = "with company"
        return logits

    def note_pass(tokens, seconds):
        noted.append(steps[-1])
        note(tokens, seconds)

    monkeypatch.setattr(batch.executor, "run", run)
    monkeypatch.setattr(batch, "run", run_beside)
    monkeypatch.setattr(speculation, "note_pass", note_pass)
    together(client, service)
    assert client.ask(HELLO, LONG)
    assert "with company" in steps and set(noted) == {"alone"}


def test_a_stop_of_the_chat_and_clients_that_leave_end_nobody_else(client, served_model):
    client.load(served_model, exact())
    service = serve(client, parallel=PARALLEL)
    expected = [Asked(service, tokens=tokens, sampling=LONG).tokens() for tokens in PROMPTS]
    whole = client.ask(HELLO, LONG)[1]
    asked = [Asked(service, tokens=tokens, sampling=LONG) for tokens in PROMPTS]
    handle = client.send(Generate(STORY, LONG))
    asked[1].handle.cancel()
    handle.cancel()
    assert asked[1].finished().stop_reason in ("stopped", "length")
    assert [asked[n].tokens() for n in (0, 2)] == [expected[n] for n in (0, 2)]
    assert client.end_of(handle) in ("", CANCELLED)
    assert client.ask(HELLO, LONG)[1] == whole


def test_a_listener_that_fails_ends_its_own_answer(client, served_model):
    client.load(served_model, exact())
    service = serve(client, parallel=PARALLEL)
    whole = client.ask(STORY, LONG)[1]
    client.engine._host.runner.session.clear()
    asked = Asked(service, tokens=PROMPTS[0], sampling=LONG)
    heard = asked.hear

    def fails(event):
        heard(event)
        raise ValueError("no more")

    asked.hear = fails
    other = Asked(service, tokens=PROMPTS[2], sampling=LONG)
    assert client.ask(STORY, LONG)[1] == whole
    assert len(other.tokens()) == 60


def test_another_mode_takes_over_in_the_middle(client, served_model):
    client.load(served_model, exact())
    service = serve(client, parallel=PARALLEL)
    handle = client.send(Generate(HELLO, replace(LONG, max_new_tokens=200)))
    asked = Asked(service, tokens=PROMPTS[0], sampling=replace(LONG, max_new_tokens=200))
    change = client.send(Reconfigure(exact(mode="int8")))
    change.result(PATIENCE)
    assert handle.result(PATIENCE).stop_reason in ("length", "end")
    assert asked.finished().stop_reason in ("length", "end")


def test_a_device_that_is_lost_in_a_shared_step_takes_nothing_along(
    client, device, served_model, monkeypatch
):
    client.load(served_model, exact("cpu"))
    service = serve(client, parallel=PARALLEL)
    expected = together(client, service)
    hook = Hook(monkeypatch, "vulkan")
    client.engine.device_lost(device)
    client.load(served_model, exact("vulkan"))
    service = serve(client, parallel=PARALLEL)
    lost = threading.Event()

    def lose(step, should_stop):
        if len(step.segments) > 2 and not lost.is_set():
            lost.set()
            raise DeviceLostError("the device was lost")

    hook.at_step = lose
    assert together(client, service) == expected
    assert lost.is_set() and client.of(GenerationFinished)[-1].stop_reason == "length"
