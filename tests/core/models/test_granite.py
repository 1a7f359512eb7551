"""Granite: which multipliers are refused."""

import pytest

from llm_lite.core.errors import FileError
from llm_lite.core.loading.sources import open_source
from tests.families import family_of
from tests.family_checks import write_case

GRANITE = family_of("granite")


@pytest.mark.parametrize(
    "field",
    ["embedding_multiplier", "residual_multiplier", "attention_multiplier", "logits_scaling"],
)
@pytest.mark.parametrize("value", [0, -1.0, 1e30, "2", True])
def test_bad_multipliers(field, value, tmp_path):
    folder = write_case(GRANITE, "plain", tmp_path, raw=True, **{field: value})
    with pytest.raises(FileError, match=f"config.json: {field} is .*, expected a number"):
        open_source(folder)
