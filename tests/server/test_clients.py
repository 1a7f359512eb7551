"""What clients sent (`tools.cross.conformance --record`), sent again: each request is answered."""

import json

import httpx2 as httpx
import pytest

from llm_lite.server.schema import IGNORED
from tests.server.recorded import FOLDER, form_of, made_of, read

CLIENTS = sorted(FOLDER.glob("*.json"))
# What of a request is not looked at here, by the client.
LEFT_OUT = {name: ["client_metadata", "tools.web_search"] for name in ("codex", "codex-mcp")}
NAMES = [
    "agents",
    "ai-sdk",
    "aider",
    "codex",
    "codex-mcp",
    "langchain",
    "llm",
    "openai",
    "opencode",
]


def functions_of(tools):
    for tool in tools:
        if tool["type"] == "function":
            yield tool.get("function", tool)
        for one in tool.get("tools", ()):  # of a namespace
            yield {**one, "name": f"{tool['name']}.{one['name']}"}


def test_none_is_missing():
    assert sorted(path.stem for path in CLIENTS) == sorted(NAMES)


@pytest.mark.parametrize("path", CLIENTS, ids=lambda path: path.stem)
def test_what_it_sent_is_answered(serve, path):
    served = serve(context=1 << 17)
    for sent in read(path):
        made = httpx.post(f"{served.url}{sent.path}", json=sent.body)
        assert made.status_code == 200, made.text
        ignored = made.headers.get(IGNORED, "")
        assert ignored.split(", ") == LEFT_OUT.get(path.stem, [""])
        if sent.body.get("stream"):
            data = [line[6:] for line in made.text.splitlines() if line.startswith("data: ")]
            assert not any("error" in json.loads(one) for one in data if one != "[DONE]")
        told, tools = served.service.requests[-1], sent.body.get("tools", [])
        functions = list(functions_of(tools))
        assert [(t.name, len(t.description)) for t in told.tools] == [
            (one["name"], len(one.get("description") or "")) for one in functions
        ]
        for spec, one in zip(told.tools, functions, strict=True):
            assert json.loads(spec.parameters) == one["parameters"]


def test_the_longest_description_is_longer_than_was_ever_allowed():
    (opencode,) = (read(path) for path in CLIENTS if path.stem == "opencode")
    described = [
        t["function"]["description"] for one in opencode for t in one.body.get("tools", ())
    ]
    assert max(map(len, described)) > 4000


def test_nothing_of_their_texts_is_kept():
    value = {"content": "Who?", "cmd": "ls", "model": "m", "x": "it's", "n": [1, None, "/tmp/a"]}
    kept = {"content": "<a text of 4>", "cmd": "<a text of 2>", "model": "m"}
    assert form_of(value) == {**kept, "x": "<a text of 4>", "n": [1, None, "<a text of 6>"]}
    for length in (1, 80, 81, 5000):
        assert len(made_of(f"<a text of {length}>")) == length
