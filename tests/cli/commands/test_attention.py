"""`llm-lite attention`: what it writes, on every executor, and what it refuses beforehand."""

import json

import numpy as np
import pytest

from llm_lite.cli.main import main
from llm_lite.core.loading import loader
from tests.cli.terminal_runs import sentence
from tests.runners import BACKENDS

IDS = list(range(70, 110))


def attention(model, out, *more, backend="numpy"):
    return main(["attention", str(model), "--backend", backend, "--out", str(out), *more])


def comma(ids):
    return ",".join(map(str, ids))


@pytest.mark.parametrize("backend", BACKENDS)
def test_maps_of_a_text(tiny_llama, tmp_path, capsys, backend):
    out = tmp_path / "x.npz"
    assert attention(tiny_llama, out, "--tokens", comma(IDS), "--json", backend=backend) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["shape"], report["tokens"]) == ([2, 4, 40, 40], IDS)
    assert (report["keys"], report["activations"], report["backend"]) == ("fp32", "a32", backend)
    assert list(tmp_path.iterdir()) == [out], "nothing is left beside it"
    with np.load(out) as arrays:
        probs = arrays["probs"]
        assert arrays["tokens"].dtype == np.int32 and arrays["tokens"].tolist() == IDS
    assert (probs.dtype, probs.shape) == (np.float32, (2, 4, 40, 40))
    assert np.abs(probs.sum(axis=-1) - 1).max() <= 1e-5
    assert not np.triu(probs, 1).any()
    reference = tmp_path / "reference.npz"
    assert attention(tiny_llama, reference, "--tokens", comma(IDS)) == 0
    with np.load(reference) as arrays:
        np.testing.assert_allclose(probs, arrays["probs"], atol=1e-5)


def test_some_layers_and_heads_of_a_file(tiny_llama, tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("on the sea", encoding="utf-8")
    assert attention(tiny_llama, tmp_path / "all", "--text", "on the sea") == 0
    chosen = ("--layers", "1", "--heads", "3,0-1,1")
    assert attention(tiny_llama, tmp_path / "some", "--text-file", str(text), *chosen) == 0
    with np.load(tmp_path / "all") as whole, np.load(tmp_path / "some") as some:
        assert some["layers"].tolist() == [1]
        assert some["heads"].tolist() == [3, 0, 1]
        np.testing.assert_array_equal(some["probs"], whole["probs"][[1]][:, [3, 0, 1]])


BAD = {
    "two tokens or more, this one has 1": ("--tokens", "5"),
    "two tokens or more, this one has 0": ("--text", ""),
    "layer 2 is not in the model, which has layers 0 to 1": (
        "--layers",
        "0-2",
        "--text",
        "on the sea",
    ),
    "head 4 is not in the model, which has heads 0 to 3": ("--heads", "4", "--text", "on the sea"),
    "--layers: expected numbers such as 0,3-5, found 'all'": ("--layers", "all", "--text", "on"),
    "--heads: expected numbers such as 0,3-5, found '1,'": ("--heads", "1,", "--text", "on"),
    "--heads: expected numbers such as 0,3-5, found '99999": ("--heads", "9" * 5000, "--text", "o"),
    "--heads: 3-1 ends before it begins": ("--heads", "3-1", "--text", "on the sea"),
    "the text has 129 tokens, the model was trained for 128": ("--tokens", comma([5] * 129)),
    "token 300 is outside the vocabulary": ("--tokens", "1,300"),
    "40 tokens, but the context holds 8": ("--ctx", "8", "--tokens", comma(IDS)),
}


@pytest.mark.parametrize("problem", BAD)
def test_what_is_refused(tiny_llama, tmp_path, capsys, problem):
    assert attention(tiny_llama, tmp_path / "x.npz", *BAD[problem]) == 1
    assert problem in sentence(capsys)
    assert list(tmp_path.iterdir()) == []


def test_what_would_not_fit_is_refused_before_the_work(tiny_llama, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("llm_lite.core.inspect.text_maps.available_bytes", lambda: 60_000)
    monkeypatch.setattr(loader, "start", None)  # nobody gets there
    assert attention(tiny_llama, tmp_path / "x.npz", "--tokens", comma([5] * 128)) == 1
    text = sentence(capsys)
    assert "maps of 2 layers, 4 heads and 128 x 128 tokens take 0.5 MiB of memory" in text
    assert "choose fewer layers and heads" in text


@pytest.mark.parametrize("place", ["no/such/x.npz", ".", "n" * 300])
def test_a_place_that_cannot_be_written(tiny_llama, tmp_path, capsys, monkeypatch, place):
    monkeypatch.chdir(tmp_path)
    assert attention(tiny_llama, place, "--text", "on the sea") == 1
    text = sentence(capsys)
    assert "cannot be written" in text or "is a directory" in text
    assert list(tmp_path.iterdir()) == []
