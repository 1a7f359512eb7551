"""The bundled model behind the server, by OpenAI's own client: what no script can show."""

from __future__ import annotations

import json
import threading

import httpx2 as httpx
import jsonschema
import numpy as np
import openai
import pytest

from llm_lite.core.messages import EngineOptions
from llm_lite.server.config import ServerConfig
from llm_lite.server.serve import Server
from tests.children import PATIENCE
from tests.core.engine_client import Client
from tests.core.serving.clients import serve

GREEDY = {"temperature": 0, "max_tokens": 24}
QUESTIONS = ["Who are you?", "Name three rivers.", "What is a prime number?", "Tell me a joke."]


@pytest.fixture(scope="module")
def real(smollm2):
    client = Client()
    client.load(smollm2, EngineOptions(backend="cpu", context=1024))
    serve(client, parallel=4)
    server = Server(client.engine.service, ServerConfig(port=0))
    server.start()
    yield server
    server.stop()
    assert client.engine.close(10)


@pytest.fixture(scope="module")
def client(real):
    return openai.OpenAI(
        base_url=f"{real.address}/v1", api_key="none", max_retries=0, timeout=PATIENCE
    )


def ask(client, question=QUESTIONS[0], **more):
    messages = [{"role": "user", "content": question}]
    given = {"model": model_of(client), "messages": messages, **GREEDY, **more}
    return client.chat.completions.create(**given)


def model_of(client):
    return client.models.list().data[0].id


