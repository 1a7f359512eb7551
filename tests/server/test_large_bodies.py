"""What a large body comes to is made in a thread: no stream waits for it."""

import asyncio

import httpx2 as httpx
import pytest

from llm_lite.core.tools.kept_schema import left_to_the_model
from llm_lite.server import call
from llm_lite.server.openai import chat, chat_request, completions, responses, responses_request
from llm_lite.server.openai import tokens as token_counts
from llm_lite.server.schema import IGNORED
from tests.children import PATIENCE

LARGE = {"metadata": {"note": "word " * (call._READ_AT_ONCE // 5)}}
MESSAGES = [{"role": "user", "content": "hello"}]
REQUESTS = {
    "/v1/chat/completions": {"messages": MESSAGES, "max_tokens": 2},
    "/v1/responses": {"input": "hello", "max_output_tokens": 2},
    "/v1/completions": {"prompt": "hello", "max_tokens": 2},
    "/tokenize": {"messages": MESSAGES},
}
PREPARED = {
    "/v1/chat/completions": [(chat, "chat_plan"), (chat_request, "messages_of")],
    "/v1/responses": [
        (responses, "response_plan"),
        (responses_request, "_messages"),
        (responses, "_frame"),
    ],
    "/v1/completions": [(completions, "_requests")],
    "/tokenize": [(token_counts, "tool_plan"), (token_counts, "messages_of")],
}


def is_on_the_loop():
    try:
        return asyncio.get_running_loop() is not None
    except RuntimeError:
        return False


@pytest.fixture
def on_the_loop(monkeypatch):
    """Whether each function ran on the loop's thread, by its name."""
    found = {}

    def note(place, name):
        function = getattr(place, name)

        def noted(*given, **named):
            found.setdefault(name, set()).add(is_on_the_loop())
            return function(*given, **named)

        monkeypatch.setattr(place, name, noted)

    for place, name in {row for rows in PREPARED.values() for row in rows}:
        note(place, name)
    note(responses, "json_text")
    return found


def post(served, path, **more):
    return httpx.post(served.url + path, json=REQUESTS[path] | more, timeout=PATIENCE)


@pytest.mark.parametrize("path", REQUESTS)
def test_large_bodies_are_prepared_in_a_thread(served, on_the_loop, path):
    assert post(served, path, **LARGE).status_code == 200
    assert on_the_loop == {name: {False} for _, name in PREPARED[path]}


def test_small_ones_are_prepared_at_once(served, on_the_loop):
    for path in ("/v1/chat/completions", "/v1/responses", "/v1/completions"):
        assert post(served, path).status_code == 200
        assert all(on_the_loop[name] == {True} for _, name in PREPARED[path])


def test_what_is_large_in_a_stream_is_written_in_a_thread(served, on_the_loop):
    """The first events and the last one have all that the request declares."""
    declared = {"type": "function", "name": "f", "description": "d" * 200_000, "parameters": {}}
    written = []
    for tools in ([declared], []):
        on_the_loop.pop("json_text", None)
        answer = post(served, "/v1/responses", stream=True, tools=tools)
        assert answer.text.count("d" * 200_000) == 3 * len(tools)
        written.append(on_the_loop["json_text"])
    assert written == [{True, False}, {True}]  # what is said in between is small


def test_schemas_of_large_bodies_are_looked_through_in_a_thread(served, monkeypatch):
    looked = []

    def noted(schema):
        looked.append(is_on_the_loop())
        return left_to_the_model(schema)

    monkeypatch.setattr(chat_request, "left_to_the_model", noted)
    schema = {"type": "object", "properties": {"a": {"type": "array", "uniqueItems": True}}}
    form = {"type": "json_schema", "json_schema": {"name": "n", "schema": schema}}
    named = []
    for large in (LARGE, {}):
        answer = post(served, "/v1/chat/completions", response_format=form, **large)
        assert answer.status_code == 200
        named.append(answer.headers[IGNORED])
    assert looked == [False, True] and named == ["response_format.uniqueItems"] * 2


def test_what_is_wrong_with_a_large_body_is_told(served):
    answer = post(served, "/v1/chat/completions", top_logprobs=2, **LARGE)
    assert answer.status_code == 400 and answer.json()["error"]["param"] == "top_logprobs"
