"""What LFM2's files say of their layers, and what does not fit."""

import json
import re

import numpy as np
import pytest

from llm_lite.core.errors import FileError, UnsupportedError
from llm_lite.core.loading.sources import open_source
from llm_lite.core.models.registry import architecture_of, read_model
from tests.families import family_of
from tests.family_checks import reference, write_case, write_gguf
from tests.runners import exact, running

FAMILY = family_of("lfm2")
HEADS = "lfm2.attention.head_count_kv"


def model_of(source, **metadata):
    return read_model({**source.metadata, **metadata}, source.tensors, source.path)


def changed(folder, case="plain", **fields):
    """A checkpoint; fields that are None are left out."""
    path = write_case(FAMILY, case, folder, raw=True)
    config = json.loads((path / "config.json").read_text("utf-8")) | fields
    left = {name: value for name, value in config.items() if value is not None}
    (path / "config.json").write_text(json.dumps(left), "utf-8")
    return path


@pytest.fixture(scope="module")
def gguf(tmp_path_factory):
    path = tmp_path_factory.mktemp("lfm2") / "m.gguf"
    write_gguf(FAMILY, "plain", path)
    return open_source(path)


def test_a_gguf_says_by_heads_of_keys_which_layers_convolve(gguf):
    assert list(gguf.metadata[HEADS]) == [0, 0, 2, 0, 2]
    assert gguf.tensors["blk.0.shortconv.conv.weight"].dtype == "f32"
    shape = model_of(gguf).shape
    assert (shape.recurrent_layers, shape.kv_heads) == ((0, 1, 3), 2)
    assert shape.state_bytes == 4 * 3 * 2 * 48 and shape.query_values == 2 * 48


@pytest.mark.parametrize(
    "backend", ["numpy", "cpu", pytest.param("vulkan", marks=pytest.mark.vulkan)]
)
@pytest.mark.parametrize("case", FAMILY.cases)
def test_logits_in_chunks_of_one_size(case, backend, tmp_path, request):
    device = request.getfixturevalue("device") if backend == "vulkan" else None
    known, path = reference(FAMILY, case), write_case(FAMILY, case, tmp_path)
    with running(path, exact(backend), device=device, every_output=True) as runner:
        for size in (1, 7, 64):
            runner.session.clear()
            for end in [*range(size, 80, size), 80]:
                found = runner.session.prefill(known.tokens[:end])
                assert np.abs(found - known.logits[end - 1]).max() < 2e-3, (size, end)


@pytest.mark.parametrize(
    ("fields", "width"),
    [
        ({}, 96),
        ({"block_multiple_of": 5}, 70),
        ({"block_ffn_dim_multiplier": 0.5}, 64),
        ({"block_auto_adjust_ff_dim": False}, 100),
        ({"block_ff_dim": None, "intermediate_size": 40}, 32),
    ],
)
def test_the_width_of_feed_forwards_follows_the_config(tmp_path, fields, width):
    """As transformers computes it: of 100 two thirds, times the factor, in whole blocks."""
    if width == 96:
        source = open_source(changed(tmp_path / "m", **fields))
        assert model_of(source).shape.feed_forward == 96
        return
    with pytest.raises(FileError, match=rf"ffn_gate.weight: expected shape \({width}, 48\)"):
        model_of(open_source(changed(tmp_path / "m", **fields)))


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"layer_types": ["conv"] * 4 + ["mamba"]}, "'mamba'; known are conv and full_attention"),
        ({"layer_types": ["conv"] * 5}, "layer_types is .*, expected one layer or more that"),
        ({"full_attn_idxs": []}, "full_attn_idxs is .*, expected one layer or more that attends"),
        ({"full_attn_idxs": [5]}, r"full_attn_idxs is .*, expected a list of 0 to 4"),
        ({"full_attn_idxs": "all"}, "full_attn_idxs is 'all', expected a list of 0 to 4"),
        ({"conv_L_cache": 1}, "conv_L_cache is 1, expected 2 to 16"),
        ({"conv_L_cache": 17}, "conv_L_cache is 17, expected 2 to 16"),
        ({"conv_L_cache": 4}, r"shortconv.conv.weight: expected shape \(192,\), found \(144,\)"),
        ({"num_key_value_heads": 3}, "num_key_value_heads is 3, expected a divisor of the 4"),
        ({"architectures": ["Lfm2BidirectionalModel"]}, "sees later tokens, is not known here"),
        ({"full_attn_idxs": [1, 2]}, "blk.1.attn_q.weight is missing"),
        ({"full_attn_idxs": [4]}, "blk.2.shortconv.in_proj.weight is missing"),
    ],
)
def test_fields_of_a_config_that_do_not_fit_are_told(tmp_path, fields, sentence):
    with pytest.raises((FileError, UnsupportedError), match=sentence):
        model_of(open_source(changed(tmp_path / "m", **fields)))


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({HEADS: [0, 0, 2, 0, 1]}, f"{HEADS}: expected one number in all layers that attend"),
        ({HEADS: [0] * 5}, f"{HEADS}: expected one number in all layers that attend"),
        ({HEADS: [0, 0, 3, 0, 3]}, f"{HEADS}: expected a divisor of the 4 heads, found 3"),
        ({HEADS: [0, 2]}, f"{HEADS}: expected 5 values, one a layer"),
        ({HEADS: [0, 0, 2, 0, -2]}, f"{HEADS}: expected integers from 0 to 4"),
        ({HEADS: 2}, "blk.0.attn_q.weight is missing"),
        ({"lfm2.shortconv.l_cache": 1}, "lfm2.shortconv.l_cache: expected 2 to 16, found 1"),
        ({"lfm2.shortconv.l_cache": "3"}, "lfm2.shortconv.l_cache: expected an integer"),
        ({"lfm2.pooling_type": 2}, "lfm2.pooling_type: vectors of texts by a LFM2 model with rec"),
        ({"lfm2.attention.causal": False}, "lfm2.attention.causal: expected true, found false"),
        ({"lfm2.expert_count": 8}, "lfm2.expert_count: mixtures of experts are not"),
    ],
)
def test_fields_of_a_gguf_that_do_not_fit_are_told(gguf, fields, sentence):
    with pytest.raises((FileError, UnsupportedError), match=sentence):
        model_of(gguf, **fields)


@pytest.mark.parametrize("missing", ["conv", "in_proj", "out_proj"])
def test_a_missing_convolution_is_told(gguf, missing):
    name = f"blk.3.shortconv.{missing}.weight"
    tensors = {other: one for other, one in gguf.tensors.items() if other != name}
    with pytest.raises(FileError, match=re.escape(f"tensor {name} is missing")):
        read_model(gguf.metadata, tensors, gguf.path)


@pytest.mark.parametrize("fields", [{"tie_embedding": False}, {"tie_word_embeddings": False}])
def test_a_head_of_its_own_is_used_by_either_name_of_the_field(tmp_path, fields):
    case = "odd heads and biases"
    other = {"tie_word_embeddings": None} | fields
    source = open_source(changed(tmp_path / "m", case, **other))
    assert "output.weight" in source.tensors
    assert architecture_of(source.metadata, source.path).title == "LFM2"
