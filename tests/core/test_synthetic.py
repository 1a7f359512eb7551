"""Synthetic checkpoints: real shapes, the same for the same seed, and they run."""

import dataclasses
import math

import numpy as np
import pytest

from core import synthetic
from core.errors import FileError, RequestError
from core.formats.gguf import open_gguf
from core.messages import ChatMessage
from core.models.registry import read_model
from core.prompt import encode_chat
from core.sources import open_source
from core.synthetic import names, write_synthetic
from desktop import cli
from tests.runners import exact, running

SMALL = {
    "hidden_size": 64,
    "num_hidden_layers": 4,
    "intermediate_size": 96,
    "layer_types": ["sliding_attention", "full_attention"] * 2,
    "num_kv_shared_layers": 2,
    "hidden_size_per_layer_input": 32,
    "num_attention_heads": 4,
    "head_dim": 16,
}


@pytest.fixture
def small(monkeypatch):
    """A shape of a few MB, with vocabularies of a thousand."""
    original = synthetic.gemma3n.shapes_of

    def shapes_of(metadata, path, **sizes):
        return original(metadata, path, **{**sizes, "rows": 1000, "table_rows": 990})

    monkeypatch.setattr(synthetic.gemma3n, "shapes_of", shapes_of)
    known = synthetic._KNOWN["gemma-3n-e4b"]
    fields = dataclasses.replace(known, fields=lambda: synthetic._gemma(SMALL))
    monkeypatch.setattr(synthetic, "_KNOWN", {"small": fields})


@pytest.mark.parametrize(
    ("name", "parameters", "layers", "table"),
    [("gemma-3n-e4b", 6.9e9, 35, 8960), ("gemma-3n-e2b", 4.46e9, 30, 7680)],
)
def test_real_shapes(name, parameters, layers, table):
    """E2B's text model has 4,456,156,768 parameters, as published."""
    metadata, shapes = synthetic._KNOWN[name].fields()
    count = sum(math.prod(shape) for _, shape in shapes)
    assert count == pytest.approx(parameters, rel=0.02)
    assert metadata["gemma3n.block_count"] == layers
    assert dict(shapes)["per_layer_token_embd.weight"] == (262144, table)
    assert metadata["gemma3n.attention.shared_kv_layers"] == layers - 20


def test_a_small_one_runs_and_is_quantized(small, tmp_path):
    path = tmp_path / "small.gguf"
    write_synthetic("small", path, seed=3)
    formats = {t.dtype for t in open_source(path).tensors.values()}
    assert formats == {"q4_0", "f32"}
    with running(path, exact("cpu")) as runner:
        file = runner.model_file
        messages = [ChatMessage("system", "be"), ChatMessage("user", "the tree")]
        ids = encode_chat(file.tokenizer, file.template, messages).ids
        text = "<bos><start_of_turn>user\nbe\n\nthe tree<end_of_turn>\n<start_of_turn>model\n"
        assert file.tokenizer.decode(ids) == text
        assert 5 in file.tokenizer.end_ids
        logits = runner.session.prefill(ids)
    assert np.isfinite(logits).all()
    assert 0.1 < logits.std() < 30


def test_the_seed_decides(small, tmp_path):
    files = [tmp_path / f"{i}.gguf" for i in range(3)]
    for path, seed in zip(files, (1, 1, 2), strict=True):
        write_synthetic("small", path, seed=seed)
    first, again, other = (path.read_bytes() for path in files)
    assert first == again
    assert first != other


def test_the_weights_keep_the_scale_of_what_they_multiply(small, tmp_path):
    write_synthetic("small", tmp_path / "s.gguf")
    tensor = open_gguf(tmp_path / "s.gguf").tensors["token_embd.weight"]
    assert tensor.dequantize().std() == pytest.approx(64**-0.5, rel=0.05)
    assert abs(tensor.dequantize().mean()) < 0.05 * 64**-0.5
    source = open_source(tmp_path / "s.gguf")
    assert read_model(source.metadata, source.tensors, source.path).shape.layers == 4


def test_unknown_names_and_places(small, tmp_path, capsys):
    with pytest.raises(RequestError, match="unknown shape 'gpt-5': expected small"):
        write_synthetic("gpt-5", tmp_path / "x.gguf")
    with pytest.raises(FileError, match="cannot be written: No such file"):
        write_synthetic("small", tmp_path / "none" / "x.gguf")
    assert cli.main(["synth", "small", str(tmp_path / "x.gguf"), "--seed", "1"]) == 0
    assert capsys.readouterr().out.strip() == str(tmp_path / "x.gguf")
    assert cli.main(["synth", "small", str(tmp_path)]) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["x.gguf"]
    assert names() == ("small",)
