"""What the Gemma 3n page refuses, in which words; what it builds; the same model from GGUF."""

import json
import math
import re

import numpy as np
import pytest

from llm_lite.core.errors import LlmLiteError
from llm_lite.core.generation.prompt import encode_chat
from llm_lite.core.loading import loader
from llm_lite.core.loading.sources import open_source
from llm_lite.core.messages import ChatMessage
from llm_lite.core.models.model import BuildOptions
from llm_lite.core.models.registry import read_model
from llm_lite.core.plan.attention_layers import attention_layers
from llm_lite.core.plan.builder import Bucket
from llm_lite.core.plan.cache_layers import cache_layers
from llm_lite.core.plan.plan import Kind
from tests.make_gguf import Tensor, Typed, build_gguf, quantized, tokenizer_metadata
from tests.make_huggingface import GEMMA3N_CONFIG, gemma3n_tensors, write_folder, write_tiny_gemma3n
from tests.runners import exact, running

OPTIONS = BuildOptions(64, "f16", "f16", "f16", False, (Bucket(1, 1), Bucket(8, 2)), 16)


def refused(folder, message):
    with pytest.raises(LlmLiteError, match=message) as caught:
        source = open_source(folder)
        read_model(source.metadata, source.tensors, source.path)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 500


BAD_CONFIG = {
    "activation": ({"hidden_activation": "silu"}, "hidden_activation is 'silu': such a feed-fo"),
    "head": ({"tie_word_embeddings": False}, "tie_word_embeddings is false: a head of its own"),
    "widths": ({"intermediate_size": [77, 77]}, "intermediate_size is a list of 2, expected 6"),
    "widths of text": (
        {"intermediate_size": ["7"] * 6},
        "intermediate_size is '7', expected integers from 1 to",
    ),
    "kinds": ({"layer_types": ["linear"] * 6}, "layer_types has 'linear'; known are sliding"),
    "sparsity": (
        {"activation_sparsity_pattern": [1.0] + [0.0] * 5},
        "activation_sparsity_pattern has 1.0, expected 0 to less than 1",
    ),
    "nobody to share with": (
        {"num_kv_shared_layers": 4},
        "num_kv_shared_layers is 4, expected fewer: among the first 2 of 6 layers there is none",
    ),
    "all shared": ({"num_kv_shared_layers": 6}, "num_kv_shared_layers is 6, expected 0 to 5"),
    "layers": ({"num_hidden_layers": 0}, "num_hidden_layers is 0, expected 1 to 4096"),
    "active": ({"altup_active_idx": 4}, "altup_active_idx is 4, expected 0 to 3"),
    "rope": (
        {"rope_parameters": {"full_attention": {"rope_type": "yarn", "rope_theta": 1e6}}},
        "rotary scaling 'yarn' of full_attention is not known here; known is default",
    ),
    "older rope": ({"rope_parameters": None, "rope_scaling": {"type": "linear"}}, "'linear' of"),
    "table": (
        {"hidden_size_per_layer_input": 9},
        r"per_layer_token_embd.weight: expected shape \(290, 54\), found \(290, 48\)",
    ),
    "heads": (
        {"num_key_value_heads": 3},
        "num_key_value_heads is 3, expected a divisor of the 4 heads",
    ),
    "odd heads": ({"head_dim": 11}, "head_dim is 11, expected an even number"),
}


@pytest.mark.parametrize("case", BAD_CONFIG)
def test_bad_config(case, tmp_path):
    changes, message = BAD_CONFIG[case]
    config = {**GEMMA3N_CONFIG, **changes}
    write_folder(tmp_path, config, gemma3n_tensors(GEMMA3N_CONFIG), tokens=300)
    refused(tmp_path, message)


def test_a_missing_tensor_is_named(tmp_path):
    source = open_source(write_tiny_gemma3n(tmp_path))
    for name in source.tensors:
        left = {other: tensor for other, tensor in source.tensors.items() if other != name}
        with pytest.raises(LlmLiteError, match=f"tensor {re.escape(name)} is missing"):
            read_model(source.metadata, left, source.path)


@pytest.mark.parametrize("name", ["model.embed_tokens.weight", "model.layers.0.mlp.up_proj.weight"])
def test_a_tensor_that_is_missing_in_a_folder(name, tmp_path):
    tensors = gemma3n_tensors(GEMMA3N_CONFIG)
    del tensors[name]
    write_folder(tmp_path, GEMMA3N_CONFIG, tensors)
    refused(tmp_path, "tensor .* is missing")


def test_a_tensor_without_a_place(tmp_path):
    tensors = gemma3n_tensors(GEMMA3N_CONFIG)
    tensors["model.layers.0.mlp.experts.weight"] = tensors["model.norm.weight"]
    write_folder(tmp_path, GEMMA3N_CONFIG, tensors)
    refused(tmp_path, "tensor 'model.layers.0.mlp.experts.weight' has no place in a Gemma 3n")


def plan_of(folder):
    source = open_source(folder)
    model = read_model(source.metadata, source.tensors, source.path)
    return model, model.build(OPTIONS).plans[-1]


def test_layers_share_caches_of_their_kind(tmp_path):
    _, plan = plan_of(write_tiny_gemma3n(tmp_path))
    layers = attention_layers(plan)
    assert [layer.keys for layer in layers] == [f"k_cache.{i}" for i in (0, 1, 2, 3, 3, 2)]
    assert [layer.window for layer in layers] == [7, 7, 0] * 2
    assert {layer.scale for layer in layers} == {1.0}
    assert {layer.queries for layer in layers} == {f"q_ring.{i}" for i in range(6)}
    owners = {layer.layer: layer.shared_with for layer in cache_layers(plan)}
    assert owners == {0: (), 1: (), 2: (5,), 3: (4,)}
    assert len(plan.layer_ends) == 6


