"""Synthetic checkpoints: real shapes, the same for the same seed, and they run."""

import math

import numpy as np
import pytest

from llm_lite.cli import main
from llm_lite.core.convert import synthetic
from llm_lite.core.convert.synthetic import names, write_synthetic
from llm_lite.core.errors import FileError, RequestError
from llm_lite.core.formats.gguf_reader import open_gguf
from llm_lite.core.generation.prompt import encode_chat
from llm_lite.core.loading.sources import open_source
from llm_lite.core.messages import ChatMessage
from llm_lite.core.models.registry import read_model
from llm_lite.core.records import replace
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
    known = synthetic._KNOWN["gemma-3n-e4b"]
    fields = replace(known, fields=lambda: synthetic._gemma(SMALL, 1000, 990))
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


def test_gemma_4_has_its_shapes():
    """7,463,013,376 parameters, as transformers counts them, and 42 scales of layers; the factors
    of rotary positions are GGUF's alone."""
    metadata, shapes = synthetic._KNOWN["gemma-4-e4b"].fields()
    sizes = dict(shapes)
    whole = sum(math.prod(shape) for shape in sizes.values())
    made = 42 * 2560 + math.prod(sizes["rope_freqs.weight"])
    assert whole - made == 7_463_013_376
    assert sizes["per_layer_token_embd.weight"] == (262144, 42 * 256)
    own = [name for name in sizes if name.endswith("attn_v.weight")]
    assert len(own) == 42 - metadata["gemma4.attention.shared_kv_layers"] == 24
    assert (sizes["blk.5.attn_k.weight"], sizes["blk.6.attn_k.weight"]) == (
        (1024, 2560),
        (512, 2560),
    )


@pytest.mark.parametrize(
    ("name", "parameters"), [("qwen3.5-0.8b", 752_393_024), ("qwen3.5-4b", 4_205_751_296)]
)
def test_qwen3_5_has_its_shapes(name, parameters):
    """As transformers counts them, with the embedding as the output head."""
    metadata, shapes = synthetic._KNOWN[name].fields()
    assert sum(math.prod(shape) for _, shape in shapes) == parameters
    assert metadata["qwen35.rope.dimension_count"] == 64
    # Only llm-lite knows this key: with it, others would read the heads of values in another order.
    assert "qwen35.ssm.tiled" not in metadata


def test_lfm2_has_its_shapes():
    """As transformers counts them, with the embedding as the output head."""
    metadata, shapes = synthetic._KNOWN["lfm2-1.2b"].fields()
    assert sum(math.prod(shape) for _, shape in shapes) == 1_170_340_608
    assert metadata["lfm2.feed_forward_length"] == 8192
    assert sum(metadata["lfm2.attention.head_count_kv"]) == 6 * 8


def test_gpt_oss_has_its_shapes(tmp_path):
    """20.9 billion parameters, as published."""
    _, shapes = synthetic._KNOWN["gpt-oss-20b"].fields()
    assert sum(math.prod(shape) for _, shape in shapes) == pytest.approx(20.9e9, rel=0.002)


def test_the_command_names_every_shape(capsys):
    with pytest.raises(SystemExit):
        main.main(["synth", "--help"])
    assert "|".join(names()) in capsys.readouterr().out.replace("\n", "")


def small_qwen3_5():
    heads = {"num_key_value_heads": 2, "linear_num_key_heads": 2, "linear_num_value_heads": 4}
    sizes = {"linear_key_head_dim": 16, "linear_value_head_dim": 16, "head_dim": 16}
    changes = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 4}
    return synthetic._qwen3_5({**changes, **heads, **sizes, "num_attention_heads": 4}, 1000)


def small_lfm2():
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "full_attn_idxs": [2]}
    changes = {"hidden_size": 64, "block_ff_dim": 384, "num_hidden_layers": 4}
    return synthetic._lfm2({**changes, **heads}, 1000)


def small_gpt_oss():
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16}
    sizes = {"hidden_size": 64, "intermediate_size": 64, "num_hidden_layers": 2}
    experts = {"num_local_experts": 4, "num_experts_per_tok": 2}
    changes = {**synthetic._GPT_OSS_20B, **heads, **sizes, **experts}
    return synthetic._mixture(synthetic.GPT_OSS, changes, 1000)


