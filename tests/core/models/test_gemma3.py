"""Gemma 3: what views are told of its layers, and which fields have defaults."""

import json

import pytest

from llm_lite.core.loading.sources import open_source
from llm_lite.core.models.model import BuildOptions
from llm_lite.core.models.registry import architecture_of, read_model
from llm_lite.core.plan.attention_layers import attention_layers
from llm_lite.core.plan.builder import Bucket
from tests.families import family_of
from tests.family_checks import write_case

GEMMA_3 = family_of("gemma3")


def test_what_views_are_told(tmp_path):
    source = open_source(write_case(GEMMA_3, "capped", tmp_path))
    model = read_model(source.metadata, source.tensors, source.path)
    options = BuildOptions(64, "f16", "f16", "f16", False, (Bucket(1, 1),), 16)
    layers = attention_layers(model.build(options).plans[0])
    assert [layer.window for layer in layers] == [5, 0, 5]
    assert [layer.scale for layer in layers] == [pytest.approx(24**-0.5)] * 3


def test_capped_scores(tmp_path):
    source = open_source(write_case(GEMMA_3, "capped scores", tmp_path))
    model = read_model(source.metadata, source.tensors, source.path)
    options = BuildOptions(64, "f16", "f16", "f16", False, (Bucket(1, 1),))
    layers = attention_layers(model.build(options).plans[0])
    assert [layer.softcap for layer in layers] == [1.5] * 2


def test_the_text_model_of_4b_leaves_most_fields_out(tmp_path):
    """Its config.json has six fields; the others are defaults."""
    text = {
        "hidden_size": 2560,
        "intermediate_size": 10240,
        "model_type": "gemma3_text",
        "num_hidden_layers": 34,
        "rope_scaling": {"factor": 8.0, "rope_type": "linear"},
        "sliding_window": 1024,
    }
    folder = write_case(GEMMA_3, "plain", tmp_path)
    source = open_source(folder)
    architecture = architecture_of(source.metadata, folder)
    config = source.folder.fields.__class__(text, folder / "config.json")
    metadata = {k.removeprefix("gemma3."): v for k, v in architecture.metadata_of(config).items()}
    assert metadata["attention.head_count"] == 8
    assert metadata["attention.head_count_kv"] == 4
    assert metadata["attention.key_length"] == 256
    assert metadata["attention.sliding_window"] == 1024
    assert metadata["attention.sliding_window_pattern"].count(False) == 5
    assert metadata["attention.scale"] == 1 / 16
    assert metadata["rope.freq_base"] == 1e6
    assert metadata["rope.freq_base_swa"] == 1e4
    assert (metadata["rope.scaling.type"], metadata["rope.scaling.factor"]) == ("linear", 8.0)
    json.dumps(metadata)
