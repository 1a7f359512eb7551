"""Rotary positions beyond the context that they were trained for: the logits of transformers."""

import numpy as np
import pytest

from llm_lite.core.errors import LlmLiteError
from llm_lite.core.loading.sources import open_source
from tests.families import family_of
from tests.family_checks import check_gguf, check_hub_config, check_logits, reference, write_case
from tests.fixtures.families.llama import LONG, YARN
from tests.runners import BACKENDS, exact, running

LLAMA = family_of("llama")


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("case", LLAMA.cases)
def test_logits(case, backend, tmp_path, request):
    device = request.getfixturevalue("device") if backend == "vulkan" else None
    check_logits(LLAMA, case, backend, tmp_path, device)


@pytest.mark.parametrize("case", ["linear", "yarn"])
def test_gguf_holds_the_same_model(case, tmp_path):
    check_gguf(LLAMA, case, tmp_path)


@pytest.mark.parametrize("case", LLAMA.cases)
def test_configs_of_the_hub(case, tmp_path):
    check_hub_config(LLAMA, case, tmp_path)


def test_the_context_that_is_opened_chooses_the_factors(tmp_path):
    """Opened with more, the shorter text is computed with the longer factors."""
    case = "longrope within the shorter context"
    known = reference(LLAMA, case)
    with running(write_case(LLAMA, case, tmp_path), exact("cpu"), every_output=True) as runner:
        logits = runner.session.logits(known.tokens)
    assert np.abs(logits - known.logits).max() > 0.05


BAD = {
    "factor": ({**YARN, "factor": 0}, "factor is 0, expected a number from"),
    "original": (
        {**YARN, "original_max_position_embeddings": 0},
        "original_max_position_embeddings is 0, expected 1 to",
    ),
    "few factors": ({**LONG, "long_factor": [1.0]}, "long_factor is a list of 1, expected 5"),
    "no factors": ({**LONG, "short_factor": None}, "short_factor is missing"),
    "factors of nothing": ({**LONG, "short_factor": [0] * 5}, "short_factor is .*, expected numb"),
    "another": ({"rope_type": "ntk"}, "scaling 'ntk' is not known here; known are default, linear"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_scalings(case, tmp_path):
    scaling, message = BAD[case]
    folder = write_case(LLAMA, "yarn", tmp_path, raw=True, rope_scaling=scaling)
    with pytest.raises(LlmLiteError, match=message):
        open_source(folder)
