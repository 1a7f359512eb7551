"""Gemma 2: what views are told of its layers."""

from llm_lite.core.loading.sources import open_source
from llm_lite.core.models.model import BuildOptions
from llm_lite.core.models.registry import read_model
from llm_lite.core.plan.attention_layers import attention_layers
from llm_lite.core.plan.builder import Bucket
from tests.families import family_of
from tests.family_checks import write_case

GEMMA_2 = family_of("gemma2")


def test_what_views_are_told(tmp_path):
    source = open_source(write_case(GEMMA_2, "plain", tmp_path))
    model = read_model(source.metadata, source.tensors, source.path)
    options = BuildOptions(64, "f16", "f16", "f16", False, (Bucket(1, 1),), 16)
    layers = attention_layers(model.build(options).plans[0])
    assert [layer.window for layer in layers] == [5, 0, 5]
    assert [layer.softcap for layer in layers] == [1.5] * 3
