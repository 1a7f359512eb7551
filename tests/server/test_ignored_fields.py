"""Programs for other servers send fields of their own: they are not looked at, and are named."""

import httpx2 as httpx
import pytest

from llm_lite.server.config import ServerConfig
from llm_lite.server.serve import Server
from tests.server.scripted_service import ScriptedService

IGNORED = "llm-lite-ignored-fields"
USER = [{"role": "user", "content": "hello"}]
BODIES = {
    "/v1/chat/completions": {"messages": USER},
    "/v1/completions": {"prompt": "hello"},
    "/v1/responses": {"input": "hello"},
    "/v1/embeddings": {"input": "hello"},
    "/tokenize": {"content": "hello"},
    "/detokenize": {"tokens": [0]},
}


@pytest.fixture
def noted():
    return []


@pytest.fixture
def server(noted):
    service = ScriptedService()
    made = Server(lambda: service, ServerConfig(port=0), log=print, note=noted.append)
    made.start()
    yield made
    made.stop()
    service.close()


def ask(server, path="/v1/chat/completions", **more):
    return httpx.post(server.address + path, json={**BODIES[path], **more})


@pytest.mark.parametrize("path", BODIES)
def test_they_are_named_in_a_header(server, path):
    made = ask(server, path, cache_prompt=True, id_slot=-1)
    assert made.status_code == 200
    assert made.headers[IGNORED] == "cache_prompt, id_slot"
    assert IGNORED not in ask(server, path).headers


def test_a_stream_and_a_refusal_have_the_header_too(server):
    made = ask(server, stream=True, cache_prompt=True)
    assert made.headers["content-type"].startswith("text/event-stream")
    assert made.headers[IGNORED] == "cache_prompt"
    refused = ask(server, n=2, top_logprobs=3, temprature=1)
    assert (refused.status_code, refused.headers[IGNORED]) == (400, "temprature")


def test_an_answer_is_the_same_with_them(server):
    plain, more = ask(server), ask(server, samplers=["top_k"], mirostat=2)
    assert plain.json()["choices"] == more.json()["choices"]


def test_names_in_the_header_are_bounded_and_plain(server):
    names = ["é, x\r\nset-cookie: a=b", "x" * 100, "", *(f"n{i}" for i in range(20))]
    made = ask(server, **dict.fromkeys(names, 1))
    assert "set-cookie" not in made.headers
    found = made.headers[IGNORED].split(", ")
    assert found == ["???x??set-cookie:?a=b", "x" * 64, "?", "n0", "n1", "n2", "n3", "n4"]


def test_the_log_says_it_once(server, noted):
    for _ in range(3):
        ask(server, cache_prompt=True)
    ask(server, cache_prompt=True, id_slot=0)
    ask(server, "/tokenize", cache_prompt=True)
    assert [text.partition(": ")[::2][0] for text in noted] == [
        "/v1/chat/completions",
        "/v1/chat/completions",
        "/tokenize",
    ]
    assert noted[1].endswith("ignored: id_slot")


def test_the_log_does_not_grow_with_the_names_that_a_client_thinks_of(server, noted):
    for number in range(40):
        ask(server, "/detokenize", **{f"n{number}-{i}": 1 for i in range(8)})
    assert len(noted) == 256 // 8


def test_a_query_has_only_parameters_that_are_known(server):
    refused = httpx.get(f"{server.address}/inspect/cache", params={"response": "x", "heads": "1"})
    assert refused.status_code == 400
    assert "not a known field" in refused.json()["error"]["message"]


UNIQUE = {"type": "array", "items": {"type": "integer"}, "uniqueItems": True, "format": "mine"}


@pytest.mark.parametrize(
    ("path", "more", "name"),
    [
        (
            "/v1/chat/completions",
            {"response_format": {"type": "json_schema", "json_schema": {"schema": UNIQUE}}},
            "response_format.uniqueItems",
        ),
        ("/v1/chat/completions", {"json_schema": UNIQUE}, "json_schema.uniqueItems"),
        ("/v1/completions", {"json_schema": UNIQUE}, "json_schema.uniqueItems"),
        (
            "/v1/responses",
            {"text": {"format": {"type": "json_schema", "name": "a", "schema": UNIQUE}}},
            "text.format.uniqueItems",
        ),
    ],
)
def test_keywords_of_a_schema_that_are_left_to_the_model_are_named(server, path, more, name):
    made = ask(server, path, **more)
    assert (made.status_code, made.headers[IGNORED]) == (200, name)
