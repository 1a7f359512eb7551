"""Qwen3: the logits of transformers, from a checkpoint and from GGUF; what is refused."""

import pytest

from llm_lite.core.errors import LlmLiteError
from llm_lite.core.loading.sources import open_source
from llm_lite.core.models.registry import read_model
from tests.families import family_of
from tests.family_checks import write_case

QWEN3 = family_of("qwen3")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"attention_bias": True}, "attention_bias is true: biases are not known here"),
        ({"max_window_layers": -1}, "max_window_layers is -1, expected 0 to"),
        ({"layer_types": ["full_attention"]}, "layer_types is a list of 1, expected 3 values"),
    ],
)
def test_bad_configs(changes, message, tmp_path):
    changes = {"layer_types": None, **changes}
    folder = write_case(QWEN3, "windows", tmp_path, raw=True, **changes)
    with pytest.raises(LlmLiteError, match=message):
        source = open_source(folder)
        read_model(source.metadata, source.tensors, source.path)
