"""The OpenAPI document is true: what it says is what the server takes and gives."""

from typing import Annotated, Any, Literal

import httpx2 as httpx
import pytest
from jsonschema import Draft202012Validator
from msgspec import Meta

from llm_lite.core.checked import CheckError
from llm_lite.server.document import document
from llm_lite.server.openai.request import (
    Prompts,
    TokenLimit,
    WithoutCall,
    WithoutFlag,
    WithoutList,
    WithoutNumber,
    WithoutObject,
    WithoutText,
)
from llm_lite.server.openai.sampling import OptionText, OptionTexts, Seed
from llm_lite.server.openai.tools import ToolChosen, Whether
from llm_lite.server.routes import ENDPOINTS
from llm_lite.server.schema import components, read

CHAT = {"messages": [{"role": "user", "content": "hello"}]}


@pytest.fixture(scope="module")
def told(served):
    return httpx.get(f"{served.url}/openapi.json").json()


def validator(told, schema):
    return Draft202012Validator({**schema, "components": told["components"]})


def operation(told, path, method="post"):
    return told["paths"][path][method]


def given_schema(told, path, method="post"):
    return operation(told, path, method)["responses"]["200"]["content"]["application/json"][
        "schema"
    ]


def test_every_address_stands_in_it(told):
    paths = {(path, method) for path, found in told["paths"].items() for method in found}
    assert ("/v1/models/{model}", "get") in paths and len(paths) == len(ENDPOINTS)
    assert told["openapi"] == "3.1.0" and told == document(ENDPOINTS, told["info"]["version"])


def test_its_schemas_are_valid(told):
    for schema in told["components"]["schemas"].values():
        Draft202012Validator.check_schema(schema)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/chat/completions", CHAT),
        ("/v1/chat/completions", {**CHAT, "logprobs": True, "top_logprobs": 2, "n": 2}),
        ("/v1/completions", {"prompt": "x", "logprobs": 1}),
        ("/v1/responses", {"input": "x"}),
        ("/v1/embeddings", {"input": ["x", "y"]}),
        ("/v1/embeddings", {"input": "x", "encoding_format": "base64"}),
        ("/tokenize", {"content": "x", "with_pieces": True}),
        ("/detokenize", {"tokens": [3, 4]}),
    ],
)
def test_answers_are_as_it_says(served, told, path, body):
    made = httpx.post(f"{served.url}{path}", json=body)
    assert made.status_code == 200
    validator(told, given_schema(told, path)).validate(made.json())


def test_what_can_be_looked_up_is_as_it_says(served, told):
    made = httpx.post(f"{served.url}/v1/chat/completions", json=CHAT).json()
    for path, query in (
        ("/inspect/cache", {}),
        ("/inspect/lens", {"count": 2}),
        ("/inspect/states", {"layer": 2, "head": 0}),
        ("/inspect/attention", {"layer": 1}),
        ("/inspect/rows", {"position": 1, "layer": 1}),
    ):
        found = httpx.get(f"{served.url}{path}", params={"response": made["id"], **query})
        validator(told, given_schema(told, path, "get")).validate(found.json())
    for path in ("/v1/models", "/health"):
        found = httpx.get(f"{served.url}{path}").json()
        validator(told, given_schema(told, path, "get")).validate(found)


BODIES = [
    ({}, True),
    ({"temperature": 0.5, "top_k": 5, "seed": -1, "stop": ["a"]}, True),
    ({"temperature": None, "tools": None}, True),
    ({"temperature": 101}, False),
    ({"temperature": True}, False),
    ({"top_k": 1.5}, False),
    ({"top_k": 3.0}, True),
    ({"n": 0}, False),
    ({"stop": [""]}, False),
    ({"stop": 3}, False),
    ({"unknown": 1}, True),
    ({"ignore_eos": True}, False),
    ({"ignore_eos": False, "min_tokens": 0, "guided_json": None, "stop_token_ids": []}, True),
    ({"min_tokens": 5}, False),
    ({"min_tokens": False}, False),
    ({"stream_options": {"continuous_usage_stats": True}}, True),
    ({"logit_bias": {"a": 1}}, False),
    ({"logit_bias": {"1": 101}}, False),
    ({"logit_bias": {"1\n": 1}}, False),
    ({"max_tokens": 0}, False),
    ({"max_tokens": -1}, True),
    ({"max_tokens": 5.0}, True),
    ({"seed": (1 << 64) - 1}, True),
    ({"seed": 1 << 64}, False),
    ({"n": None, "stream": None, "parallel_tool_calls": None, "logprobs": None}, True),
    ({"messages": None}, False),
    ({"stop": "x" * 1001}, False),
    ({"function_call": "none"}, True),
    ({"function_call": "auto"}, False),
    ({"messages": []}, False),
    ({"messages": [{"role": "nobody", "content": "x"}]}, False),
    ({"messages": [{"role": "user", "content": "x", "extra": 1}]}, True),
    ({"tools": [{"type": "function"}]}, False),
    ({"tool_choice": "often"}, False),
    ({"response_format": {"type": "yaml"}}, False),
]


@pytest.mark.parametrize(("more", "valid"), BODIES)
def test_the_document_and_the_check_of_a_request_agree(served, told, more, valid):
    body = {**CHAT, **more}
    content = operation(told, "/v1/chat/completions")["requestBody"]["content"]
    schema = content["application/json"]["schema"]
    assert validator(told, schema).is_valid(body) == valid
    made = httpx.post(f"{served.url}/v1/chat/completions", json=body)
    assert made.status_code == (200 if valid else 400)


def test_every_kind_reads_what_its_schema_allows():
    samples = [None, True, False, 0, -1, 1, 2, 2.0, 2.5, 1e300, 1 << 64, "", "a", "abc", "none"]
    samples += [[], ["a"], [1], [[1]], [[]], ["a", 1], {}, {"a": 1}, {"1": 1}, {"1": 101}]
    for kind in (
        str,
        Annotated[str, Meta(min_length=1, max_length=2)],
        Annotated[str, Meta(pattern="^[a-c]+$")],
        Literal["a", "b"],
        Annotated[float, Meta(ge=0, le=2)],
        Annotated[int, Meta(ge=0, le=5)],
        bool,
        bool | None,
        Any,
        dict[str, Any],
        Annotated[list[str], Meta(min_length=1, max_length=2)],
        Annotated[dict[str, Annotated[int, Meta(ge=0)]], Meta(max_length=1)],
        OptionText | OptionTexts | None,
        Whether | ToolChosen | None,
        Prompts,
        TokenLimit,
        Seed,
        *(WithoutObject, WithoutList, WithoutText, WithoutFlag, WithoutNumber, WithoutCall),
    ):
        (schema,), named = components([kind])
        check = Draft202012Validator({**schema, "components": {"schemas": named}})
        for sample in samples:
            try:
                read(kind, sample)
                taken = True
            except CheckError:
                taken = False
            assert taken == check.is_valid(sample), (kind, sample)


def test_statuses_are_those_that_are_documented(served, told):
    for path, found in told["paths"].items():
        for method, row in found.items():
            for sent in ({}, {"json": {}}, {"content": b"x"}):
                made = httpx.request(method, f"{served.url}{path.replace('{model}', 'x')}", **sent)
                assert str(made.status_code) in row["responses"], (path, made.text)
