"""What is inside a response, by its id."""

import io

import httpx2 as httpx
import numpy as np
import pytest
from msgspec import convert

from llm_lite.core.inspect.attention_scores import SCORES
from llm_lite.core.inspect.expert_choices import Routing
from llm_lite.core.messages import (
    FollowToken,
    MeasureCache,
    ReadAttentionRows,
    ReadRouting,
    ReadStates,
    TokenTrace,
)
from llm_lite.core.questions.scores import ReadScores
from tests.asking import served_maps


@pytest.fixture(scope="module")
def response(served):
    made = served.client().chat.completions.create(
        model="scripted", messages=[{"role": "user", "content": "look inside"}], n=2
    )
    return made.id


def get(served, path, **query):
    return httpx.get(f"{served.url}/inspect/{path}", params=query)


def arrays(made):
    assert made.headers["content-type"] == "application/x-npz"
    return np.load(io.BytesIO(made.content), allow_pickle=False)


def test_the_cache_tells_its_tokens(served, response):
    told = get(served, "cache", response=response).json()
    assert "".join(told["texts"]).endswith("You said: look inside</s>")
    assert len(told["tokens"]) == len(told["texts"]) > told["prompt_tokens"] > 0
    assert (told["layers"], told["heads"], told["page_tokens"]) == (4, 3, 16)
    found = arrays(get(served, "cache", response=response, format="npz"))
    assert found["tokens"].tolist() == told["tokens"]
    assert found["texts"].tolist() == told["texts"]


def test_attention_is_rows_of_probabilities(served, response):
    told = get(served, "attention", response=response, layer=1, heads="0,2", first=3, last=5)
    made = np.array(told.json()["attention"])
    length = len(get(served, "cache", response=response).json()["tokens"])
    assert made.shape == (2, 2, length)
    assert np.allclose(made.sum(axis=-1), 1, atol=1e-4)
    exact = served_maps(served.service, response, 1, [0, 2], 3, 5)
    assert np.allclose(made, exact, atol=1e-6)
    url = f"{served.url}/inspect/attention?response={response}&layer=1"
    found = arrays(httpx.get(url, headers={"accept": "application/x-npz"}))
    assert found["attention"].shape == (3, length, length)
    assert np.array_equal(found["attention"][[0, 2], 3:5], exact)


@pytest.mark.parametrize(
    ("query", "asked"),
    [
        ({"heads": "1.0,3.2"}, ReadAttentionRows(4, "from", "heads", ((1, 0), (3, 2)))),
        ({"layer": 2, "direction": "to"}, ReadAttentionRows(4, "to", "layer-mean", layer=2)),
        ({"without_first": "true"}, ReadAttentionRows(4, "from", "rollout", without_first=True)),
    ],
)
def test_rows_are_those_of_a_token(served, response, query, asked):
    told = get(served, "rows", response=response, position=4, **query).json()
    exact = served.service.ask(response, asked)
    assert (told["position"], told["direction"], told["note"]) == (4, asked.direction, "")
    assert np.allclose(told["weights"], exact.weights, atol=1e-6)
    found = arrays(get(served, "rows", response=response, position=4, format="npz", **query))
    assert found["weights"].tolist() == np.array(exact.weights, np.float32).tolist()


def test_the_lens_tells_layer_by_layer(served, response):
    told = get(served, "lens", response=response, position=2, count=3).json()
    assert [layer["layer"] for layer in told["layers"]] == [0, 1, 2, 3]
    assert all(len(layer["tokens"]) == 3 for layer in told["layers"])
    found = arrays(get(served, "lens", response=response, position=2, count=3, format="npz"))
    assert found["tokens"].tolist() == [layer["tokens"] for layer in told["layers"]]
    assert found["probabilities"].shape == (4, 3)


def test_states_are_of_the_last_tokens(served, response):
    told = get(served, "states", response=response, layer=2, head=1, positions=5).json()
    exact = served.service.ask(response, ReadStates(2, 1, 5))
    length = len(get(served, "cache", response=response).json()["tokens"])
    assert (told["layer"], told["head"], told["first"]) == (2, 1, length - 5)
    for name in ("kept", "written", "norms", "of_start"):
        assert told[name] == list(getattr(exact, name)) and len(told[name]) == 5
    assert np.array_equal(told["shares"], exact.shares)
    assert told["half_lives"] == [
        {"layer": 0, "tokens": [2.0, None]},
        {"layer": 2, "tokens": [4.0, 500.0]},
    ]
    found = arrays(
        get(served, "states", response=response, layer=2, head=1, positions=5, format="npz")
    )
    assert np.array_equal(found["shares"], exact.shares) and found["shares"].dtype == np.float32
    assert found["half_life_layers"].tolist() == [0, 2] and found["first"] == length - 5
    assert found["half_lives"].tolist() == [[2.0, np.inf], [4.0, 500.0]]
    refused = get(served, "states", response=response, layer=1, head=0)
    assert refused.status_code == 400 and "no recurrent state" in refused.text


def test_experts_are_of_tokens(served, response):
    told = get(served, "experts", response=response, first=2).json()
    exact = Routing.of(served.service.ask(response, ReadRouting(2)))
    assert (told["first"], told["layers"], told["experts"]) == (2, [1, 2], 5)
    assert np.array_equal(told["chosen"], exact.chosen)
    assert np.allclose(told["shares"], exact.shares)
    found = arrays(get(served, "experts", response=response, first=2, format="npz"))
    assert np.array_equal(found["chosen"], exact.chosen) and found["chosen"].dtype == np.uint16
    assert np.array_equal(found["shares"], exact.shares)
    assert found["layers"].tolist() == [1, 2] and found["first"] == 2


