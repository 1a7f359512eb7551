"""Requests to the server: heads, queries and bodies, through the guard to a scripted service.

No answer is a 500; a refusal is of a status that the OpenAPI document names, and has one sentence.
"""

from __future__ import annotations

import asyncio
import copy
import json
import random
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from starlette.types import Message

from llm_lite.core.errors import RequestError
from llm_lite.server.config import ServerConfig
from llm_lite.server.document import document
from llm_lite.server.routes import ENDPOINTS, make_app
from llm_lite.server.shared import Shared
from tests.fuzz.door import Case, Door, problem_of_sentence
from tests.fuzz.mutations import change_json, mutate_bytes, odd_value, to_json
from tests.server.scripted_service import ScriptedService

KEY = "a-key-of-the-fuzzer"
_MESSAGES = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": [{"type": "text", "text": "weather?"}]},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": "a", "type": "function", "function": {"name": "weather", "arguments": "{}"}}
        ],
    },
    {"role": "tool", "tool_call_id": "a", "content": "rain"},
]
_SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
_TOOLS = [{"type": "function", "function": {"name": "weather", "parameters": _SCHEMA}}]
_COMMON = {"temperature": 0.5, "top_k": 5, "stop": ["x"], "logit_bias": {"5": 1}, "seed": 3}
BODIES: tuple[tuple[str, dict[str, Any]], ...] = (
    ("/v1/chat/completions", {"messages": _MESSAGES, "tools": _TOOLS, **_COMMON}),
    (
        "/v1/chat/completions",
        {"messages": _MESSAGES[:2], "stream": True, "logprobs": True, "top_logprobs": 2, "n": 2},
    ),
    (
        "/v1/chat/completions",
        {
            "messages": _MESSAGES[:1],
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "x", "schema": _SCHEMA},
            },
        },
    ),
    ("/v1/completions", {"prompt": ["a b", "c"], "logprobs": 1, "echo": False, **_COMMON}),
    ("/v1/completions", {"prompt": [5, 6, 7], "stream": True, "max_tokens": 4}),
    (
        "/v1/responses",
        {
            "input": [
                {"role": "user", "content": [{"type": "input_text", "text": "hi"}]},
                {"type": "function_call", "call_id": "a", "name": "f", "arguments": "{}"},
                {"type": "function_call_output", "call_id": "a", "output": "rain"},
            ],
            "text": {"format": {"type": "text"}},
            "stream": True,
        },
    ),
    ("/v1/embeddings", {"input": ["a", "b c"], "encoding_format": "base64"}),
    ("/encode", {"text": "a b", "pair": "c", "fills": True}),
    ("/tokenize", {"content": "a b", "with_pieces": True}),
    ("/detokenize", {"tokens": [3, 4, 5]}),
)
QUERIES: tuple[tuple[str, dict[str, str]], ...] = (
    (
        "/inspect/attention",
        {"response": "held", "layer": "1", "heads": "0,2", "first": "1", "last": "3"},
    ),
    ("/inspect/rows", {"response": "held", "position": "2", "heads": "1.0,0.2"}),
    ("/inspect/lens", {"response": "held", "position": "2", "count": "3", "format": "npz"}),
    ("/inspect/cache", {"response": "held"}),
    ("/inspect/activations", {"response": "held", "sites": "a,b", "first": "1", "format": "npz"}),
    ("/v1/models/scripted", {}),
    ("/metrics", {}),
)


@dataclass
class Heard:
    status: int = 0
    body: bytearray = field(default_factory=bytearray)


class Asked:
    """A loop, and an application whose service is scripted."""

    def __init__(self) -> None:
        self.defects: list[str] = []
        service = ScriptedService(lambda request: "You said so.", context=256)
        config = ServerConfig(api_key=KEY, body_bytes=1 << 20, quiet_seconds=2)
        self._app = make_app(Shared(lambda: service, config, self.defects.append))
        self._loop = asyncio.new_event_loop()

    def ask(self, scope: dict[str, Any], body: bytes) -> Heard:
        heard, sent = Heard(), [{"type": "http.request", "body": body, "more_body": False}]

        async def receive() -> Message:
            if sent:
                return sent.pop()
            await asyncio.Event().wait()  # the client stays
            raise AssertionError

        async def send(message: Message) -> None:
            heard.status = message.get("status", heard.status)
            heard.body += message.get("body", b"")

        self._loop.run_until_complete(self._app(scope, receive, send))
        return heard


@cache
def asked() -> Asked:
    return Asked()


@cache
def statuses() -> frozenset[str]:
    """Of all addresses; 404 is of those that there are not."""
    paths = document(ENDPOINTS, "").get("paths", {}).values()
    return frozenset(
        {"404"}.union(*(row["responses"] for found in paths for row in found.values()))
    )


def use(case: Case) -> None:
    """RequestError, with the sentence that the client is told."""
    rng = case.rng
    scope, body = _request(rng)
    heard = asked().ask(scope, body)
    assert not asked().defects, asked().defects.pop()
    assert str(heard.status) in statuses(), heard.status
    assert KEY.encode() not in heard.body
    if heard.status >= 400:
        error = json.loads(heard.body)["error"]
        assert set(error) == {"message", "type", "param", "code"}, error
        message = error["message"]
        assert not (wrong := problem_of_sentence(message)), f"{wrong}: {message!r}"
        raise RequestError(message)


def _request(rng: random.Random) -> tuple[dict[str, Any], bytes]:
    body = b""
    if rng.random() < 0.75:
        path, value = copy.deepcopy(rng.choice(BODIES))
        body = _mutated(value, rng)
        method, query = "POST", ""
    else:
        path, given = rng.choice(QUERIES)
        method, query = "GET", _query(dict(given), rng)
    headers = [
        (b"host", b"localhost"),
        (b"authorization", f"Bearer {KEY}".encode()),
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
    ]
    if rng.random() < 0.1:
        _change_headers(headers, rng)
    if rng.random() < 0.02:
        path += rng.choice(("/", "x", "/../..", "\0", "%00", "é"))
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": query.encode("latin-1", "replace"),
        "root_path": "",
        "headers": headers,
        "client": ("127.0.0.1", 5),
        "server": ("127.0.0.1", 80),
    }, body


def _mutated(value: dict[str, Any], rng: random.Random) -> bytes:
    if rng.random() < 0.15:
        return mutate_bytes(json.dumps(value).encode(), rng)
    for _ in range(rng.choice((0, 1, 1, 2, 4))):
        change_json(value, rng)
    return to_json(value)


def _query(given: dict[str, str], rng: random.Random) -> str:
    for _ in range(rng.choice((0, 1, 1, 2))):
        name = rng.choice((*given, "more"))
        given[name] = str(odd_value(rng))[:2000]
    return "&".join(f"{name}={text}" for name, text in given.items())


def _change_headers(headers: list[tuple[bytes, bytes]], rng: random.Random) -> None:
    index = rng.randrange(len(headers))
    name, value = headers[index]
    headers[index] = (name, rng.choice((b"", b"\xff", b"x" * 40_000, mutate_bytes(value, rng))))
    if rng.random() < 0.3:
        headers.append((b"origin", rng.choice((b"null", b"http://localhost", b"\xff"))))


DOOR = Door("server", use, asked, quotes=("found ",))
