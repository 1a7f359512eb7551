"""Vectors of texts: the mean of the last hidden states, computed in shared steps."""

import threading

import numpy as np
import pytest

from llm_lite.core.errors import RequestError
from llm_lite.core.exec import reference
from llm_lite.core.messages import EncodeText, SamplingOptions
from llm_lite.core.serving.scheduler import Scheduler
from tests.children import PATIENCE
from tests.core.serving.clients import Asked, serve
from tests.core.serving.test_scheduling import BYTES_A_PAGE, LONG
from tests.runners import BACKENDS, exact, running

TEXTS = [tuple(range(5, 9)), tuple(range(20, 90)), tuple(range(5, 280)), (7,)]


def by_hand(path, tokens):
    with running(path, exact()) as runner:
        executor = runner.executor
        plan = executor.program.plan_for(128, 1)
        norm = runner.weights["output_norm.weight"].dequantize()
        states = []
        for first in range(0, len(tokens), 128):
            step = executor.program.step(tokens[first : first + 128], first, 0)
            last = plan.layer_ends[-1]
            executor.run_ops(plan, step, 0, last + 1)
            residual = executor.read(plan, plan.tensors[plan.ops[last].outputs[0]], step)
            states.append(reference.rms_norm(residual, norm, eps=1e-5))
        mean = np.concatenate(states).mean(axis=0)
        return mean / np.linalg.norm(mean)


@pytest.mark.parametrize("backend", BACKENDS)
def test_vectors_are_the_mean_of_the_last_states(client, device, served_model, backend):
    client.engine.device_lost(device)
    client.load(served_model, exact(backend))
    service = serve(client, parallel=4)
    found = service.embed(TEXTS)
    assert found.tokens == sum(map(len, TEXTS))
    for tokens, vector in zip(TEXTS, found.vectors, strict=True):
        assert np.allclose(vector, by_hand(served_model, tokens), atol=1e-5)
    assert np.allclose(found.vectors[:1], service.embed(TEXTS[:1]).vectors, atol=1e-5)
    assert service.status().pages_used == service.status().pages_kept == 0


def test_a_decoder_reads_no_text_as_an_encoder_does(client, served_model):
    client.load(served_model, exact())
    with pytest.raises(RequestError, match="is no encoder, as BERT is: it reads a text to"):
        serve(client).encode(EncodeText("a text"))


def test_beside_answers_and_without_pages(client, served_model):
    client.load(served_model, exact())
    service = serve(client, parallel=2, cache_budget=4 * BYTES_A_PAGE)
    prompts = [tuple(range(5 + n, 120 + n)) for n in range(2)]
    asked = [Asked(service, tokens=tokens, sampling=LONG) for tokens in prompts]
    vectors = []
    threads = [
        threading.Thread(target=lambda t=text: vectors.append((t, service.embed([t]).vectors[0])))
        for text in TEXTS
    ]
    for thread in threads:
        thread.start()
    texts = [one.tokens() for one in asked]
    for thread in threads:
        thread.join(PATIENCE)
    assert [Asked(service, tokens=t, sampling=LONG).tokens() for t in prompts] == texts
    for text, vector in vectors:
        assert np.allclose(service.embed([text]).vectors[0], vector, atol=1e-5)
    assert len(vectors) == len(TEXTS)


@pytest.mark.parametrize(
    ("texts", "words"),
    [
        ([], "1 to 4096, found 0"),
        ([()], "text 0: expected 1 to 512 tokens, found 0"),
        ([(5,), (5,) * 600], "text 1: expected 1 to 512 tokens, found 600"),
        ([(5, 99_999)], "not in 0..299"),
    ],
)
def test_what_has_no_vector(client, served_model, texts, words):
    client.load(served_model, exact())
    with pytest.raises(RequestError, match=words):
        serve(client).embed(texts)


def test_what_nobody_wants_any_more_ends_between_two_steps(client, served_model):
    client.load(served_model, exact())
    service = serve(client, parallel=2)
    asked = iter([False, False])
    with pytest.raises(RequestError, match="nobody waits"):
        service.embed([(5,) * 300] * 20, lambda: next(asked, True))
    assert service.status().pages_used == 0
    assert len(service.embed([(5,)]).vectors) == 1


@pytest.fixture
def pushed_out(monkeypatch):
    """Answers that had to give their pages back."""
    found, return_youngest = [], Scheduler.return_youngest

    def counted(scheduler, pool):
        found.append(scheduler.running[-1])
        return return_youngest(scheduler, pool)

    monkeypatch.setattr(Scheduler, "return_youngest", counted)
    return found


def test_no_answer_gives_its_pages_to_an_embedding(client, hook, served_model, pushed_out):
    """Four pages: two answers come to need them all while texts of three and of one wait."""
    client.load(served_model, exact())
    service = serve(client, parallel=2, cache_budget=4 * BYTES_A_PAGE)
    greedy = SamplingOptions(temperature=0.0, max_new_tokens=100)
    reached = hook.block_step(len(hook.steps) + 5)
    asked = [Asked(service, tokens=range(5 + n, 120 + n), sampling=greedy) for n in range(2)]
    assert reached.wait(PATIENCE)
    found = []
    thread = threading.Thread(target=lambda: found.append(service.embed(TEXTS).vectors))
    thread.start()
    hook.heard = True
    for one in asked:
        assert one.finished().stats.new_tokens == 100
    thread.join(PATIENCE)
    assert pushed_out == []
    assert np.allclose(found[0], service.embed(TEXTS).vectors, atol=1e-5)
    assert service.status().pages_used == 0


def test_an_embedding_does_not_wait_for_ever(client, served_model, pushed_out):
    """Answers come one after the other, each with two of four pages; the text needs three."""
    client.load(served_model, exact())
    service = serve(client, parallel=2, cache_budget=4 * BYTES_A_PAGE)
    greedy, over = SamplingOptions(temperature=0.0, max_new_tokens=30), threading.Event()

    def go_on(lead):
        while not over.is_set():
            Asked(service, tokens=range(lead, lead + 120), sampling=greedy).tokens()

    threads = [threading.Thread(target=go_on, args=(lead,)) for lead in (5, 9)]
    for thread in threads:
        thread.start()
    try:
        assert len(service.embed(TEXTS[2:3]).vectors) == 1
    finally:
        over.set()
    for thread in threads:
        thread.join(PATIENCE)
    assert pushed_out == []