def test_greedy_answers_are_the_same_alone_and_together(client):
    alone = [ask(client, question).choices[0].message.content for question in QUESTIONS]
    assert all(len(text) > 20 for text in alone)
    together = [""] * len(QUESTIONS)

    def one(index):
        for chunk in ask(client, QUESTIONS[index], stream=True):
            together[index] += chunk.choices[0].delta.content or ""

    threads = [threading.Thread(target=one, args=(i,)) for i in range(len(QUESTIONS))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert together == alone


def test_the_same_seed_says_the_same(client):
    first, again, other = (
        ask(client, temperature=1.2, seed=seed).choices[0].message.content for seed in (3, 3, 4)
    )
    assert first == again != other


def test_likelihoods_add_up(client):
    entries = ask(client, logprobs=True, top_logprobs=5).choices[0].logprobs.content
    assert len(entries) == 24
    for entry in entries:
        assert entry.token == entry.top_logprobs[0].token  # greedy
        assert sum(np.exp(one.logprob) for one in entry.top_logprobs) <= 1 + 1e-6


def test_json_keeps_to_its_schema(client):
    schema = {
        "type": "object",
        "properties": {"name": {"type": "string", "maxLength": 20}, "age": {"type": "integer"}},
        "required": ["name", "age"],
        "additionalProperties": False,
    }
    form = {"type": "json_schema", "json_schema": {"name": "person", "schema": schema}}
    made = ask(client, "Make up a person.", response_format=form, max_tokens=200)
    jsonschema.validate(json.loads(made.choices[0].message.content), schema)


def test_a_demanded_call_has_its_arguments(client):
    parameters = {
        "type": "object",
        "properties": {"unit": {"enum": ["celsius", "kelvin"]}},
        "required": ["unit"],
        "additionalProperties": False,
    }
    tools = [{"type": "function", "function": {"name": "weather", "parameters": parameters}}]
    made = ask(client, tools=tools, tool_choice="required", max_tokens=100)
    [call] = made.choices[0].message.tool_calls
    assert call.function.name == "weather"
    jsonschema.validate(json.loads(call.function.arguments), parameters)


@pytest.mark.parametrize("seed", range(6))
def test_beside_functions_the_answer_keeps_to_its_schema_or_is_a_call(client, seed):
    tree = {
        "type": "object",
        "properties": {"name": {"$ref": "#/$defs/word"}, "n": {"enum": [1, 2]}},
        "required": ["name", "n"],
        "additionalProperties": False,
        "$defs": {"word": {"type": "string", "maxLength": 6, "pattern": "^[a-z]+$"}},
    }
    tools = [{"type": "function", "function": {"name": "weather", "parameters": tree}}]
    form = {"type": "json_schema", "json_schema": {"name": "tree", "schema": tree}}
    sampled = {"temperature": 1.5, "seed": seed, "max_tokens": 100}
    made = ask(client, "Call weather.", tools=tools, response_format=form, **sampled)
    message = made.choices[0].message
    said = message.content
    for call in message.tool_calls or ():
        assert (call.function.name, said) == ("weather", None)
        said = call.function.arguments
    jsonschema.validate(json.loads(said), tree)


def test_one_of_as_many_functions_as_may_be_is_called(smollm2):
    """Each with a schema of its own, all of them in one grammar and one prompt."""
    schemas = {
        f"t{number}": {
            "type": "object",
            "properties": {"n": {"enum": [number]}},
            "required": ["n"],
            "additionalProperties": False,
        }
        for number in range(128)
    }
    tools = [
        {"type": "function", "function": {"name": name, "parameters": schema}}
        for name, schema in schemas.items()
    ]
    engine = Client()
    engine.load(smollm2, EngineOptions(backend="cpu", context=8192))
    serve(engine, parallel=1)
    server = Server(engine.engine.service, ServerConfig(port=0))
    server.start()
    url = f"{server.address}/v1"
    client = openai.OpenAI(base_url=url, api_key="none", max_retries=0, timeout=PATIENCE)
    for choice in ("required", {"type": "function", "function": {"name": "t77"}}):
        made = ask(client, tools=tools, tool_choice=choice, max_tokens=60)
        [call] = made.choices[0].message.tool_calls
        jsonschema.validate(json.loads(call.function.arguments), schemas[call.function.name])
        assert choice == "required" or call.function.name == "t77"
    with pytest.raises(openai.BadRequestError, match="tools"):
        ask(client, tools=[*tools, tools[0]], tool_choice="required")
    server.stop()
    assert engine.engine.close(10)


def test_a_prefix_is_found_in_the_cache(client):
    long = "Count the words of this sentence. " * 40
    ask(client, long, max_tokens=1)
    usage = ask(client, long + "Now!", max_tokens=1).usage
    assert 128 <= usage.prompt_tokens_details.cached_tokens < usage.prompt_tokens


def test_biases_stop_strings_and_grammars_act(client):
    banned = ask(client, max_tokens=1).choices[0].message.content
    token = httpx.post(
        f"{client.base_url}".removesuffix("/v1/") + "/tokenize", json={"content": banned}
    ).json()["tokens"][0]
    assert ask(client, max_tokens=1, logit_bias={token: -100}).choices[0].message.content != banned
    whole = ask(client).choices[0].message.content
    stop = whole.split()[3]
    cut = ask(client, stop=stop).choices[0]
    assert cut.message.content == whole.partition(stop)[0] and cut.finish_reason == "stop"
    grammar = {"grammar": 'root ::= "yes" | "no"'}
    assert ask(client, extra_body=grammar).choices[0].message.content in ("yes", "no")


def test_vectors_say_what_is_alike(client):
    texts = ["A cat sleeps.", "The cat is sleeping.", "Stock markets fell sharply."]
    made = client.embeddings.create(model=model_of(client), input=texts)
    cat, same, stocks = (np.array(one.embedding) for one in made.data)
    assert np.linalg.norm(cat) == pytest.approx(1, abs=1e-4)
    assert cat @ same > cat @ stocks


def test_maps_and_lens_are_of_what_was_said(real, client):
    made = ask(client)

    def look(path, **query):
        url = f"{real.address}/inspect/{path}"
        return httpx.get(url, params={"response": made.id, **query}).json()

    held = look("cache")
    assert (
        "".join(held["texts"][held["prompt_tokens"] :])[:20] == made.choices[0].message.content[:20]
    )
    rows = np.array(look("attention", layer=3, first=10, last=13)["attention"])
    assert rows.shape == (held["heads"], 3, len(held["tokens"]))
    assert np.allclose(rows.sum(axis=-1), 1, atol=1e-3) and (rows[:, 0, 11:] == 0).all()
    last = look("lens", position=held["prompt_tokens"] - 1, count=1)["layers"][-1]
    assert last["tokens"][0] == held["tokens"][held["prompt_tokens"]]


@pytest.mark.parametrize(
    ("more", "named"),
    [
        ({"question": "word " * 3000}, "context"),
        ({"extra_body": {"grammar": "root ::= ("}}, "grammar"),
        ({"logit_bias": {"999999": 1}}, "token 999999"),
        (
            {
                "response_format": {
                    "type": "json_schema",
                    "json_schema": {"name": "x", "schema": {"type": "nonsense"}},
                }
            },
            "schema",
        ),
    ],
)
def test_what_the_model_cannot_is_a_sentence(client, more, named):
    with pytest.raises(openai.BadRequestError, match=named):
        ask(client, **more)


@pytest.mark.parametrize(
    ("made_for", "named"),
    [
        ({"model": "gemma"}, "interventions: they were made for gemma, and the model is"),
        ({"weights": "0123456789abcdef"}, "interventions: they were made for weights 0123456789ab"),
    ],
)
def test_interventions_of_another_model_are_refused(client, made_for, named):
    head = {"kind": "scale", "site": "layers.3.attention.heads", "unit": 5, "factor": 0}
    with pytest.raises(openai.BadRequestError, match=named):
        ask(client, extra_body={"interventions": {"changes": [head], **made_for}})


def test_a_stream_that_is_left_gives_its_place_back(real, client):
    streams = [ask(client, stream=True, max_tokens=900) for _ in range(4)]
    for stream in streams:
        next(iter(stream))
        stream.close()
    assert ask(client).choices[0].message.content


def test_a_prompt_that_is_too_long_has_the_code_that_editors_know(client):
    for words in (2_000, 400_000):  # by its tokens, by its bytes
        with pytest.raises(openai.BadRequestError, match="shorten it") as refused:
            ask(client, "word " * words)
        assert refused.value.code == "context_length_exceeded"
