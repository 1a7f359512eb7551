"""The real encoder of the catalogue beside sentence-transformers: ids, vectors, what is alike."""

import json

import numpy as np
import pytest

from llm_lite.core.encoding.texts import encode_text
from llm_lite.core.hub import catalog
from tests.encoder_checks import started
from tests.paths import FIXTURES
from tests.runners import BACKENDS

# The least cosine between a sentence's vector in a mode and the reference's.
LEAST = {"fp32": 0.999999, "fp16": 0.99999, "int8": 0.999, "int4": 0.93}


@pytest.fixture(scope="module")
def reference():
    with np.load(FIXTURES / "minilm.npz") as arrays:
        known = [json.loads(str(arrays[name])) for name in ("sentences", "ids")]
        return *known, arrays["vectors"]


@pytest.fixture(scope="module", params=[one for one in BACKENDS if one != "vulkan"])
def runner(request):
    made = started(catalog.resolve("all-minilm-l6-v2"), request.param)
    yield made
    made.close()
    made.model_file.close()


def test_ids(runner, reference):
    sentences, ids, _ = reference
    tokenizer, most = runner.model_file.tokenizer, runner.most_tokens
    assert [encode_text(tokenizer, text, most) for text in sentences] == ids
    assert max(map(len, ids)) == most == 256


def test_vectors_one_by_one_and_together(runner, reference):
    sentences, _, vectors = reference
    some = [0, 3, 7, 9] if runner.executor_info.backend == "numpy" else range(len(sentences))
    alone = np.concatenate([runner.embed([sentences[i]]) for i in some])
    assert np.abs(alone - vectors[list(some)]).max() < 1e-5
    together = runner.embed([sentences[i] for i in some])
    assert np.abs(together - vectors[list(some)]).max() < 1e-5


def test_what_is_alike(runner, reference):
    """The weather is like the sun, and not like the stadium: the model's own example."""
    sentences, _, _ = reference
    found = runner.embed(sentences[2:5])
    alike = found @ found.T
    assert alike[0, 1] == pytest.approx(0.6660, abs=2e-4)
    assert alike[0, 2] == pytest.approx(0.1046, abs=2e-4)


@pytest.mark.parametrize("mode", LEAST)
def test_modes(mode, reference):
    sentences, _, vectors = reference
    made = started(catalog.resolve("all-minilm-l6-v2"), "cpu", mode=mode)
    try:
        cosines = (made.embed(sentences) * vectors).sum(axis=1)
        assert cosines.min() > LEAST[mode]
    finally:
        made.close()
        made.model_file.close()
