"""`llm-lite embed`, `fill` and other commands of encoders: what they print, their sentences."""

import io
import json

import numpy as np
import pytest

from llm_lite.cli.main import main
from llm_lite.cli.terminal.similarity_table import similarity_table
from tests.encoder_checks import stored, write_case
from tests.encoder_families import family_of

BERT = family_of("bert")


@pytest.fixture(scope="module")
def masked(tmp_path_factory):
    return str(write_case(BERT, "masked", tmp_path_factory.mktemp("encoders") / "m"))


def test_vectors_as_json(masked, capsys):
    words = ["embed", masked, "--backend", "numpy", "-p", "the cat", "-p", "a cat sat", "--json"]
    assert main(words) == 0
    found = np.array(json.loads(capsys.readouterr().out)["embeddings"])
    assert found.shape == (2, 48)
    assert np.abs(np.linalg.norm(found, axis=1) - 1).max() < 1e-6


def test_similarities_of_lines(masked, capsys, monkeypatch):
    lines = io.TextIOWrapper(io.BytesIO(b"the cat\n\na cat\nthe cat\n"))
    monkeypatch.setattr("sys.stdin", lines)
    assert main(["embed", masked, "--backend", "numpy"]) == 0
    shown = capsys.readouterr().out
    assert "1  the cat  1.00" in shown
    assert "closest: 1 and 3 (1.00)" in shown


def test_what_of_a_long_text_is_left_out_is_told(masked, capsys):
    words = [
        "embed",
        masked,
        "--backend",
        "numpy",
        "-p",
        "the cat",
        "-p",
        "a cat " * 3000,
        "--json",
    ]
    assert main(words) == 0
    told = capsys.readouterr()
    assert json.loads(told.out)["embeddings"]
    assert "text 2 has" in told.err and "the rest is left out" in told.err


def test_texts_of_a_task_stand_behind_its_prompt(masked, tmp_path, capsys):
    folder = write_case(BERT, "masked", tmp_path / "m")
    prompts = {"prompts": {"query": "the word1 "}}
    (folder / "config_sentence_transformers.json").write_text(json.dumps(prompts))
    vectors = []
    for words in (["the cat", "--task", "query"], ["the word1 the cat"]):
        assert main(["embed", str(folder), "--backend", "numpy", "--json", "-p", *words]) == 0
        vectors.append(json.loads(capsys.readouterr().out)["embeddings"][0])
    assert vectors[0] == vectors[1]
    assert main(["embed", masked, "--backend", "numpy", "-p", "the", "--task", "query"]) != 0
    assert "no prompt for the task 'query': its files name none" in capsys.readouterr().err


def test_a_decoder_makes_vectors_too(tiny_llama, capsys):
    assert main(["embed", str(tiny_llama), "--backend", "cpu", "-p", "Hello"]) == 0
    assert "numbers:" in capsys.readouterr().out


def test_many_texts_show_their_closest():
    vectors = np.eye(30) + np.eye(30, k=1) * 0.5
    lines = list(similarity_table([f"text {i} 한국어" for i in range(30)], vectors, 60))
    assert len(lines) == 30
    assert "2 0.50" in lines[0] and all(len(line) < 60 for line in lines)


def test_candidates_of_masks(masked, capsys):
    words = ["fill", masked, "the [MASK] sat on [MASK].", "--backend", "numpy", "--top", "3"]
    assert main([*words, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [len(mask["candidates"]) for mask in told["masks"]] == [3, 3]
    assert main(words) == 0
    shown = capsys.readouterr().out.splitlines()
    assert shown[0] == "mask 1 of 2" and len(shown) == 8
    best = told["masks"][0]["candidates"][0]
    assert shown[1].split()[:3] == [f"{100 * best['probability']:.1f}%", best["text"], "the"]


def test_logits_and_maps(masked, tmp_path, capsys):
    known = stored("bert", "masked")
    tokens = ",".join(map(str, known["tokens"]))
    for command, out in (("logits", "x.npy"), ("attention", "x.npz")):
        words = [command, masked, "--tokens", tokens, "--out", str(tmp_path / out), "--json"]
        assert main([*words, "--backend", "cpu"]) == 0
    told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert told[0]["kind"] == "logits" and told[0]["shape"] == [23, 262]
    assert np.abs(np.load(tmp_path / "x.npy") - known["logits"]).max() < 1e-4
    assert np.abs(np.load(tmp_path / "x.npz")["probs"] - known["maps"]).max() < 1e-4


def test_hidden_states_without_a_head(tmp_path, capsys):
    folder, known = write_case(BERT, "mean", tmp_path / "m"), stored("bert", "mean")
    tokens, out = ",".join(map(str, known["tokens"])), tmp_path / "x.npy"
    words = ["logits", str(folder), "--tokens", tokens, "--out", str(out), "--backend", "numpy"]
    assert main([*words, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["kind"] == "hidden states"
    assert np.abs(np.load(out) - known["hidden"]).max() < 1e-4


BAD = [
    (["fill", "{masked}", "no mask"], "the text has no [MASK]: expected one"),
    (["fill", "{masked}", "[MASK]", "--top", "0"], "--top: expected 1 to 1000, found 0"),
    (["fill", "{llama}", "x"], "the model writes text and is no encoder, as BERT is"),
    (["chat", "{masked}", "-p", "Hi"], "is an encoder, which writes no text"),
    (["bench", "{masked}"], "is an encoder, which writes no text"),
]


@pytest.mark.parametrize(("words", "sentence"), BAD)
def test_sentences(words, sentence, masked, tiny_llama, capsys):
    filled = [word.format(masked=masked, llama=tiny_llama) for word in words]
    assert main([*filled, "--backend", "numpy"]) != 0
    said = capsys.readouterr().err.strip().splitlines()
    assert sentence in said[-1]
