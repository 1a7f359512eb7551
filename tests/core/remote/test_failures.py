"""What servers do wrong is one sentence; what was said until then stays."""

from __future__ import annotations

import itertools
import json
import math
import re
import time
from typing import Any

import pytest

from llm_lite.core import handles
from llm_lite.core.errors import RequestError
from llm_lite.core.hub.remote import heads
from llm_lite.core.messages import Cancel, Event, Generate, GenerationFinished
from llm_lite.core.messages.remote import ApiKey
from llm_lite.core.remote import answer as answer_module
from llm_lite.core.remote import client as client_module
from llm_lite.core.remote import sse
from llm_lite.core.remote.address import read_address, read_key
from llm_lite.core.remote.client import Client, Exchange
from llm_lite.core.remote.connecting import connect
from llm_lite.core.remote.failures import RemoteError, RemoteStatusError, retry_after
from llm_lite.core.remote.stream_parser import StreamParser
from llm_lite.core.remote.streamed_calls import MOST_ARGUMENTS
from tests.core.remote.servers import ANSWER, KEY, Fault, scripted
from tests.core.remote.test_answers import (
    ASKED,
    PATIENCE,
    answer_of,
    engine_of,
    events_in,
    events_of,
    finished,
    problem_in,
    said,
)


@pytest.mark.parametrize(
    ("fault", "sentence"),
    [
        ("cut", "was cut off before its end"),
        ("500 in the middle", "broke off: CUDA out of memory"),
        ("not JSON", "sends what is not JSON in the middle of an answer"),
        ("endless line", "sends a line without an end"),
    ],
)
def test_an_answer_that_breaks_keeps_what_was_said(fault: Fault, sentence: str) -> None:
    with scripted("vllm", fault=fault) as server:
        events = answer_of(server)
    assert sentence in problem_in(events) and "\n" not in problem_in(events)
    assert said(events) == "The sky is blue"


def test_an_answer_without_an_end_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answer_module, "MOST_CHARACTERS", 12)
    with scripted("vllm") as server:
        events = answer_of(server)
    assert "an answer without an end" in problem_in(events)
    assert said(events).startswith("The sky") and len(said(events)) <= 12


def test_an_answer_of_too_many_tokens_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answer_module, "MOST_TOKENS", 3)
    with scripted("vllm") as server:
        events = answer_of(server)
    assert "an answer without an end, expected at most 3 tokens" in problem_in(events)
    assert said(events) == "".join(ANSWER[:3])


@pytest.mark.parametrize("what", ["tokens", "progress", "silence"])
def test_a_flood_waits_to_be_read_and_can_be_stopped(
    what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handles, "MOST_UNREAD", 16)
    event = {
        "tokens": {"choices": [{"delta": {"content": "a"}}]},
        "progress": {"prompt_progress": {"total": 9, "processed": 1}},
        "silence": {"choices": []},
    }[what]
    with scripted("llama-server") as server:
        server.events = lambda body: itertools.repeat(event)  # type: ignore[method-assign]
        engine = engine_of(server)
        answer = engine.submit(Generate(ASKED))
        read: list[Event] = []
        while len(read) < 200 and what != "silence":
            more = engine.wait(PATIENCE)
            assert 0 < len(more) <= 16
            read += events_in(more)
        while not server.chats:
            time.sleep(0.01)
        engine.submit(Cancel(answer.command))
        while not any(isinstance(event, GenerationFinished) for event in read):
            more = engine.wait(PATIENCE)
            assert more
            read += events_in(more)
        assert engine.close(PATIENCE) and len(read) < 300
    assert finished(read).stop_reason == "stopped"


def test_arguments_without_an_end_are_cut() -> None:
    parser = StreamParser("host")
    row = {"index": 0, "function": {"name": "f", "arguments": "[" * (1 << 18)}}
    event = json.dumps({"choices": [{"delta": {"tool_calls": [row]}}]})
    for _ in range(8):
        assert list(parser.feed(event)) == []
    (call,) = parser.calls()
    assert call.count("[") == MOST_ARGUMENTS


def test_invalid_utf8_is_told_and_does_not_end_the_answer() -> None:
    with scripted("vllm", fault="invalid UTF-8") as server:
        events = answer_of(server)
    end = finished(events)
    assert end.stop_reason == "end" and "no UTF-8" in end.message
    assert said(events).count("\ufffd") == 2 and said(events).endswith("scattering.")


def test_a_server_that_falls_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "FIRST_SECONDS", 0.3)
    with scripted("vllm", fault="slow") as server:
        events = answer_of(server)
    assert "has sent nothing for 0 s" in problem_in(events) and said(events)


@pytest.mark.parametrize(
    ("status", "headers", "sentence"),
    [
        (401, {}, "wants a key (401): as the test wants"),
        (404, {}, "has no /v1/chat/completions (404): as the test wants"),
        (429, {"Retry-After": "7"}, "too much to do (429): as the test wants; try again in 7 s"),
        (429, {}, "try again later"),
        (500, {}, "failed (500): as the test wants"),
        (302, {"Location": "http://evil.example/x"}, "sends us on to http://evil.example/x"),
    ],
)
def test_refusals(status: int, headers: dict[str, str], sentence: str) -> None:
    with scripted("vllm", status=status, headers=headers) as server:
        events = answer_of(server)
    assert sentence in problem_in(events) and not said(events)


def test_after_a_refusal_the_next_answer_comes() -> None:
    with scripted("vllm", status=500) as server:
        engine = engine_of(server)
        assert "failed (500)" in problem_in(events_of(engine, Generate(ASKED)))
        server.status = 0
        assert finished(events_of(engine, Generate(ASKED))).stop_reason == "end"
        engine.close()


