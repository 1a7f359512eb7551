"""SmolLM2's attention maps against transformers' float32; fixtures/make_attention.py made these.

Rows drawn by a seed are compared entry by entry in every layer and head, all rows by their entropy
and their share of the first position.
"""

import json

import numpy as np
import pytest

from llm_lite.core.inspect.attention import head_maps
from tests.paths import FIXTURES
from tests.runners import BACKENDS, exact, running

DOCUMENT = json.loads((FIXTURES / "smollm2_texts.json").read_text("utf-8"))
IDS = {text["name"]: text["token_ids"] for text in DOCUMENT["texts"]}
SHORTEST = min(IDS, key=lambda name: len(IDS[name]))
LAYERS, HEADS = 30, 9


@pytest.fixture(scope="module")
def expected():
    with np.load(FIXTURES / "smollm2_attention.npz") as arrays:
        return dict(arrays)


def maps_of(runner, ids):
    """float32 [layers, heads, n, n], from an empty cache."""
    runner.session.clear()
    runner.session.prefill(ids)
    maps = np.empty((LAYERS, HEADS, len(ids), len(ids)), np.float32)
    for layer in range(LAYERS):
        head_maps(runner.attention, layer, range(HEADS), maps[layer])
    return maps


def entropy(maps):
    return -(maps * np.log(np.where(maps > 0, maps, 1))).sum(axis=-1)


def check(maps, expected, name, tolerance):
    rows = expected[f"{name}_rows"]
    found = maps[:, :, rows].transpose(2, 0, 1, 3)
    assert np.abs(found - expected[f"{name}_maps"]).max() <= tolerance
    assert np.abs(maps.sum(axis=-1) - 1).max() <= 1e-3
    assert not np.triu(maps, 1).any()
    assert np.abs(maps[..., 0] - expected[f"{name}_first"]).max() <= tolerance + 2**-11
    # float16 keeps 11 bits of up to log(135) nats
    assert np.abs(entropy(maps) - expected[f"{name}_entropy"]).max() <= 10 * tolerance + 2**-9


@pytest.mark.parametrize("backend", BACKENDS)
def test_maps_with_float32_caches(request, smollm2, expected, backend):
    device = request.getfixturevalue("device") if backend == "vulkan" else None
    names = IDS if backend == "cpu" else (SHORTEST,)  # the others are slow
    with running(smollm2, exact(backend), device=device) as runner:
        for name in names:
            check(maps_of(runner, IDS[name]), expected, name, 1e-4)


def test_maps_with_float16_caches(smollm2, expected):
    """What the live view shows: at most 3e-3 off where the cache is rounded."""
    with running(smollm2, exact("cpu", keys="fp16", values="fp16")) as runner:
        for name in ("prose", SHORTEST):
            check(maps_of(runner, IDS[name]), expected, name, 4e-3)


def test_maps_are_the_same_whoever_fed_the_tokens(smollm2, expected):
    """Prefill in two parts and token by token at the end: the ring holds what one prefill does."""
    ids = IDS[SHORTEST]
    with running(smollm2, exact("cpu")) as runner:
        runner.session.prefill(ids[:20])
        runner.session.prefill(ids[:45])
        for token in ids[45:]:
            runner.session.decode(token)
        maps = np.empty((LAYERS, HEADS, len(ids), len(ids)), np.float32)
        for layer in range(LAYERS):
            head_maps(runner.attention, layer, range(HEADS), maps[layer])
        check(maps, expected, SHORTEST, 1e-4)
