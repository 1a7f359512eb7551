"""Granite: the logits of transformers, from checkpoints and from GGUF."""

import pytest

from llm_lite.core.errors import FileError
from llm_lite.core.loading.sources import open_source
from tests.families import family_of
from tests.family_checks import check_gguf, check_hub_config, check_logits, write_case
from tests.runners import BACKENDS

GRANITE = family_of("granite")


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("case", GRANITE.cases)
def test_logits(case, backend, tmp_path, request):
    device = request.getfixturevalue("device") if backend == "vulkan" else None
    check_logits(GRANITE, case, backend, tmp_path, device)


@pytest.mark.parametrize("case", GRANITE.cases)
def test_gguf_holds_the_same_model(case, tmp_path):
    check_gguf(GRANITE, case, tmp_path)


@pytest.mark.parametrize("case", GRANITE.cases)
def test_configs_of_the_hub(case, tmp_path):
    check_hub_config(GRANITE, case, tmp_path)


@pytest.mark.parametrize(
    "field",
    ["embedding_multiplier", "residual_multiplier", "attention_multiplier", "logits_scaling"],
)
@pytest.mark.parametrize("value", [0, -1.0, 1e30, "2", True])
def test_bad_multipliers(field, value, tmp_path):
    folder = write_case(GRANITE, "plain", tmp_path, raw=True, **{field: value})
    with pytest.raises(FileError, match=f"config.json: {field} is .*, expected a number"):
        open_source(folder)