def test_a_key_that_is_refused_stands_in_no_sentence() -> None:
    with scripted("vllm", key="another") as server, pytest.raises(RemoteStatusError) as error:
        connect(Client(read_address(server.url), ApiKey(KEY)), Exchange())
    assert "refuses the key (401)" in str(error.value) and KEY not in str(error.value)


def test_a_head_that_comes_byte_by_byte(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = r"takes more than \d+ s to send the head of its answer"
    with scripted("vllm") as server:
        engine = engine_of(server)
        monkeypatch.setattr(heads, "MOST_SECONDS", 0.2)
        server.slow_head = 0.05
        assert re.search(slow, problem_in(events_of(engine, Generate(ASKED))))
        with pytest.raises(RemoteError, match=slow):
            connect(Client(read_address(server.url), ApiKey()), Exchange())
        engine.close()


def test_nobody_there() -> None:
    with scripted("vllm") as server:
        url = server.url
    with pytest.raises(RemoteError, match="cannot be reached"):
        connect(Client(read_address(url), ApiKey()), Exchange())


@pytest.mark.parametrize(
    ("told", "sentence"),
    [
        ({"data": []}, "has no model"),
        ({"data": "x"}, "another JSON than a list of models"),
        (["x"], "another JSON than a list of models"),
        ({"data": [1, {"id": 3}]}, "has no model"),
    ],
)
def test_what_is_no_list_of_models(told: Any, sentence: str) -> None:
    with scripted("vllm") as server:
        server.get = lambda path: told  # type: ignore[method-assign]
        with pytest.raises(RemoteError, match=sentence):
            connect(Client(read_address(server.url), ApiKey()), Exchange())


def test_events_of_other_kinds_are_no_defect() -> None:
    odd: list[Any] = [
        {"choices": [{"delta": {"content": 5, "tool_calls": "x"}, "logprobs": [1]}]},
        {"choices": {"a": 1}, "usage": [], "timings": 3},
        {"choices": [{"delta": {"content": "yes"}, "logprobs": {"content": [
            {"token": None, "bytes": [999], "logprob": "x", "top_logprobs": [None, {}]}
        ]}}]},
        {"choices": [{"delta": None, "finish_reason": "stop"}], "usage": {"prompt_tokens": -5}},
    ]  # fmt: skip
    with scripted("vllm") as server:
        server.events = lambda body: iter(odd)  # type: ignore[method-assign]
        events = answer_of(server)
    assert said(events) == "yes" and finished(events).stop_reason == "end"


def test_numbers_that_no_float_holds_are_no_numbers() -> None:
    digits = "9" * 400
    odd = (
        '{"choices": [{"index": 0, "delta": {"content": "yes"}, "logprobs": {"content": '
        f'[{{"token": "yes", "id": {digits}, "logprob": -{digits}}}]}}}}], '
        f'"timings": {{"cache_n": {digits}, "prompt_per_second": {digits}}}}}'
    )
    end = f'{{"choices": [{{"finish_reason": "stop"}}], "usage": {{"prompt_tokens": {digits}}}}}'
    with scripted("vllm") as server:
        server.events = lambda body: map(json.loads, (odd, end))  # type: ignore[method-assign]
        events = answer_of(server)
    assert said(events) == "yes" and finished(events).stop_reason == "end"
    assert finished(events).stats.prompt_tokens == 0


def test_what_is_no_json_is_not_sent() -> None:
    with scripted("vllm") as server:
        client = Client(read_address(server.url), ApiKey())
        for value in (math.nan, math.inf, 10**5000):
            with pytest.raises(RemoteError, match=r"what is asked of 127.0.0.1:\d+ is no JSON"):
                client.post_json("/tokenize", {"value": value}, Exchange())
        assert server.asked == []


def test_lines_have_a_limit_of_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "SLOWEST_LINE", 0.0)

    def pieces() -> Any:
        for _ in range(3):
            yield b"a"
            time.sleep(0.01)

    with pytest.raises(RemoteError, match="to send a line"):
        list(sse.EventReader("host").read(pieces()))


def test_events_however_they_are_cut() -> None:
    raw = 'data: {"a": "하늘"}\r\n\r\n: ping\n\ndata: one\ndata: two\n\ndata: last'.encode()
    for size in (1, 3, 100):
        pieces = [raw[at : at + size] for at in range(0, len(raw), size)]
        found = list(sse.EventReader("host").read(pieces))
        assert found == ['{"a": "하늘"}', "one\ntwo", "last"]


@pytest.mark.parametrize(
    ("typed", "base"),
    [
        ("localhost:8000", "http://localhost:8000"),
        ("http://gpu-box:8000/v1/", "http://gpu-box:8000"),
        ("https://example.com/llm/v1", "https://example.com/llm"),
        ("[::1]:8080", "http://[::1]:8080"),
    ],
)
def test_addresses(typed: str, base: str) -> None:
    assert read_address(typed).base == base


@pytest.mark.parametrize(
    "typed", ["", "ftp://x", "http://", "a b", "http://u:secret@x", "http://x?k=1", "x:99999"]
)
def test_what_is_no_address(typed: str) -> None:
    with pytest.raises(RequestError) as error:
        read_address(typed)
    assert "secret" not in str(error.value)


def test_what_is_no_key() -> None:
    for text in ("with space", "a\nb", "ключ", "x" * 5000):
        with pytest.raises(RequestError):
            read_key(text)


def test_retry_after() -> None:
    assert retry_after("3") == 3
    assert retry_after("Wed, 21 Oct 2015 07:28:00 GMT") == 0
    assert retry_after("soon") is None
