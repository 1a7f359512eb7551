"""What goes wrong arrives as the exceptions of OpenAI's own client, each with one sentence."""

import gzip
import json
import threading

import httpx2 as httpx
import openai
import pytest

from llm_lite.core.errors import UnavailableError
from llm_lite.server.config import ServerConfig
from llm_lite.server.openai import chat
from llm_lite.server.serve import Server
from tests.children import PATIENCE
from tests.server import sockets
from tests.server.sockets import wait_until

USER = [{"role": "user", "content": "hello"}]


def ask(served, **more):
    given = {"model": "scripted", "messages": USER, **more}
    return served.client().chat.completions.create(**given)


@pytest.mark.parametrize(
    ("more", "param", "named"),
    [
        ({"temperature": -1}, "temperature", "from 0 to 100 or null, found -1"),
        ({"temperature": "warm"}, "temperature", "a number from 0 to 100 or null, found 'warm'"),
        ({"messages": []}, "messages", "a list of at least 1 item, found a list of 0"),
        ({"messages": [{"role": "robot", "content": "x"}]}, "messages[0].role", "'robot'"),
        ({"messages": [{"role": "user"}]}, "messages[0].content", "missing"),
        ({"extra_body": {"guided_regex": "a+"}}, "guided_regex", "leave it out"),
        ({"functions": [{"name": "f", "parameters": {}}]}, "functions", "not supported"),
        ({"top_logprobs": 3}, "top_logprobs", "logprobs"),
        ({"max_tokens": 0}, "max_tokens", "found 0"),
        ({"n": 99}, "n", "from 1 to 16, found 99"),
        ({"seed": 1.5}, "seed", "found 1.5"),
        ({"logit_bias": {"x": 1}}, "logit_bias", "'x'"),
        ({"response_format": {"type": "json_schema"}}, "response_format.json_schema", "missing"),
        ({"stop": [""]}, "stop[0]", "1 to 1,000 characters"),
    ],
)
def test_a_bad_field_is_named(served, more, param, named):
    with pytest.raises(openai.BadRequestError) as refused:
        ask(served, **more)
    assert refused.value.param == param
    assert named in refused.value.message and param in refused.value.message
    assert refused.value.type == "invalid_request_error"


def test_images_are_refused_with_a_sentence(served):
    parts = [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}}]
    with pytest.raises(openai.BadRequestError, match="read text only") as refused:
        ask(served, messages=[{"role": "user", "content": parts}])
    assert refused.value.param == "messages[0].content[0]"


def test_another_model_is_not_found_but_the_one_in_use_answers_for_it(served):
    with pytest.raises(openai.NotFoundError, match="'gpt-4o' is not loaded: 'scripted'") as missing:
        served.client().models.retrieve("gpt-4o")
    assert missing.value.code == "model_not_found"
    assert ask(served, model="gpt-4o").model == "scripted"


def test_a_models_title_is_its_id_without_spaces(serve):
    client = serve(name="SmolLM2 135M Instruct (Q4)").client()
    (found,) = client.models.list().data
    assert found.id == "smollm2-135m-instruct-q4"
    assert found.model_dump()["title"] == "SmolLM2 135M Instruct (Q4)"
    assert client.models.retrieve(found.id) == found
    made = client.completions.create(model=found.id, prompt="once", max_tokens=2)
    assert made.model == found.id


def test_a_long_prompt_is_refused_before_it_streams(serve):
    served = serve(context=64)
    with pytest.raises(openai.BadRequestError, match="context has room for 64"):
        ask(served, messages=[{"role": "user", "content": "word " * 100}], stream=True)


def test_too_many_are_told_when_to_ask_again(serve):
    served = serve(parallel=1, most_waiting=1)
    served.service.hold.clear()
    threads = [threading.Thread(target=ask, args=(served,)) for _ in range(2)]
    for waiting, thread in enumerate(threads):
        thread.start()
        wait_until(lambda: [r.waiting for r in served.service.status().requests].count(False) == 1)
        wait_until(lambda: len(served.service.status().requests) == waiting + 1)  # noqa: B023
    with pytest.raises(openai.RateLimitError) as busy:
        ask(served)
    assert busy.value.response.headers["retry-after"] == "2"
    served.service.hold.set()
    for thread in threads:
        thread.join(PATIENCE)
    assert ask(served).choices[0].message.content == "You said: hello"