def test_a_trace_is_of_one_token(served, response):
    made = get(served, "trace", response=response, position=3, layer=2, head=1)
    assert made.json()["response"] == response
    exact = served.service.ask(response, FollowToken(3, 2, 1)).trace
    assert convert(made.json()["trace"], TokenTrace) == exact
    last = len(get(served, "cache", response=response).json()["tokens"]) - 1
    found = get(served, "trace", response=response, first=2).json()["trace"]
    assert (found["position"], found["layer"], found["tokens"][0][0]) == (last, 0, last - 7)


def test_statistics_are_numbers_by_position(served, response):
    told = get(served, "statistics", response=response, what="key-norm").json()
    exact = served.service.ask(response, MeasureCache("key-norm"))
    assert told["layers"] == list(exact.layers) and told["what"] == "key-norm"
    assert np.allclose(told["values"], exact.values)
    told = get(served, "statistics", response=response, what="received").json()
    assert told["values"][0][0] is None and told["values"][1][1] is not None
    query = {"response": response, "what": "received", "format": "npz"}
    found = arrays(get(served, "statistics", **query))
    exact = served.service.ask(response, MeasureCache("received"))
    assert np.array_equal(found["values"], exact.values, equal_nan=True)
    assert found["layers"].tolist() == list(exact.layers)


def test_scores_are_of_heads(served, response):
    told = get(served, "scores", response=response).json()["scores"]
    exact = served.service.ask(response, ReadScores()).scores
    found = arrays(get(served, "scores", response=response, format="npz"))
    assert list(told) == list(SCORES) == list(found)
    for name, values in exact.items():
        assert np.allclose(told[name], values, atol=1e-6)
        assert np.array_equal(found[name], values)


def test_every_choice_can_be_looked_into(served, response):
    assert get(served, "cache", response=f"{response}.1").status_code == 200


@pytest.mark.parametrize(
    ("path", "query", "param"),
    [
        ("attention", {}, "layer"),
        ("attention", {"layer": 4}, "layer"),
        ("attention", {"layer": "x"}, "layer"),
        ("attention", {"layer": 0, "heads": "3"}, "heads"),
        ("attention", {"layer": 0, "heads": "0-2"}, "heads"),
        ("attention", {"layer": 0, "first": 5000}, "first"),
        ("attention", {"layer": 0, "first": 4, "last": 4}, "last"),
        ("attention", {"layer": 0, "last": 4000}, "last"),
        ("rows", {}, "position"),
        ("rows", {"position": 4000}, "position"),
        ("rows", {"position": 1, "heads": "0,2"}, "heads"),
        ("rows", {"position": 1, "heads": "0.2", "layer": 1}, "layer"),
        ("rows", {"position": 1, "direction": "down"}, "direction"),
        ("rows", {"position": 1, "without_first": "perhaps"}, "without_first"),
        ("lens", {"position": 4000}, "position"),
        ("lens", {"count": 0}, "count"),
        ("trace", {"position": 4000}, "position"),
        ("trace", {"head": -1}, "head"),
        ("trace", {"format": "npz"}, "format"),
        ("states", {"head": 0}, "layer"),
        ("states", {"layer": 0}, "head"),
        ("states", {"layer": 0, "head": 0, "positions": 0}, "positions"),
        ("states", {"layer": 0, "head": 0, "positions": 1449}, "positions"),
        ("states", {"layer": 0, "head": 0, "positions": 4097, "format": "npz"}, "positions"),
        ("statistics", {}, "what"),
        ("statistics", {"what": "sum"}, "what"),
        ("scores", {"layer": 1}, "layer"),
        ("cache", {"format": "xml"}, "format"),
        ("cache", {"file": "/etc/passwd"}, "file"),
    ],
)
def test_what_there_is_not_is_named(served, response, path, query, param):
    made = get(served, path, response=response, **query)
    assert made.status_code == 400
    assert made.json()["error"]["param"] == param


def test_a_response_that_is_gone_is_not_found(served):
    for path, query in (
        ("scores", {}),
        ("trace", {}),
        ("statistics", {"what": "received"}),
        ("cache", {}),
    ):
        made = get(served, path, response="chatcmpl-gone", **query)
        assert made.status_code == 404
    assert made.json()["error"]["code"] == "response_not_found"
    assert get(served, "cache").status_code == 400


def test_too_large_a_map_is_refused(serve):
    served = serve()
    made = served.client().chat.completions.create(
        model="scripted", messages=[{"role": "user", "content": "word " * 900}], max_tokens=1
    )
    refused = get(served, "attention", response=made.id, layer=0)
    assert refused.status_code == 400 and "too many at once" in refused.json()["error"]["message"]
    assert get(served, "attention", response=made.id, layer=0, format="npz").status_code == 200


def test_the_older_addresses_answer_the_same(served, response):
    for path, query in (("cache", {}), ("lens", {"count": 2}), ("attention", {"layer": 1})):
        query["response"] = response
        older = httpx.get(f"{served.url}/glass/{path}", params=query)
        assert older.status_code == 200 and older.json() == get(served, path, **query).json()
    assert httpx.get(f"{served.url}/glass/cache").status_code == 400
