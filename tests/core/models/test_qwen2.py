"""Qwen2: the logits of transformers, from checkpoints and from GGUF; what is refused."""

import pytest

from llm_lite.core.errors import LlmLiteError
from llm_lite.core.loading.sources import open_source
from llm_lite.core.models.registry import read_model
from tests.families import family_of
from tests.family_checks import check_gguf, check_hub_config, check_logits, check_rings, write_case
from tests.runners import BACKENDS

QWEN2 = family_of("qwen2")


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("case", QWEN2.cases)
def test_logits(case, backend, tmp_path, request):
    device = request.getfixturevalue("device") if backend == "vulkan" else None
    check_logits(QWEN2, case, backend, tmp_path, device)


@pytest.mark.parametrize("case", ["plain", "tied", "yarn"])
def test_gguf_holds_the_same_model(case, tmp_path):
    check_gguf(QWEN2, case, tmp_path)


@pytest.mark.parametrize("case", QWEN2.cases)
def test_configs_of_the_hub(case, tmp_path):
    check_hub_config(QWEN2, case, tmp_path)


def test_windows_in_rings(tmp_path):
    check_rings(QWEN2, "windows", tmp_path)


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