def test_several_answers_are_refused_together_or_wait_together(serve):
    served = serve(parallel=1, most_waiting=2)
    served.service.hold.clear()
    before, full = sockets.connect(served), sockets.connect(served)
    before.sendall(sockets.chat(n=2))
    wait_until(lambda: len(served.service.status().requests) == 2)
    full.sendall(sockets.chat(n=9))  # there is a place for the first of them
    wait_until(lambda: len(served.service.status().requests) == 3)
    with pytest.raises(openai.RateLimitError):
        ask(served, n=3)
    assert len(served.service.status().requests) == 3
    served.service.hold.set()
    for one in (before, full):
        assert b" 200 " in one.recv(100)
        one.close()
    assert ask(served).choices[0].message.content == "You said: hello"


def test_a_failure_before_the_first_token_is_a_status(serve):
    with pytest.raises(openai.InternalServerError, match="fails here") as failed:
        ask(serve(fail_after=0), stream=True)
    assert failed.value.status_code == 503


def test_a_failure_in_the_middle_ends_the_stream_with_its_sentence(serve):
    served, said = serve(fail_after=3, delay=0.02), ""
    with pytest.raises(openai.APIError, match="fails here"):
        for chunk in ask(served, stream=True):
            said += chunk.choices[0].delta.content or ""
    assert "You said".startswith(said[:8])
    with pytest.raises(openai.InternalServerError, match="fails here"):
        ask(served)


def test_without_a_model_it_says_so_and_lists_none():
    server = Server(lambda: None, ServerConfig(port=0))
    server.start()
    try:
        client = openai.OpenAI(base_url=f"{server.address}/v1", api_key="none", max_retries=0)
        assert client.models.list().data == []
        with pytest.raises(openai.InternalServerError, match="no model is loaded") as none:
            client.chat.completions.create(model="x", messages=USER)
        assert none.value.status_code == 503
        assert httpx.get(f"{server.address}/health").status_code == 503
        assert httpx.get(f"{server.address}/metrics").status_code == 200
    finally:
        server.stop()


def test_a_defect_is_a_sentence_and_is_logged(serve, monkeypatch):
    served = serve()
    told = []
    served.server._shared.log = told.append
    monkeypatch.setattr(served.service, "submit", lambda *_: 1 / 0)
    with pytest.raises(openai.InternalServerError, match="an internal error"):
        ask(served)
    assert "ZeroDivisionError" in told[0]


@pytest.mark.parametrize(
    ("body", "status", "named"),
    [
        (b"{", 400, "not valid JSON"),
        (b"[]", 400, "expected an object, found a list"),
        (b"\xff", 400, "not UTF-8 at byte 0"),
        (b'{"messages": [' + b"[" * 150 + b"]" * 150 + b"]}", 400, "nests deeper"),
        (b"[" * 100_000, 400, "not valid JSON"),
        (b'{"temperature": NaN}', 400, "NaN"),
        (b'{"temperature": 1e999}', 400, "too large"),
        (b'{"seed": ' + b"9" * 5000 + b"}", 400, "not valid JSON"),
        (b'{"messages": [{"role": "user", "content": "\\ud800"}]}', 400, "surrogate"),
        (b"", 400, "not valid JSON"),
    ],
)
def test_a_bad_body_is_one_sentence(served, body, status, named):
    headers = {"content-type": "application/json"}
    made = httpx.post(f"{served.url}/v1/chat/completions", content=body, headers=headers)
    assert made.status_code == status
    error = made.json()["error"]
    assert named in error["message"] and set(error) == {"message", "type", "param", "code"}
    assert "\n" not in error["message"] and len(error["message"]) < 300


def test_addresses_and_methods_that_there_are_not(served):
    for path, method, status in (
        ("/v1/nothing", "GET", 404),
        ("/v1/chat/completions", "GET", 405),
        ("/v1/chat/completions/", "GET", 405),
        ("/../../etc/passwd", "GET", 404),
    ):
        made = httpx.request(method, f"{served.url}{path}")
        assert (made.status_code, set(made.json())) == (status, {"error"})
        assert made.headers.get("allow") == ("POST" if status == 405 else None)
        assert made.url.path.rstrip("/") in made.json()["error"]["message"]


@pytest.mark.parametrize("base", ["/v1/", "//v1", "/v1//", "/v1"])
def test_slashes_more_than_there_are_change_nothing(served, base):
    client = served.client(base_url=f"{served.url}{base}")
    assert client.chat.completions.create(model="m", messages=USER).choices
    assert client.models.list().data[0].id == "scripted"
    made = sockets.connect(served)
    path = f"{base}/chat//completions//"
    made.sendall(sockets.request(path, {"messages": USER}, "POST", "Connection: close"))
    assert sockets.read_all(made).startswith(b"HTTP/1.1 200 ")


