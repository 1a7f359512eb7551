"""Fields of llama.cpp's server that change an answer: done here too, or refused in a sentence."""

import json

import httpx2 as httpx
import pytest

MESSAGES = {"messages": [{"role": "user", "content": "hello"}]}
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
BODIES = {
    "/v1/chat/completions": MESSAGES,
    "/v1/completions": {"prompt": "hello"},
    "/v1/responses": {"input": "hello"},
}


def ask(served, path, **more):
    return httpx.post(f"{served.url}{path}", json={**BODIES[path], **more})


@pytest.mark.parametrize("path", BODIES)
def test_a_schema_at_the_top_is_kept(served, path):
    answer = ask(served, path, json_schema=SCHEMA)
    assert answer.status_code == 200 and '\\"a\\": 7' in answer.text
    assert json.loads(served.service.requests[-1].sampling.json_schema) == SCHEMA
    assert "llm-lite-ignored-fields" not in answer.headers


@pytest.mark.parametrize("path", BODIES)
def test_an_empty_schema_is_any_json(served, path):
    assert ask(served, path, json_schema={}).status_code == 200
    assert served.service.requests[-1].sampling.json_schema == "{}"


def test_texts_have_a_response_format_too(served):
    for form in (
        {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}},
        {"type": "json_object", "schema": SCHEMA},
    ):
        ask(served, "/v1/completions", response_format=form)
        assert json.loads(served.service.requests[-1].sampling.json_schema) == SCHEMA


REFUSED = [
    ("/v1/chat/completions", {"json_schema": SCHEMA, "grammar": 'root ::= "a"'}, "grammar"),
    (
        "/v1/chat/completions",
        {"json_schema": SCHEMA, "response_format": {"type": "json_object"}},
        "json_schema",
    ),
    ("/v1/chat/completions", {"json_schema": "{}"}, "json_schema"),
    ("/v1/chat/completions", {"grammar_lazy": True}, "grammar_lazy"),
    ("/v1/chat/completions", {"grammar_triggers": [{"type": 1, "value": "x"}]}, "grammar_triggers"),
    ("/v1/chat/completions", {"mirostat": 1}, "mirostat"),
    ("/v1/completions", {"json_schema": SCHEMA, "grammar": 'root ::= "a"'}, "grammar"),
    (
        "/v1/completions",
        {"json_schema": SCHEMA, "response_format": {"type": "json_object"}},
        "json_schema",
    ),
    ("/v1/responses", {"json_schema": SCHEMA, "grammar": 'root ::= "a"'}, "grammar"),
    (
        "/v1/responses",
        {"json_schema": SCHEMA, "text": {"format": {"type": "json_object"}}},
        "json_schema",
    ),
    ("/v1/responses", {"response_format": {"type": "json_object"}}, "response_format"),
]


@pytest.mark.parametrize(("path", "more", "param"), REFUSED)
def test_what_cannot_be_is_named(served, path, more, param):
    answer = ask(served, path, **more)
    assert answer.status_code == 400
    error = answer.json()["error"]
    assert error["param"] == param and error["message"].startswith(param)


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/completions"])
def test_the_limit_by_its_other_name(served, path):
    for given, expected in (({"n_predict": 2}, 2), ({"n_predict": -1}, 4096)):
        assert ask(served, path, **given).status_code == 200
        assert served.service.requests[-1].sampling.max_new_tokens == expected
    ask(served, path, n_predict=2, max_tokens=3)
    assert served.service.requests[-1].sampling.max_new_tokens == 3


@pytest.mark.parametrize(
    ("given", "tau"),
    [
        ({"mirostat": 0, "mirostat_tau": 4.0}, 0.0),
        ({"mirostat": 2, "mirostat_tau": 4.0}, 4.0),
        ({"mirostat": 2}, 5.0),
        ({"mirostat_tau": 4.0}, 4.0),
        ({}, 0.0),
    ],
)
def test_mirostat_is_off_where_it_is_said_to_be(served, given, tau):
    assert ask(served, "/v1/chat/completions", **given).status_code == 200
    assert served.service.requests[-1].sampling.mirostat_tau == tau


def test_breakers_have_two_names(served):
    ask(served, "/v1/chat/completions", dry_sequence_breakers=["a"])
    assert served.service.requests[-1].sampling.dry_breakers == ("a",)


@pytest.mark.parametrize("path", BODIES)
@pytest.mark.parametrize(
    ("given", "option", "meant"),
    [  # as llama.cpp's server documents each; vLLM has those of seed and top_k, KoboldCpp of seed
        ({"seed": -1}, "seed", None),
        ({"top_k": -1}, "top_k", 0),
        ({"repeat_last_n": -1}, "penalty_window", 1 << 30),
        ({"penalty_window": -1}, "penalty_window", 1 << 30),
        ({"repeat_last_n": 0}, "penalty_window", 0),
        ({"dry_penalty_last_n": -1}, "dry_window", 1 << 30),
        ({"dry_penalty_last_n": 32}, "dry_window", 32),
        ({"max_thinking_tokens": -1}, "max_thinking_tokens", 0),
        ({"seed": -2}, "seed", (1 << 64) - 2),
        ({"seed": -1.0}, "seed", None),
    ],
)
def test_minus_one_is_all_or_none_chosen(served, path, given, option, meant):
    assert ask(served, path, **given).status_code == 200
    assert getattr(served.service.requests[-1].sampling, option) == meant


def test_several_answers_to_a_seed_of_minus_one_have_no_seed_either(served):
    assert ask(served, "/v1/chat/completions", seed=-1, n=3).status_code == 200
    assert [one.sampling.seed for one in served.service.requests[-3:]] == [None] * 3


@pytest.mark.parametrize("given", [{"top_k": -2}, {"repeat_last_n": -2}, {"min_p": -1}])
def test_what_no_server_takes_is_refused(served, given):
    assert ask(served, "/v1/chat/completions", **given).status_code == 400
