"""Which model answers: while it is loaded, and while it is being loaded; its fingerprint."""

from contextlib import contextmanager

import httpx2 as httpx
import pytest
from jsonschema import Draft202012Validator

from llm_lite.core.records import replace
from llm_lite.server.config import ServerConfig
from llm_lite.server.openai.models import fingerprint
from llm_lite.server.serve import Server
from tests.server.scripted_service import ScriptedService

TITLE = "SmolLM2 135M Instruct"


@contextmanager
def loading(service_of=lambda: None):
    server = Server(service_of, ServerConfig(port=0), coming=lambda: TITLE)
    server.start()
    try:
        yield server.address
    finally:
        server.stop()


def test_a_model_that_is_being_loaded_is_listed():
    with loading() as url:
        (found,) = httpx.get(f"{url}/v1/models").json()["data"]
        assert found["id"] == "smollm2-135m-instruct" and found["title"] == TITLE
        assert found["status"] == {"value": "loading"} and "context_length" not in found
        assert httpx.get(f"{url}/v1/models/{found['id']}").json() == found
        assert httpx.get(f"{url}/v1/models/another").status_code == 404
        document = httpx.get(f"{url}/openapi.json").json()
        shape = {"$ref": "#/components/schemas/ServedModel", "components": document["components"]}
        Draft202012Validator(shape).validate(found)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": "hello"}]}),
        ("/v1/completions", {"prompt": "hello"}),
        ("/v1/responses", {"input": "hello"}),
        ("/v1/embeddings", {"input": "hello"}),
    ],
)
def test_who_asks_it_is_told_to_come_again(path, body):
    with loading() as url:
        answer = httpx.post(f"{url}{path}", json=body)
    assert answer.status_code == 503 and int(answer.headers["retry-after"]) > 0
    error = answer.json()["error"]
    assert error["code"] == "no_model"
    assert error["message"] == f"the model '{TITLE}' is being loaded: ask again when it is"


def test_the_id_stays_when_it_is_loaded():
    service: list[ScriptedService] = []
    with loading(lambda: service[0] if service else None) as url:
        (before,) = httpx.get(f"{url}/v1/models").json()["data"]
        service.append(ScriptedService(name=TITLE))
        try:
            (after,) = httpx.get(f"{url}/v1/models").json()["data"]
        finally:
            service[0].close()
    assert after["status"] == {"value": "loaded"} and after["context_length"] == 4096
    assert {**after, "status": 0} == {**after, **before, "status": 0}


class _Like:
    """A service as far as fingerprints know it."""

    def __init__(self, service):
        self.model, self.executor = service.model, service.executor


def test_a_fingerprint_is_of_model_modes_and_version(served, monkeypatch):
    first = _Like(served.service)
    known = {fingerprint(first)}
    again = _Like(served.service)
    again.model = replace(again.model, path="/elsewhere")
    assert fingerprint(again) in known and len(fingerprint(again)) == 15
    for part, changes in (
        ("model", {"name": "another"}),
        ("model", {"file_bytes": 7}),
        ("executor", {"mode": "int4"}),
        ("executor", {"activations": "a8"}),
        ("executor", {"keys": "int8"}),
    ):
        other = _Like(served.service)
        setattr(other, part, replace(getattr(other, part), **changes))
        known.add(fingerprint(other))
    monkeypatch.setattr("llm_lite.server.openai.models.program_version", lambda: "9.9")
    known.add(fingerprint(first))
    assert len(known) == 7


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": "hello"}]}),
        ("/v1/completions", {"prompt": "hello"}),
    ],
)
def test_answers_and_all_their_chunks_have_it(served, path, body):
    expected = fingerprint(served.service)
    assert httpx.post(f"{served.url}{path}", json=body).json()["system_fingerprint"] == expected
    more = {"stream": True, "stream_options": {"include_usage": True}}
    text = httpx.post(f"{served.url}{path}", json={**body, **more}).text
    chunks = [line for line in text.split("\n") if line.startswith("data: {")]
    assert len(chunks) > 1
    assert all(f'"system_fingerprint": "{expected}"' in chunk for chunk in chunks)
