"""GPT1: the logits of transformers."""

import pytest

from tests.families import family_of
from tests.family_checks import check_hub_config, check_logits
from tests.runners import BACKENDS

GPT1 = family_of("gpt1")


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("case", GPT1.cases)
def test_logits(case, backend, tmp_path, request):
    device = request.getfixturevalue("device") if backend == "vulkan" else None
    check_logits(GPT1, case, backend, tmp_path, device)


@pytest.mark.parametrize("case", GPT1.cases)
def test_configs_of_the_hub(case, tmp_path):
    check_hub_config(GPT1, case, tmp_path)
