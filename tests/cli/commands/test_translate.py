"""`llm-lite translate` and `generate`, and the logits of an encoder-decoder."""

from __future__ import annotations

import io
import json

import numpy as np
import pytest

from llm_lite.cli.main import main
from tests.fixtures.seq2seq import t5
from tests.make_gguf import write_tiny_llama
from tests.seq2seq_checks import stored, write_case


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return str(write_case(t5.FAMILY, "gated", tmp_path_factory.mktemp("t5")))


EXACT = ("--backend", "cpu", "--activations", "a32", "--kv", "fp32")


def test_a_text_of_the_command_and_lines_of_the_input(model, capsys, monkeypatch):
    options = (*EXACT, "--beam", "3", "--max-tokens", "6")
    assert main(["translate", model, "Hello", *options, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["beam"] == 3 and len(told["tokens"]) <= 6
    assert len(told["others"]) == 2 and told["source_tokens"]
    monkeypatch.setattr("sys.stdin", io.StringIO("Hello\n\nHello\n"))
    assert main(["generate", model, *options]) == 0
    assert capsys.readouterr().out == f"{told['text']}\n" * 2


def test_logits_behind_a_target(model, capsys, tmp_path):
    known, out = stored("t5", "gated"), tmp_path / "x.npy"
    source, target = (",".join(map(str, known[name])) for name in ("source", "target"))
    words = ["logits", model, "--tokens", source, "--out", str(out), *EXACT]
    assert main([*words, "--decoder-tokens", target]) == 0
    assert np.abs(np.load(out) - known["logits"]).max() < 2e-3
    assert main(words) == 1
    assert "--decoder-tokens: an encoder-decoder needs them" in capsys.readouterr().err


def test_a_decoder_is_refused(capsys, tmp_path):
    path = tmp_path / "m.gguf"
    write_tiny_llama(path)
    assert main(["translate", str(path), "Hello"]) == 1
    assert "is no encoder-decoder, expected one such as T5 or Marian" in capsys.readouterr().err
