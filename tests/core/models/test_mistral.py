"""Mistral: what views are told of its windows."""

import pytest

from llm_lite.core.loading.sources import open_source
from llm_lite.core.models.model import BuildOptions
from llm_lite.core.models.registry import read_model
from llm_lite.core.plan.attention_layers import attention_layers
from llm_lite.core.plan.builder import Bucket
from llm_lite.core.plan.cache_layers import cache_layers
from tests.families import family_of
from tests.family_checks import write_case

MISTRAL = family_of("mistral")


@pytest.mark.parametrize(("window", "seen"), [(5, 5), (63, 63), (64, 0), (4096, 0), (None, 0)])
def test_what_views_are_told(window, seen, tmp_path):
    """A window as long as the context is none."""
    source = open_source(write_case(MISTRAL, "window", tmp_path, raw=True, sliding_window=window))
    options = BuildOptions(64, "f16", "f16", "f16", False, (Bucket(1, 1), Bucket(8, 1)), 16)
    model = read_model(source.metadata, source.tensors, source.path)
    plan = model.build(options).plans[-1]
    assert [layer.window for layer in attention_layers(plan)] == [seen] * 3
    rows = min(64, seen + 8) if seen else 64
    assert {layer.rows for layer in cache_layers(plan)} == {rows}
