"""Qwen2: the logits of transformers, from checkpoints and from GGUF; what is refused."""

import pytest

from llm_lite.core.errors import LlmLiteError
from llm_lite.core.loading.sources import open_source
from llm_lite.core.models.registry import read_model
from tests.families import family_of
from tests.family_checks import write_case

QWEN2 = family_of("qwen2")


BAD = [
    ({"hidden_act": "relu"}, "hidden_act is 'relu': such a feed-forward is not known here"),
    ({"num_attention_heads": 7}, "num_key_value_heads is 2, expected a divisor of the 7 heads"),
]


@pytest.mark.parametrize(("changes", "message"), BAD)
def test_bad_configs(changes, message, tmp_path):
    folder = write_case(QWEN2, "plain", tmp_path, raw=True, **changes)
    with pytest.raises(LlmLiteError, match=message):
        source = open_source(folder)
        read_model(source.metadata, source.tensors, source.path)
