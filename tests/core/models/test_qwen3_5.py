"""What Qwen3.5's files have besides the layers, and what does not fit."""

import json
import re

import pytest

from llm_lite.core.errors import FileError, UnsupportedError
from llm_lite.core.loading.sources import open_source
from llm_lite.core.models.registry import read_model
from tests.families import family_of
from tests.family_checks import write_case, write_gguf
from tests.runners import exact, running

FAMILY = family_of("qwen3_5")


def model_of(path):
    source = open_source(path)
    return read_model(source.metadata, source.tensors, source.path), source


def changed(folder, **fields):
    path = write_case(FAMILY, "plain", folder)
    config = json.loads((path / "config.json").read_text("utf-8"))
    (path / "config.json").write_text(json.dumps(config | fields), "utf-8")
    return path


def test_the_order_of_value_heads_is_the_files(tmp_path):
    write_gguf(FAMILY, "plain", tmp_path / "m.gguf")
    for path, tiled in (
        (tmp_path / "m.gguf", True),
        (write_case(FAMILY, "plain", tmp_path / "m"), False),
    ):
        model, _ = model_of(path)
        with running(path, exact("cpu")) as runner:
            ops = runner.executor.program.plans[0].ops
            assert {bool(op.params["tiled"]) for op in ops if op.name == "delta_rule"} == {tiled}
        assert model.shape.recurrent_layers == (0, 1, 2, 4) and model.shape.query_values == 64
        assert model.shape.state_bytes == 4 * 4 * (3 * 104 + 72 * 8)


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"layer_types": ["linear_attention"] * 4 + ["mamba"]}, "layer_types has 'mamba'"),
        (
            {"linear_num_value_heads": 5},
            "is 5, expected a multiple of the 2 key heads",
        ),
        ({"linear_conv_kernel_dim": 1}, "linear_conv_kernel_dim is 1, expected 2 to 16"),
        ({"linear_key_head_dim": 9}, r"attn_qkv.weight: expected shape \(108, 44\), found"),
        ({"linear_value_head_dim": 13}, r"expected shape \(110, 44\), found"),
        ({"layer_types": ["linear_attention"] * 5}, "layer_types is a list of 5, expected one of"),
        ({"layer_types": ["full_attention"] * 5}, "blk.0.attn_q.weight is missing"),
    ],
)
def test_fields_that_do_not_fit_are_told(tmp_path, fields, sentence):
    with pytest.raises((FileError, UnsupportedError), match=sentence):
        model_of(changed(tmp_path / "m", **fields))


def test_a_missing_convolution_is_told(tmp_path):
    path = write_case(FAMILY, "plain", tmp_path / "m")
    source, missing = open_source(path), "blk.1.ssm_conv1d.weight"
    tensors = {name: one for name, one in source.tensors.items() if name != missing}
    with pytest.raises(FileError, match=re.escape(f"{missing} is missing")):
        read_model(source.metadata, tensors, source.path)
