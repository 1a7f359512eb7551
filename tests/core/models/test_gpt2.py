"""GPT-2: the logits of transformers, from checkpoints and from GGUF; what is refused."""

import pytest

from llm_lite.core.errors import LlmLiteError
from llm_lite.core.loading.sources import open_source
from llm_lite.core.models.registry import read_model
from tests.families import family_of
from tests.family_checks import write_case

GPT_2 = family_of("gpt2")


BAD = [
    ({"activation_function": "relu"}, "activation_function is 'relu': such a feed-forward is not"),
    ({"scale_attn_by_inverse_layer_idx": True}, "scores that layers scale are not known here"),
]


@pytest.mark.parametrize(("changes", "message"), BAD)
def test_bad_configs(changes, message, tmp_path):
    folder = write_case(GPT_2, "plain", tmp_path, raw=True, **changes)
    with pytest.raises(LlmLiteError, match=message):
        source = open_source(folder)
        read_model(source.metadata, source.tensors, source.path)
