"""An encoder behind the server, by OpenAI's own client: vectors, and refusals of all else."""

from __future__ import annotations

import threading

import httpx2 as httpx
import numpy as np
import openai
import pytest
from jsonschema import Draft202012Validator

from llm_lite.core.errors import GoneError
from llm_lite.core.messages.remote import ApiKey
from llm_lite.core.questions.activations import ReadActivations
from llm_lite.core.questions.scores import ReadScores
from llm_lite.core.remote.address import read_address
from llm_lite.core.remote.arrays import npz_arrays
from llm_lite.core.remote.client import Client, Exchange
from llm_lite.core.remote.inspection import RemoteInspection
from llm_lite.core.serving.direct_services import EncoderService
from llm_lite.core.serving.kept_texts import MOST_TEXTS, MOST_TOKENS, KeptText, KeptTexts
from llm_lite.server.config import ServerConfig
from llm_lite.server.serve import Server
from tests.asking import asked as asked_of
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


def test_questions_about_texts(client, server, runner):
    """By the id of the vectors; the texts are read again."""
    texts = ["the cat", "sat on"]
    made = client.embeddings.create(model="m", input=texts, encoding_format="float")
    client.embeddings.create(model="m", input="another")
    sites = ("encoder.layer.1.attention.self", "embedding.norm")
    for text, name in zip(texts, (made.id, f"{made.id}.1"), strict=True):
        asked = {"response": name, "sites": ",".join(sites), "first": 1, "format": "npz"}
        raw = httpx.get(f"{server.address}/inspect/activations", params=asked).content
        tokens = runner.model_file.tokenizer.encode(text, add_special=True)
        runner.session.hidden(tokens)
        expected = asked_of(ReadActivations(sites, 1), runner).values
        found = npz_arrays(raw)
        for site in sites:
            np.testing.assert_array_equal(found[site], expected[site])
        inspection = RemoteInspection(Client(read_address(server.address), ApiKey()))
        held = inspection.held(name, Exchange())
        assert held.tokens == tuple(tokens) and held.sizes.lengths == (len(tokens),)
        answer = inspection.ask(held, ReadActivations(sites, 1), Exchange())
        np.testing.assert_array_equal(answer.values[sites[0]], expected[sites[0]])
        scores = inspection.ask(held, ReadScores(), Exchange())
        assert scores.scores["entropy"].shape == (2, 3)
    refused = httpx.get(f"{server.address}/inspect/lens", params={"response": made.id})
    assert refused.status_code == 400 and "writes no text" in refused.text


def test_a_text_is_read(client, server, runner):
    """Its tokens by the document, and questions about it by its id."""
    document = httpx.get(f"{server.address}/openapi.json").json()
    asked = {"text": "the cat", "pair": "sat on"}
    found = httpx.post(f"{server.address}/encode", json=asked).json()
    shape = {"$ref": "#/components/schemas/Encoded", "components": document["components"]}
    Draft202012Validator(shape).validate(found)
    rows = found["encoded"]["tokens"]
    assert [one["text"] for one in rows[:4]] == ["[CLS]", "the", "cat", "[SEP]"]
    assert [one["special"] for one in rows] == [True, False, False, True, False, False, True]
    assert [one["segment"] for one in rows] == [0] * 4 + [1] * 3
    query = {"response": found["id"]}
    held = httpx.get(f"{server.address}/inspect/cache", params=query).json()
    assert held["tokens"] == [one["token"] for one in rows]
    known = client.models.list().data[0].encoder
    assert known["most_tokens"] == runner.most_tokens and known["vector_width"] == 31
    for body, status, sentence in (
        ({"text": "a", "fills": "yes"}, 400, "fills: expected true or false"),
        ({}, 400, "text: "),
        ({"text": ["a"]}, 400, "text: expected a text"),
    ):
        refused = httpx.post(f"{server.address}/encode", json=body)
        assert refused.status_code == status and sentence in refused.json()["error"]["message"]


def test_texts_are_kept_for_a_while():
    texts = KeptTexts()
    texts.keep("large", KeptText((1,) * MOST_TOKENS))
    assert texts.find("large").size == MOST_TOKENS
    texts.keep("one", KeptText((1,)))
    with pytest.raises(GoneError, match="nothing of the name large: the last 256 are kept"):
        texts.find("large")
    for number in range(MOST_TEXTS):
        texts.keep(str(number), KeptText((number,), (1,)))
    with pytest.raises(GoneError):
        texts.find("one")
    assert texts.find("0") == KeptText((0,), (1,))
