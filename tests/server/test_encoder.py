"""An encoder behind the server, by OpenAI's own client: vectors, and refusals of all else."""

from __future__ import annotations

import threading

import httpx2 as httpx
import numpy as np
import openai
import pytest

from llm_lite.core.serving.direct_services import EncoderService
from llm_lite.server.config import ServerConfig
from llm_lite.server.serve import Server
from tests.encoder_checks import started, write_case
from tests.encoder_families import family_of


@pytest.fixture(scope="module")
def runner(tmp_path_factory):
    path = write_case(family_of("bert"), "several", tmp_path_factory.mktemp("encoders") / "m")
    made = started(path, "cpu")
    yield made
    made.close()
    made.model_file.close()


@pytest.fixture(scope="module")
def server(runner):
    service = EncoderService(runner)
    served = Server(lambda: service, ServerConfig(port=0))
    served.start()
    yield served
    served.stop()


@pytest.fixture(scope="module")
def client(server):
    return openai.OpenAI(base_url=f"{server.address}/v1", api_key="none", max_retries=0)


def test_vectors_are_the_encoders(client, runner):
    texts = ["the cat", "sat on", "the cat sat on " * 30]
    found = client.embeddings.create(model="any", input=texts, encoding_format="float")
    vectors = np.array([one.embedding for one in found.data])
    assert vectors.shape == (3, 31)  # of its dense layer
    assert np.abs(vectors - runner.embed(texts)).max() < 1e-5
    assert found.usage.prompt_tokens == 4 + 4 + runner.most_tokens
    assert client.models.list().data[0].id


def test_many_clients_have_what_they_have_alone(client):
    texts = [[f"the cat {i}", "on"] for i in range(6)]
    alone = [client.embeddings.create(model="m", input=each).data for each in texts]
    found: list[object] = [None] * len(texts)

    def ask(index: int) -> None:
        found[index] = client.embeddings.create(model="m", input=texts[index]).data

    threads = [threading.Thread(target=ask, args=(i,)) for i in range(len(texts))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for one, other in zip(alone, found, strict=True):
        for a, b in zip(one, other, strict=True):
            assert np.abs(np.array(a.embedding) - np.array(b.embedding)).max() < 1e-5


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("chat/completions", {"messages": [{"role": "user", "content": "Hi"}]}),
        ("chat/completions", {"messages": [{"role": "user", "content": "Hi"}], "stream": True}),
        ("completions", {"prompt": "Hi"}),
        ("responses", {"input": "Hi"}),
    ],
)
def test_it_answers_nothing_else(server, path, body):
    answer = httpx.post(f"{server.address}/v1/{path}", json={"model": "m", **body})
    assert answer.status_code == 400
    said = answer.json()["error"]["message"]
    assert "is a BERT model, an encoder, which writes no text: ask /v1/embeddings" in said


def test_tokens_and_their_texts(server):
    found = httpx.post(f"{server.address}/tokenize", json={"content": "the cat"}).json()
    back = httpx.post(f"{server.address}/detokenize", json={"tokens": found["tokens"]}).json()
    assert "the cat" in back["content"]


def test_texts_that_are_none(client):
    with pytest.raises(openai.BadRequestError, match="token 262 is not in the vocabulary of 262"):
        client.embeddings.create(model="m", input=[[5, 262]])
    with pytest.raises(openai.BadRequestError):
        client.embeddings.create(model="m", input=["the"], dimensions=7)
