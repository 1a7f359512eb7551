"""Answers of a hub with values of any kind in any place: what is shown is plain, or a sentence."""

import copy
import json
import random

import pytest

from llm_lite.core.errors import LlmLiteError
from llm_lite.core.hub.remote.searching import SearchFilters, search, show
from llm_lite.core.messages.library import HubModel
from tests.hub.faults import Fault

COMMAND = "\x1b[2J\u202e"  # to a terminal
ODD = (
    *(None, True, -1, 0, 1 << 70, 1.5, "", "x" * 5000, "../../x", "\ud800"),
    *([], {}, [None], [[]], {"": {}}, {"a": [1]}, "2025-99-99T00:00:00.000Z", "NaN"),
)
DETAILS = {
    "gguf": {"architecture": "llama", "total": 5, "context_length": 8},
    "config": {"model_type": "llama", "quantization_config": {"quant_method": "awq"}},
    "safetensors": {"parameters": {"BF16": 5}, "total": 5},
    "cardData": {"license": "mit", "license_name": "x"},
    "tags": ["license:mit", "gguf"],
}
FILES = {"m.Q4_0.gguf": b"x", "config.json": b"{}", "model.safetensors": b"y"}


def changed(value, chance):
    """`value` with something odd in the place of one to three things in it."""
    value = copy.deepcopy(value)
    for _ in range(chance.randint(1, 3)):
        place = value
        while True:
            keys = list(place) if isinstance(place, dict) else list(range(len(place)))
            if not keys:
                break
            key = chance.choice(keys)
            if isinstance(place[key], dict | list) and place[key] and chance.random() < 0.7:
                place = place[key]
                continue
            text = isinstance(place[key], str) and chance.random() < 0.5
            place[key] = COMMAND if text else chance.choice(ODD)
            break
    return value


def is_plain(model: HubModel) -> bool:
    words = [model.repo, model.architecture, model.licence, model.task, model.updated]
    words += [file.name for file in model.files] + [model.problem]
    numbers = [model.parameters, model.context, model.downloads, *(f.size for f in model.files)]
    return all(isinstance(word, str) and word.isprintable() for word in words) and all(
        type(number) is int and number >= 0 for number in numbers
    )


@pytest.mark.parametrize("first", range(0, 80, 40))
def test_of_one_model(hub, first):
    repository = hub.add("tiny/odd", FILES, **DETAILS)
    whole = repository.model(repository.head, blobs=True)
    for seed in range(first, first + 40):
        body = json.dumps(changed(whole, random.Random(seed))).encode()
        hub.faults[:] = [Fault("/api/models/tiny/odd", status=200, body=body)]
        try:
            assert is_plain(show("tiny/odd")), seed
        except LlmLiteError as error:
            assert str(error).isprintable(), seed


def test_of_a_list(hub):
    repository = hub.add("tiny/odd", FILES, **DETAILS)
    rows = [repository.model(repository.head, blobs=False)] * 3
    for seed in range(30):
        body = json.dumps(changed(rows, random.Random(seed))).encode()
        hub.faults[:] = [Fault("/api/models?", status=200, body=body)]
        try:
            assert all(map(is_plain, search("odd", SearchFilters(runnable=seed % 2 == 0)))), seed
        except LlmLiteError as error:
            assert str(error).isprintable(), seed