def test_more_slashes_open_no_door(serve):
    served = serve({"api_key": "secret"})
    for path in ("//v1/models", "/v1/models/", "//health//x", "//metrics", "//page//status"):
        assert httpx.get(f"{served.url}{path}").status_code == 401
    assert httpx.get(f"{served.url}//health/").status_code == 200


@pytest.mark.parametrize(
    ("path", "meant"),
    [
        ("/chat/completions", "/v1/chat/completions"),
        ("/v1/v1/chat/completions", "/v1/chat/completions"),
        ("/openai/v1/embeddings/", "/v1/embeddings"),
        ("/models", "/v1/models"),
    ],
)
def test_an_address_beside_one_that_there_is(served, path, meant):
    made = httpx.get(f"{served.url}{path}")
    assert made.status_code == 404
    assert made.json()["error"]["message"].endswith(f": did you mean {meant}?")


@pytest.mark.parametrize("coding", ["gzip", "br", "deflate, gzip", "GZIP"])
def test_a_body_that_is_packed_is_refused_with_its_coding(served, coding):
    packed = gzip.compress(json.dumps({"messages": USER}).encode())
    headers = {"content-type": "application/json", "content-encoding": coding}
    made = httpx.post(f"{served.url}/v1/chat/completions", content=packed, headers=headers)
    assert made.status_code == 415
    assert repr(coding.lower()) in made.json()["error"]["message"]
    headers["content-encoding"] = "identity"
    plain = json.dumps({"messages": USER}).encode()
    made = httpx.post(f"{served.url}/v1/chat/completions", content=plain, headers=headers)
    assert made.status_code == 200


def test_the_form_of_an_error_is_openais(served):
    made = httpx.post(f"{served.url}/v1/chat/completions", json={})
    assert made.json() == {
        "error": {
            "message": "messages: is missing: expected a list of at least 1 item",
            "type": "invalid_request_error",
            "param": "messages",
            "code": None,
        }
    }
    assert json.loads(made.text)


def test_a_base_url_without_its_end_is_told(served):
    with pytest.raises(openai.NotFoundError, match="did you mean /v1/chat/completions"):
        client = served.client(base_url=served.url)
        client.chat.completions.create(model="scripted", messages=USER)


def test_a_defect_in_the_middle_of_a_stream_is_logged(serve, monkeypatch):
    served, logged = serve(), []
    monkeypatch.setattr(served.server._shared, "log", logged.append)
    monkeypatch.setattr(chat, "_parts", lambda delta: 1 / 0)
    with pytest.raises(Exception, match=r"peer closed|Connection|incomplete"):
        list(ask(served, stream=True))
    wait_until(lambda: logged)
    assert "ZeroDivisionError" in logged[0] and "please report it" in logged[0]
    wait_until(lambda: not served.service.status().requests)


def test_more_answers_than_there_is_room_for_have_their_turns(serve):
    served = serve(parallel=1, most_waiting=2)
    assert len(ask(served, n=16).choices) == 16


CHANGED = "the model was changed while the request waited: ask again"
DOORS = {  # what a request asks of the service, which has gone meanwhile
    "submit": ("/v1/chat/completions", {"messages": USER}),
    "embed": ("/v1/embeddings", {"input": "a"}),
    "tokenize": ("/tokenize", {"content": "a"}),
    "prompt_tokens": ("/tokenize", {"messages": USER}),
    "detokenize": ("/detokenize", {"tokens": [5]}),
    "answer_tokens": ("/inspect/cache?response=r", None),
}


@pytest.mark.parametrize("door", DOORS)
def test_a_model_that_changes_meanwhile_is_a_503_with_a_time(serve, monkeypatch, door):
    def gone(*given):
        raise UnavailableError(CHANGED)

    served, (path, body) = serve(), DOORS[door]
    monkeypatch.setattr(served.service, door, gone)
    method = "GET" if body is None else "POST"
    made = httpx.request(method, f"{served.url}{path}", json=body)
    assert (made.status_code, made.headers["retry-after"]) == (503, "5")
    assert made.json()["error"]["message"] == CHANGED


def test_an_answer_that_a_change_of_the_model_ends_is_a_503_with_a_time(serve):
    with pytest.raises(openai.InternalServerError, match="fails here") as failed:
        ask(serve(fail_after=0))
    assert failed.value.response.headers["retry-after"] == "5"