def test_its_experts_are_packed(monkeypatch, tmp_path):
    known = {"small": synthetic._KnownShape("small", small_gpt_oss)}
    monkeypatch.setattr(synthetic, "_KNOWN", known)
    write_synthetic("small", tmp_path / "v.gguf", form="gguf")
    file = open_gguf(tmp_path / "v.gguf")
    experts = file.tensors["blk.0.ffn_up_exps.weight"]
    assert (experts.dtype, experts.shape) == ("mxfp4", (4, 64, 64))
    assert np.std(experts.dequantize()) == pytest.approx(64**-0.5, rel=0.5)
    assert file.tensors["blk.0.ffn_up_exps.bias"].shape == (4, 64)
    file.close()


@pytest.mark.parametrize("form", ["variant", "gguf"])
@pytest.mark.parametrize("fields", [small_qwen3_5, small_lfm2, small_gpt_oss])
def test_a_small_one_runs(fields, form, monkeypatch, tmp_path):
    monkeypatch.setattr(synthetic, "_KNOWN", {"small": synthetic._KnownShape("small", fields)})
    path = tmp_path / ("v" if form == "variant" else "v.gguf")
    write_synthetic("small", path, form=form, seed=3)
    with running(path, exact("cpu")) as runner:
        logits = runner.session.prefill(list(range(20, 60)))
        more = runner.session.decode(70)
    assert np.isfinite(logits).all() and np.isfinite(more).all()
    assert np.abs(logits - more).max() > 0.01


def test_a_gguf_file_says_how_long_values_are(monkeypatch, tmp_path):
    """Heads of 32 in a width of 64 that four heads share: no reader can derive the length."""
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 32}
    experts = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32}
    sizes = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2}
    common = {"norm_topk_prob": True, "max_position_embeddings": 64, "rms_norm_eps": 1e-6}
    changes = {**heads, **experts, **sizes, **common, "rope_theta": 1e6}
    fields = lambda: synthetic._mixture(synthetic.QWEN3_MOE, changes, 1000)  # noqa: E731
    monkeypatch.setattr(synthetic, "_KNOWN", {"small": synthetic._KnownShape("small", fields)})
    write_synthetic("small", tmp_path / "s.gguf", form="gguf")
    said = open_gguf(tmp_path / "s.gguf").metadata
    assert said["qwen3moe.attention.key_length"] == 32
    assert said["qwen3moe.attention.value_length"] == 32
    with running(tmp_path / "s.gguf", exact("cpu")) as runner:
        assert np.isfinite(runner.session.prefill(list(range(20, 60)))).all()


@pytest.mark.parametrize("form", ["variant", "gguf"])
def test_a_small_gemma_4_runs(form, monkeypatch, tmp_path):
    changes = {**SMALL, "num_key_value_heads": 2, "global_head_dim": 32}
    fields = lambda: synthetic._gemma4(changes, 1000)  # noqa: E731
    monkeypatch.setattr(synthetic, "_KNOWN", {"small": synthetic._KnownShape("small", fields)})
    path = tmp_path / ("v" if form == "variant" else "v.gguf")
    write_synthetic("small", path, form=form, seed=3)
    with running(path, exact("cpu")) as runner:
        logits = runner.session.prefill(list(range(20, 60)))
    assert np.isfinite(logits).all()
    assert 0.1 < logits.std() < 30


def test_a_small_one_runs_and_is_quantized(small, tmp_path):
    path = tmp_path / "small.gguf"
    write_synthetic("small", path, form="gguf", seed=3)
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
        write_synthetic("small", path, form="gguf", seed=seed)
    first, again, other = (path.read_bytes() for path in files)
    assert first == again
    assert first != other


def test_the_weights_keep_the_scale_of_what_they_multiply(small, tmp_path):
    write_synthetic("small", tmp_path / "s.gguf", form="gguf")
    tensor = open_gguf(tmp_path / "s.gguf").tensors["token_embd.weight"]
    assert tensor.dequantize().std() == pytest.approx(64**-0.5, rel=0.05)
    assert abs(tensor.dequantize().mean()) < 0.05 * 64**-0.5
    source = open_source(tmp_path / "s.gguf")
    assert read_model(source.metadata, source.tensors, source.path).shape.layers == 4


