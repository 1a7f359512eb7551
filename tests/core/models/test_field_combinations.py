"""Fields that are each in range and do not fit together: one sentence, where a model is read."""

import json

import pytest

from llm_lite.core.errors import LlmLiteError
from llm_lite.core.loading.sources import open_source
from llm_lite.core.models.registry import complete, read_model
from tests.families import family_of
from tests.family_checks import write_case


def refused(folder, **fields):
    """What is said of a checkpoint with other fields in GGUF's terms."""
    source = open_source(folder)
    metadata = dict(source.metadata)
    prefix = metadata["general.architecture"]
    metadata |= {f"{prefix}.{key.replace('__', '.')}": value for key, value in fields.items()}
    with pytest.raises(LlmLiteError) as told:
        read_model(metadata, complete(metadata, source.tensors, source.path), source.path)
    return str(told.value)


def changed(folder, **fields):
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))
    with pytest.raises(LlmLiteError) as told:
        open_source(folder)
    return str(told.value)


def first_case(name, tmp_path, case=""):
    family = family_of(name)
    return write_case(family, case or next(iter(family.cases)), tmp_path / "m")


def test_heads_that_do_not_make_the_width_of_gpt_neox(tmp_path):
    folder = first_case("gpt_neox", tmp_path)
    said = refused(folder, attention__key_length=10)
    assert "attn_q.weight: expected shape (40, 48), found (48, 48)" in said
    said = refused(folder, attention__head_count_kv=2)
    assert "attn_k.weight: expected shape (24, 48), found (48, 48)" in said


@pytest.mark.parametrize("name", ["qwen3_5", "qwen3_5_moe", "qwen3_next", "lfm2", "lfm2_moe"])
def test_hybrids_without_a_layer_that_attends(name, tmp_path):
    folder = first_case(name, tmp_path)
    layers = json.loads((folder / "config.json").read_text())["num_hidden_layers"]
    kind = "conv" if name.startswith("lfm2") else "linear_attention"
    said = changed(folder, layer_types=[kind] * layers)
    assert f"layer_types is a list of {layers}, expected one" in said
    assert "that attends" in said


@pytest.mark.parametrize("name", ["qwen3_5", "qwen3_5_moe", "qwen3_next"])
def test_hybrids_in_gguf_without_a_layer_that_attends(name, tmp_path):
    assert "or more that attends" in refused(first_case(name, tmp_path), full_attention_interval=99)


@pytest.mark.parametrize("value", [0, None])
def test_a_mixture_that_chooses_no_expert(value, tmp_path):
    folder = first_case("gemma4_moe", tmp_path)
    assert "expert_used_count: expected 1 to" in refused(folder, expert_used_count=0)
    said = changed(folder, top_k_experts=value)
    assert "top_k_experts is" in said


def test_layers_that_share_keys_with_one_of_other_heads(tmp_path):
    folder = first_case("gemma4", tmp_path, "shared")
    heads = list(open_source(folder).metadata["gemma4.attention.head_count_kv"])
    heads[-1] = 1
    said = refused(folder, attention__head_count_kv=heads)
    assert "expected as many heads as in the layer whose keys and values it reads" in said
