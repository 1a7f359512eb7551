"""Vectors of texts: the mean of the last hidden states, computed in shared steps."""

import threading

import numpy as np
import pytest

from llm_lite.core.errors import RequestError
from llm_lite.core.exec import reference
from llm_lite.core.plan.step import Step
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
            step = Step(np.array(tokens[first : first + 128], np.int32), first, 0)
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
        thread.join(60)
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