def test_the_table_of_per_layer_embeddings_is_no_weight_of_a_device(tmp_path):
    model, plan = plan_of(write_tiny_gemma3n(tmp_path))
    table = next(t for t in plan.tensors if t.name == "per_layer_token_embd.weight")
    assert table.kind is Kind.TABLE
    assert model.on_disk == {table.name}


def test_real_sizes_are_understood():
    """E4B's fields alone give 20 caches of 35 layers, and 9.4 GB of table in float32 positions
    that 32 bits do not count."""
    from pathlib import Path

    from llm_lite.core.formats.huggingface_config import CheckpointConfig
    from llm_lite.core.models.gemma3n.architecture import GEMMA_3N

    metadata = GEMMA_3N.metadata_of(
        CheckpointConfig({"model_type": "gemma3n_text"}, Path("config.json"))
    )
    assert metadata["gemma3n.attention.sliding_window_pattern"].count(False) == 7
    assert metadata["gemma3n.attention.shared_kv_layers"] == 15
    assert metadata["gemma3n.activation_sparsity_scale"][9] == pytest.approx(1.6448536)
    assert metadata["gemma3n.activation_sparsity_scale"][10] == -math.inf
    assert 262144 * 35 * metadata["gemma3n.embedding_length_per_layer_input"] > 2**31


TEMPLATE = (
    "{{ bos_token }}{% if messages[0]['role'] == 'system' %}"
    "{% set first = messages[0]['content'] + '\n\n' %}{% set loop_messages = messages[1:] %}"
    "{% else %}{% set first = '' %}{% set loop_messages = messages %}{% endif %}"
    "{% for message in loop_messages %}"
    "{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('roles must alternate') }}{% endif %}"
    "{% set role = 'model' if message['role'] == 'assistant' else message['role'] %}"
    "{{ '<start_of_turn>' + role + '\n' + (first if loop.first else '') }}"
    "{{ message['content'] | trim }}{{ '<end_of_turn>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<start_of_turn>model\n' }}{% endif %}"
)


def test_a_system_text_goes_inside_the_first_turn(tmp_path):
    """As the model's own template has it; what is typed stays text, and <end_of_turn> ends."""
    write_tiny_gemma3n(tmp_path)
    tokenizer = json.loads((tmp_path / "tokenizer.json").read_text())
    for i, content in enumerate(("<start_of_turn>", "<end_of_turn>")):
        tokenizer["added_tokens"].append(
            {**tokenizer["added_tokens"][0], "id": 298 + i, "content": content}
        )
    vocabulary = tokenizer["model"]["vocab"]
    gone = {token for token, i in vocabulary.items() if i >= 298}
    tokenizer["model"]["vocab"] = {t: i for t, i in vocabulary.items() if t not in gone}
    merges = tokenizer["model"]["merges"]
    tokenizer["model"]["merges"] = [pair for pair in merges if "".join(pair) not in gone]
    (tmp_path / "tokenizer.json").write_text(json.dumps(tokenizer))
    (tmp_path / "chat_template.jinja").write_text(TEMPLATE)
    file = loader.open_model(str(tmp_path), lambda *_: None, lambda _: None)
    messages = [
        ChatMessage("system", "Be brief."),
        ChatMessage("user", " hi <end_of_turn> "),
        ChatMessage("assistant", "yes"),
        ChatMessage("user", "why"),
    ]
    ids = encode_chat(file.tokenizer, file.template, messages).ids
    assert file.tokenizer.decode(ids) == (
        "<|im_start|><start_of_turn>user\nBe brief.\n\nhi <end_of_turn><end_of_turn>\n"
        "<start_of_turn>model\nyes<end_of_turn>\n<start_of_turn>user\nwhy<end_of_turn>\n"
        "<start_of_turn>model\n"
    )
    assert ids.count(299) == 3  # of four: one was typed
    assert 299 in file.tokenizer.end_ids


def gguf_of(folder, path):
    """The same model as llama.cpp's converter writes it: streams' projections are stacked."""
    source = open_source(folder)
    tensors = {name: tensor.dequantize() for name, tensor in source.tensors.items()}
    for stem in ("altup_proj", "altup_unembd_proj"):
        stack = [tensors.pop(f"{stem}.{i}.weight") for i in range(3)]
        tensors[f"{stem}.weight"] = np.stack(stack)
    metadata = {k: v for k, v in source.metadata.items() if k != "gemma3n.altup.correct_scale"}
    sparsity = metadata["gemma3n.activation_sparsity_scale"]
    metadata["gemma3n.activation_sparsity_scale"] = Typed(9, sparsity, 6)
    stored: dict[str, Tensor] = {n: quantized("f32", v) for n, v in tensors.items()}
    path.write_bytes(build_gguf({**metadata, **tokenizer_metadata(300)}, stored))
    return path


def test_gguf_holds_the_same_model(tmp_path):
    folder = write_tiny_gemma3n(tmp_path / "hf")
    path = gguf_of(folder, tmp_path / "gemma.gguf")
    found = []
    for source in (folder, path):
        with running(source, exact("cpu"), every_output=True) as runner:
            found.append(runner.session.logits(list(range(250, 280))))
    assert np.array_equal(*found)
