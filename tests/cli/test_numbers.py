"""Commands that report numbers end with a sentence where there are none."""

import json
import math

import pytest

from llm_lite.cli.main import main
from tests.cli.terminal_runs import sentence
from tests.huge import write_huge_llama
from tests.make_gguf import write_tiny_llama

CPU = ("--backend", "cpu", "--threads", "1")
TEXT = "The quick brown fox jumps over the lazy dog. " * 40


@pytest.fixture
def huge(tmp_path):
    (tmp_path / "text.txt").write_text(TEXT)
    return write_huge_llama(tmp_path / "huge.gguf", "blk.0.attn_q.weight")


def commands(folder):
    text = folder / "text.txt"
    return {
        "logits": ["--text", "Hello", "--out", folder / "x.npy"],
        "attention": ["--text", "Hello there", "--out", folder / "x.npz"],
        "perplexity": ["--file", text, "--ctx", "16", "--chunks", "1", "--json"],
        "bench": ["--prompt-tokens", "4", "--new-tokens", "2", "--repeat", "1", "--json"],
        "chat": ["-p", "Hello", "--json"],
    }


@pytest.mark.parametrize("name", ["logits", "attention", "perplexity", "bench", "chat"])
@pytest.mark.parametrize("backend", ["numpy", "cpu"])
def test_overflow_is_a_sentence(huge, tmp_path, capsys, name, backend):
    words = [str(word) for word in commands(tmp_path)[name]]
    assert main([name, str(huge), "--backend", backend, *words]) == 1
    assert "huge.gguf: the logits of token" in sentence(capsys)
    assert not list(tmp_path.glob("x.np*"))


def test_modes_are_not_recommended_by_what_is_no_number(huge, capsys):
    words = ["doctor", "--benchmark-modes", "--model", str(huge), *CPU, "--json"]
    assert main(words) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert "are not finite numbers" in err


def test_an_error_that_a_single_token_cannot_have_is_null(tmp_path, capsys):
    (tmp_path / "text.txt").write_text(TEXT)
    source = write_tiny_llama(tmp_path / "t.gguf")
    words = ["perplexity", str(source), "--file", str(tmp_path / "text.txt"), *CPU]
    assert main([*words, "--ctx", "4", "--chunks", "1", "--json"]) == 0
    report = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    assert report["ppl_error"] is None
    assert math.isfinite(report["ppl"])


def test_quantize_reports_numbers_of_huge_weights(tmp_path, capsys):
    source = write_huge_llama(tmp_path / "huge.gguf", factor=1e25)
    assert main(["quantize", str(source), str(tmp_path / "v"), "--mode", "fp32", "--json"]) == 0
    json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