FORMATS = {
    "int4": {"int4", "int8", "q4_1", "f16", "f32"},  # int8: what is raised
    "int8": {"int8", "q8_0", "f16", "f32"},
    "fp16": {"f16", "f32"},
    "fp32": {"f32"},
}


@pytest.mark.parametrize("mode", FORMATS)
def test_variants_of_every_mode(mode, small, tmp_path):
    """They load without conversion, the table in rows; activations keep their scale."""
    write_synthetic("small", tmp_path / "v", mode=mode, seed=3)
    with running(tmp_path / "v", exact("cpu")) as runner:
        tensors = runner.model_file.file.tensors
        assert {t.dtype for t in tensors.values()} == FORMATS[mode]
        assert tensors["per_layer_token_embd.weight"].format.tile_rows == 1
        for name, columns in (("token_embd.weight", 64), ("per_layer_token_embd.weight", 128)):
            values = tensors[name].dequantize()
            assert values.std() == pytest.approx(columns**-0.5, rel=0.05)
            assert abs(values.mean()) < 0.05 * columns**-0.5
        logits = runner.session.prefill(list(range(20, 60)))
    assert np.isfinite(logits).all()
    assert 0.1 < logits.std() < 30


def test_a_variant_is_the_same_for_the_same_seed(small, tmp_path):
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        write_synthetic("small", tmp_path / name, seed=seed)
    first, again, other = ((tmp_path / n / "model.safetensors").read_bytes() for n in "abc")
    assert first == again
    assert first != other


def test_smollm2_has_its_shapes(tmp_path):
    """134,515,008 parameters, as published; and they talk."""
    write_synthetic("smollm2-135m", tmp_path / "s", seed=1)
    with running(tmp_path / "s", exact("cpu", context=64)) as runner:
        assert runner.model_info.parameters == 134_515_008
        assert runner.model_info.layers == 30
        assert np.isfinite(runner.session.prefill([2, 300, 301])).all()


@pytest.mark.parametrize(
    ("name", "parameters"),
    [("llama-1b", 1_235_814_400), ("llama-3b", 3_212_749_824), ("llama-8b", 8_030_261_248)],
)
def test_llamas_have_their_shapes(name, parameters):
    """As many parameters as Llama 3's; super-blocks fill their rows."""
    _, shapes = synthetic._KNOWN[name].fields()
    assert sum(math.prod(shape) for _, shape in shapes) == parameters
    assert all(shape[-1] % 256 == 0 for _, shape in shapes)


def test_unknown_names_and_places(small, tmp_path, capsys):
    with pytest.raises(RequestError, match="unknown shape 'gpt-5': expected small"):
        write_synthetic("gpt-5", tmp_path / "x.gguf")
    with pytest.raises(RequestError, match="unknown weight mode 'int3'"):
        write_synthetic("small", tmp_path / "x", mode="int3")
    with pytest.raises(FileError, match="cannot be written: there is no directory"):
        write_synthetic("small", tmp_path / "none" / "x")
    with pytest.raises(FileError, match="cannot be written: there is no directory"):
        write_synthetic("small", tmp_path / "none" / "x.gguf", form="gguf")
    gguf = ["--format", "gguf", "--seed", "1"]
    assert main.main(["synth", "small", str(tmp_path / "x.gguf"), *gguf]) == 0
    assert main.main(["synth", "small", str(tmp_path / "x"), "--mode", "int8"]) == 0
    out = [str(tmp_path / "x.gguf"), str(tmp_path / "x")]
    assert capsys.readouterr().out.split() == out
    assert main.main(["synth", "small", str(tmp_path)]) == 1
    assert main.main(["synth", "small", str(tmp_path / "y"), "--mode", "int8", *gguf]) == 1
    assert "only variants have modes" in capsys.readouterr().err
    assert {path.name for path in tmp_path.iterdir()} == {"x.gguf", "x"}
    assert names() == ("small",)
