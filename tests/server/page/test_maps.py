"""Attention as bytes: each pixel is the largest of what falls into it."""

import math

import numpy as np
import pytest

from llm_lite.core.records import replace
from llm_lite.server.page import routes
from llm_lite.server.page.routes import FLOOR, pictures, scaled
from tests.asking import served_maps


def picture(client, **query):
    said = client.get("/page/maps", params=query)
    assert said.status_code == 200, said.text
    side = int(said.headers["x-side"])
    return np.frombuffer(said.content, np.uint8).reshape(-1, side, side), int(
        said.headers["x-length"]
    )


def test_a_short_map_is_whole(client, service, answered):
    name = answered("Hello there")
    found, length = picture(client, response=name, layer=1, side=256)
    exact = served_maps(service, name, 1, [0, 1, 2], 0, length)
    assert found.shape == (3, length, length)
    assert np.array_equal(found, scaled(exact))


def test_without_a_layer_it_is_the_first_that_attends(client, service, answered):
    name = answered("Hello there")
    first, length = picture(client, response=name, side=256)
    assert np.array_equal(first, scaled(served_maps(service, name, 0, [0, 1, 2], 0, length)))
    service._model = replace(service.model, recurrent_layers=(0, 1))
    found, length = picture(client, response=name, side=256)
    assert np.array_equal(found, scaled(served_maps(service, name, 2, [0, 1, 2], 0, length)))
    told = client.get("/inspect/cache", params={"response": name}).json()
    assert told["recurrent_layers"] == [0, 1] and told["layers"] == 4


def test_one_head_alone(client, service, answered):
    name = answered("Hello there")
    both, _ = picture(client, response=name, layer=1, side=64)
    one, _ = picture(client, response=name, layer=1, side=64, head=2)
    assert np.array_equal(one[0], both[2])


def test_a_long_map_keeps_the_largest(client, service, answered):
    name = answered("word " * 40)
    found, length = picture(client, response=name, layer=0, side=16)
    exact = served_maps(service, name, 0, [0, 1, 2], 0, length)
    edges = np.linspace(0, length, 17).astype(int)
    for row in range(16):
        for column in range(16):
            part = exact[:, edges[row] : edges[row + 1], edges[column] : edges[column + 1]]
            assert np.array_equal(found[:, row, column], scaled(part.max(axis=(1, 2))))


def test_what_is_held_at_once_is_bounded(service, answered, monkeypatch):
    """The same picture in small parts; none larger than it may be."""
    name = answered("word " * 30)
    whole, length = pictures(service, name, 0, [0, 1], length_of(service, name))
    sizes = []
    ask = service.ask

    def watched(response, wanted):
        sizes.append(len(wanted.heads) * (wanted.last - wanted.first) * length)
        return ask(response, wanted)

    monkeypatch.setattr(service, "ask", watched)
    monkeypatch.setattr(routes, "_MOST_NUMBERS", 10 * length)
    parts, _ = pictures(service, name, 0, [0, 1], length)
    assert np.array_equal(parts, whole)
    assert max(sizes) <= 10 * length


def test_a_very_long_map_asks_for_some_rows_a_pixel(service, answered, monkeypatch):
    name = answered("word " * 100)
    calls = []
    ask = service.ask

    def watched(*said):
        calls.append(said)
        return ask(*said)

    monkeypatch.setattr(service, "ask", watched)
    length = length_of(service, name)
    monkeypatch.setattr(routes, "_MOST_NUMBERS", 6 * length)
    found, _ = pictures(service, name, 0, [0, 1, 2], 8)
    assert len(calls) == 8
    assert found.shape == (3, 8, 8) and found[:, 7, 0].all()


def length_of(service, name):
    return len(service.answer_tokens(name).tokens)


def test_the_scale():
    values = np.array([0, FLOOR, 1.02 * math.sqrt(FLOOR), 1], np.float32)
    assert scaled(values).tolist() == [0, 0, 128, 255]


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ({"response": "nobody", "layer": 0}, 404),
        ({"response": "nobody", "layer": 4}, 400),
        ({"response": "nobody", "layer": 0, "side": 5000}, 400),
        ({"response": "nobody", "layer": 0, "head": 9}, 400),
        ({"response": "nobody", "layer": "x"}, 400),
    ],
)
def test_what_cannot_be_is_a_sentence(client, query, status):
    said = client.get("/page/maps", params=query)
    assert said.status_code == status
    assert said.json()["error"]["message"]


def test_pictures_of_all_heads_are_bounded(service, answered, monkeypatch):
    name = answered("word " * 100)
    monkeypatch.setattr(routes, "_MOST_MADE", 2 * 20 * 20)
    made, _ = pictures(service, name, 0, [0, 1], 1024)
    assert made.shape == (2, 20, 20)
