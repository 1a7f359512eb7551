"""`import llm_lite`: a model in Python, text in, arrays out."""

import json
import subprocess
import sys

import numpy as np
import pytest

import llm_lite
from llm_lite.core.errors import FileError, RequestError
from llm_lite.core.messages import ChatMessage
from tests.make_gguf import write_tiny_llama
from tests.paths import ROOT

GREEDY = {"temperature": 0.0, "repetition_penalty": 1.0}


@pytest.fixture(scope="module")
def model(smollm2):
    with llm_lite.load(smollm2, backend="cpu", context=256) as model:
        yield model


def test_tokens_and_back(model):
    ids = model.tokenize("The capital of France")
    assert ids.dtype == np.int32 and ids.ndim == 1 and len(ids) >= 4
    assert model.detokenize(ids) == "The capital of France"


def test_logits_of_a_text_and_of_its_tokens(model):
    ids = model.tokenize("The capital of France is")
    rows = model.logits(ids)
    assert rows.shape == (len(ids), model.info.vocabulary) and rows.dtype == np.float32
    np.testing.assert_array_equal(model.logits("The capital of France is"), rows)
    assert model.detokenize([rows[-1].argmax()]) == " Paris"


@pytest.mark.parametrize("mode", ["as-stored", "int4"])
def test_what_is_not_multiplied_as_it_is_stored_is_told(tmp_path, mode):
    path, said = write_tiny_llama(tmp_path / "m.gguf", dtype="nvfp4"), []
    with llm_lite.load(path, backend="cpu", mode=mode, warn=said.append) as model:
        assert np.isfinite(model.logits([70, 71])).all()
    note = "15 tensors of type nvfp4 are multiplied as int8"
    assert said == ([note] if mode == "as-stored" else [])


def test_maps_are_probabilities(model):
    maps = model.attention("The cat sat.", layers=[0, 5], heads=[2])
    n = len(model.tokenize("The cat sat."))
    assert maps.shape == (2, 1, n, n) and maps.dtype == np.float32
    np.testing.assert_allclose(maps.sum(-1), 1.0, atol=1e-5)
    assert np.triu(maps[0, 0], 1).max() == 0.0
    whole = model.attention("The cat sat.")
    assert whole.shape[:2] == (model.info.layers, model.info.heads)
    np.testing.assert_array_equal(whole[5, 2], maps[1, 0])


def test_an_answer_in_pieces_and_whole(model):
    asked = [ChatMessage("system", "Be brief."), ChatMessage("user", "What is 2 + 2?")]
    pieces = list(model.stream(asked, max_new_tokens=12, **GREEDY))
    assert len(pieces) > 4
    assert model.generate(asked, max_new_tokens=12, **GREEDY) == "".join(pieces)
    assert model.executor.backend == "cpu"


def test_errors_are_sentences(model, tmp_path):
    with pytest.raises(FileError, match="no such file"):
        llm_lite.load(tmp_path / "missing.gguf")
    with pytest.raises(RequestError, match="two tokens or more"):
        model.attention([5])
    with pytest.raises(RequestError, match="layer 99 is not in the model"):
        model.attention("a b c", layers=[99])
    with pytest.raises(RequestError, match="the text is empty"):
        model.logits([])
    with pytest.raises(RequestError):
        model.generate("word " * 100_000)


def test_the_name_alone_imports_no_engine():
    code = "import llm_lite, sys; print('numpy' in sys.modules, callable(llm_lite.load))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, check=True)
    assert done.stdout == b"False True\n"
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = llm_lite.nothing


def test_an_answer_of_a_schema_and_one_that_stops(model):
    schema = {"type": "object", "properties": {"sky": {"enum": ["blue", "red"]}}}
    schema |= {"required": ["sky"], "additionalProperties": False}
    text = model.generate("What color is the sky?", temperature=1.0, seed=1, json_schema=schema)
    assert json.loads(text)["sky"] in ("blue", "red")
    free = model.generate("Count to five.", **GREEDY, max_new_tokens=24)
    stop = free[10:13]
    stopped = model.generate("Count to five.", **GREEDY, max_new_tokens=24, stop=stop)
    assert stopped == free[: free.find(stop)]
    token = int(model.tokenize(free)[0])
    other = model.generate("Count to five.", **GREEDY, max_new_tokens=1, logit_bias={token: -100.0})
    assert not free.startswith(other)
    with pytest.raises(RequestError, match="the JSON schema is broken in line 1"):
        model.generate("Hello", json_schema="{")
