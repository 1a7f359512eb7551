"""BLOOM: the logits of transformers."""

import pytest

from tests.families import family_of
from tests.family_checks import check_gguf, check_hub_config, check_logits
from tests.runners import BACKENDS

BLOOM = family_of("bloom")


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("case", BLOOM.cases)
def test_logits(case, backend, tmp_path, request):
    device = request.getfixturevalue("device") if backend == "vulkan" else None
    check_logits(BLOOM, case, backend, tmp_path, device)


@pytest.mark.parametrize("case", BLOOM.cases)
def test_configs_of_the_hub(case, tmp_path):
    check_hub_config(BLOOM, case, tmp_path)


@pytest.mark.parametrize("case", BLOOM.cases)
def test_gguf_holds_the_same_model(case, tmp_path):
    check_gguf(BLOOM, case, tmp_path)
