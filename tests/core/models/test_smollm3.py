"""SmolLM3: which layers rotate, and which configs are refused."""

import pytest

from llm_lite.core.errors import FileError
from llm_lite.core.loading.sources import open_source
from llm_lite.core.models.model import BuildOptions
from llm_lite.core.models.registry import read_model
from llm_lite.core.plan.attention_layers import attention_layers
from llm_lite.core.plan.builder import Bucket
from tests.families import family_of
from tests.family_checks import write_case

SMOLLM3 = family_of("smollm3")


@pytest.mark.parametrize(
    ("case", "rotary"),
    [("every fourth", [0, 1, 2, 4]), ("some", [1, 2, 4]), ("windows", [0, 2])],
)
def test_which_layers_rotate(case, rotary, tmp_path):
    source = open_source(write_case(SMOLLM3, case, tmp_path))
    options = BuildOptions(64, "f16", "f16", "f16", False, (Bucket(1, 1), Bucket(8, 1)), 16)
    model = read_model(source.metadata, source.tensors, source.path)
    plan = model.build(options).plans[-1]
    found = [op.label for op in plan.ops if op.name == "rope" and op.label.endswith("q_rope")]
    assert found == [f"layers.{layer}.attention.q_rope" for layer in rotary]
    windows = [layer.window for layer in attention_layers(plan)]
    assert windows == ([0, 5, 0, 5] if case == "windows" else [0] * 5)
    assert ("smollm3.rope.layer_pattern" in source.metadata) == (case != "every fourth")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"no_rope_layers": [1]}, "no_rope_layers is a list of 1, expected 5 values"),
        ({"no_rope_layers": None, "no_rope_layer_interval": 0}, "_interval is 0, expected 1 to"),
    ],
)
def test_bad_configs(changes, message, tmp_path):
    folder = write_case(SMOLLM3, "some", tmp_path, raw=True, **changes)
    with pytest.raises(FileError, match=message):
        open_source(folder)
