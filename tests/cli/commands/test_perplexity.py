"""The command that measures what a mode or a cache's type changes."""

import json

import pytest

from llm_lite.cli.main import main
from tests.make_gguf import write_tiny_llama

TEXT = "The quick brown fox jumps over the lazy dog. " * 40


@pytest.fixture
def words(tmp_path):
    (tmp_path / "text.txt").write_text(TEXT)
    source = write_tiny_llama(tmp_path / "source.gguf")
    file = str(tmp_path / "text.txt")
    common = ["--backend", "cpu", "--threads", "1", "--reference-mode", "as-stored"]
    return ["perplexity", str(source), "--file", file, "--ctx", "64", *common]


def divergence(capsys, words):
    assert main([*words, "--json"]) == 0
    return json.loads(capsys.readouterr().out)["kld_mean"]


def test_the_reference_has_the_same_cache_unless_another_is_asked_for(words, capsys):
    same = divergence(capsys, [*words, "--kv", "int8"])
    other = divergence(capsys, [*words, "--kv", "int8", "--reference-kv", "fp32"])
    assert same == pytest.approx(0, abs=1e-9)
    assert 1e-9 < other < 1e-2


def test_both_caches_are_named(words, capsys):
    assert main([*words, "--kv", "fp16,int8", "--reference-kv", "fp32"]) == 0
    first = capsys.readouterr().out.splitlines()[0]
    assert "cache of fp16 keys and int8 values" in first
    assert "fp32 cache" in first
