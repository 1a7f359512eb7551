"""Rows of architectures: beside the constants of the `gguf` package, and what is made from them."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from gguf import MODEL_ARCH_NAMES, MODEL_TENSORS, TENSOR_NAMES, Keys

from llm_lite.core.errors import FileError, UnsupportedError
from llm_lite.core.formats.huggingface_config import CheckpointConfig
from llm_lite.core.models.description import rope
from llm_lite.core.models.description.rows import rows_of
from llm_lite.core.models.description.tensors import numbered, split_rows, spread
from llm_lite.core.models.registry import ARCHITECTURES, architecture_of, translate
from llm_lite.core.plan.attention_layers import DRAFT
from llm_lite.core.quant.modes import MADE
from llm_lite.core.quant.registry import FORMATS
from llm_lite.core.quant.tensor import TensorData

# Keys and tensors that only variants have.
OWN_KEYS = {"rope.pairing", "rope.layer_pattern", "altup.correct_scale", "table_layers"}
OWN_KEYS |= {"hidden_activation", "position_first", "dense.widths", "dense.activations"}
OWN_KEYS |= {"pooling.normalized", "pooling.most_tokens", "pooling.prompts", "pooling.reads_prompt"}
OWN_KEYS |= {"scale_decoder_outputs", "attention.relative_max_distance", "scale_embedding"}
OWN_KEYS |= {"feed_forward_activation", "ssm.tiled", "attention.post_norm_rms_epsilon"}
OWN_KEYS |= {
    f"generation.{name}"
    for name in ("banned_token_ids", "forced_eos_token_id", "beams", "length_penalty")
} | {f"generation.{name}" for name in ("forced_bos_token_id", "min_length", "no_repeat_ngram_size")}
OWN_KEYS |= {"generation.early_stopping", "generation.task_prefixes", "rope.scaling.yarn_truncate"}
OWN_TENSORS = {"rope_magnitude"}
BEFORE_LAYERS = ("position_embd", "token_embd_norm")  # of BART's stacks
OWN_TENSORS |= {"mlm.dense", "mlm.norm", "output", "dense.{i}"}  # of encoders, as heads of others
OWN_TENSORS |= {f"{stack}.{one}" for stack in ("enc", "dec") for one in BEFORE_LAYERS}
# Numbers of Gemma 4's router and of its experts, which llama.cpp knows and gguf does not.
OWN_TENSORS |= {"blk.{i}.ffn_gate_inp.scale", "blk.{i}.ffn_down_exps.scale"}
# Whose files are of another architecture, or would be, or which gguf lacks.
OF_GGUF = {
    "distilbert": "bert",
    "roberta": "bert",
    "openai-gpt": "gpt2",
    "marian": "t5",
    "bart": "t5",
    "muse-glimmer": "afmoe",
}
# GGUF has them for other architectures.
SCALING = {"rope_freqs", "rope_factors_long", "rope_factors_short"}
PATH = Path("some/config.json")


def known_keys():
    groups = (Keys.LLM, Keys.Attention, Keys.Rope, Keys.SSM, Keys.ShortConv, Keys.Tokenizer)
    values = {value for group in groups for name, value in vars(group).items() if name[0] != "_"}
    return {str(value).removeprefix("{arch}.") for value in values} | {"altup.num_inputs"}


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_keys_are_those_of_gguf(name):
    keys = [row.gguf for row in rows_of(ARCHITECTURES[name].config).values()]
    others = {key for key in keys if key not in known_keys() and not key.startswith("altup.")}
    assert others - OWN_KEYS == set()
    assert max(Counter(keys).values()) == 1


def _stem(name):
    return name.removesuffix(".weight").removesuffix(".bias")


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_names_of_tensors_are_those_of_gguf(name):
    arch = next(arch for arch, own in MODEL_ARCH_NAMES.items() if own == OF_GGUF.get(name, name))
    known = {TENSOR_NAMES[one].replace("{bid}", "{i}") for one in MODEL_TENSORS[arch]}
    known |= {stem.replace("{i}", DRAFT) for stem in known}  # a block behind the layers
    known |= {stem.replace("{bid}.nextn", DRAFT) for stem in TENSOR_NAMES.values()}
    architecture = ARCHITECTURES[name]
    of_checkpoint = ".of_checkpoint"  # ends names of what is apart in GGUF
    fused = [r for r in architecture.fused if not r.grouped and not r.gguf.endswith(of_checkpoint)]
    stems = [_stem(row.gguf) for row in (*architecture.tensors, *fused)]
    parts = {_stem(part.gguf) for row in architecture.fused for part in row.parts}
    stacked = {stem.replace(".{i}", "") for stem in stems if stem.startswith("altup")}
    plain = {stem for stem in stems if not stem.startswith("altup")} | stacked
    plain = {stem for stem in plain if not stem.startswith(MADE)}
    assert plain - known - OWN_TENSORS - SCALING - parts == set()


@pytest.mark.parametrize(
    ("name", "close"), [("qwen33", "qwen3"), ("gemma33", "gemma3"), ("Llama", "llama"), ("xyz", "")]
)
def test_an_unknown_model_is_told_with_the_closest(name, close):
    config = CheckpointConfig({"model_type": name}, PATH)
    metadata = {"general.architecture": name}
    for ask in (lambda: translate(config, {}), lambda: architecture_of(metadata, PATH)):
        with pytest.raises(UnsupportedError) as caught:
            ask()
        text = str(caught.value)
        hint = f"the closest is {close}" if close else "known are: llama, "
        assert f"{name!r} is not known here; {hint}" in text
        assert "\n" not in text and len(text) < 200
        assert text.endswith(f"the closest is {close}") if close else "closest" not in text


def test_numbers_in_names():
    assert numbered("layers.12.mlp.up_proj.weight") == ("layers.{i}.mlp.up_proj.weight", "12")
    assert numbered("blk.007.attn_q.weight") == ("blk.{i}.attn_q.weight", "7")
    assert numbered("norm.weight") == ("norm.weight", "")


def tensor(dtype, shape):
    values = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
    return TensorData(
        "fused", dtype, shape, FORMATS[dtype].quantize(values).reshape(-1).view(np.uint8)
    )


@pytest.mark.parametrize("dtype", ["f32", "bf16", "q4_0", "q8_0"])
def test_rows_of_any_block_type_are_views(dtype):
    whole = tensor(dtype, (12, 64))
    views = split_rows(whole, {"a": 7, "b": 1, "c": 4}, PATH)
    assert [view.name for view in views] == ["a", "b", "c"]
    assert np.array_equal(np.concatenate([v.dequantize() for v in views]), whole.dequantize())
    assert all(np.shares_memory(view.data, whole.data) for view in views)


def test_rows_that_cannot_be_split():
    with pytest.raises(FileError, match=r"tensor fused: expected 13 rows, found shape \(12, 64\)"):
        split_rows(tensor("f32", (12, 64)), {"a": 13}, PATH)
    with pytest.raises(UnsupportedError, match="tensor fused: 8 rows are no whole blocks"):
        split_rows(tensor("int8", (32, 64)), {"a": 8, "b": 24}, PATH)


def test_a_number_becomes_a_vector():
    one = TensorData(
        "s", "bf16", (1,), FORMATS["bf16"].quantize(np.float32([[1.5]])).view(np.uint8)
    )
    assert spread(one, 3).dequantize().tolist() == [1.5] * 3


def test_yarn_by_hand():
    """Of 8 pairs with base 16 and 64 positions before: those that turn 4 times or more stay, those
    that turn once or less are divided by 8; positions a turn of pair i are 2 pi * 16^(i / 8)."""

    class Fields:
        scaling, theta, rotary_dim, scaling_factor = "yarn", 16.0, 16, 8.0
        original_context, beta_fast, beta_slow, whole_pairs = 64, 4.0, 1.0, True

    factors = rope.yarn_factors(Fields())
    turns = 64 / (2 * np.pi * 16 ** (np.arange(8) / 8))
    first = np.floor(8 * np.log(64 / (4 * 2 * np.pi)) / np.log(16))
    last = np.ceil(8 * np.log(64 / (2 * np.pi)) / np.log(16))
    assert (turns[int(first)] >= 4, first, last) == (True, 2.0, 7.0)
    expected = [1, 1, 1] + [1 / (i / 5 / 8 + 1 - i / 5) for i in range(1, 6)]
    np.testing.assert_allclose(factors, expected)
    Fields.whole_pairs = False
    first, last = (8 * np.log(64 / (n * 2 * np.pi)) / np.log(16) for n in (4, 1))
    ramp = [min(max((i - first) / (last - first), 0), 1) for i in range(8)]
    expected = [1 / (part / 8 + 1 - part) for part in ramp]
    np.testing.assert_allclose(rope.yarn_factors(Fields()), expected)
    assert rope.yarn_magnitude(8.0) == pytest.approx(1.2079441)
    assert rope.yarn_magnitude(0.5) == 1.0
