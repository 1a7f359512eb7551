"""Files of block formats: where the peer's lie, and what they are made of."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tools.bench import files, peers


def test_each_file_has_a_name_of_its_own():
    folder = Path("peers")
    paths = [
        peers.block_file(folder, model, name)
        for model in peers.BLOCK_MODELS
        for name in peers.types_of(model)
    ]
    assert len({*paths}) == len(paths) == 26
    assert paths[0] == folder / "models" / "smollm2-q4_k_m.gguf"
    assert {path.name for path in paths}.isdisjoint(peers.FILES.values())


def test_every_model_has_a_source(tmp_path, monkeypatch):
    written: dict[str, Path] = {}
    monkeypatch.setattr(peers, "write_synthetic", lambda name, path, **_: path.write_bytes(b""))
    monkeypatch.setattr(
        peers,
        "write_file",
        lambda python, source, path, name: written.__setitem__(path.name, source),
    )
    (tmp_path / "models").mkdir()
    peers.write_block_files(tmp_path, Path("smollm2.gguf"), Path("python"))
    assert written["smollm2-q6_k.gguf"] == tmp_path / "models" / "f32.gguf"
    assert written["llama-1b-mxfp4.gguf"] == tmp_path / "models" / "llama-1b.gguf"
    assert written["qwen3.5-0.8b-q8_0.gguf"] == tmp_path / "models" / "qwen3.5-0.8b.gguf"
    assert len(written) == 26
    written.clear()
    peers.write_block_files(tmp_path, Path("smollm2.gguf"), Path("python"), ["Llama 8B"])
    assert [*written] == ["llama-8b-q4_0.gguf", "llama-8b-q4_k_m.gguf"]


def test_a_file_that_is_there_is_kept(tmp_path):
    there = tmp_path / "there.gguf"
    there.write_bytes(b"kept")
    peers.write_file(Path("no python"), Path("no source"), there, "Q6_K")
    assert there.read_bytes() == b"kept"


def test_a_missing_file_is_named_before_anything_is_measured(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["files", "files", "--folder", str(tmp_path)])
    with pytest.raises(SystemExit, match=r"no .*smollm2-q4_k_m\.gguf: run .*peers --files first"):
        files.main()


def test_a_model_that_is_not_measured_in_a_type_is_named(tmp_path, monkeypatch):
    words = ["files", "files", "--folder", str(tmp_path), "--types", "Q8_0"]
    monkeypatch.setattr(sys, "argv", words)
    with pytest.raises(SystemExit, match="SmolLM2: none is measured in Q8_0"):
        files.main()
