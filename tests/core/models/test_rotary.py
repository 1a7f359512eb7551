"""Frequencies and magnitudes of rotary positions, as files say them: transformers stored the right
values (tests/fixtures/make_rotary.py)."""

import json
from pathlib import Path

import numpy as np
import pytest

from llm_lite.core.errors import LlmLiteError
from llm_lite.core.formats.huggingface_config import CheckpointConfig
from llm_lite.core.models.description import rope
from llm_lite.core.models.description.rows import GgufFields
from llm_lite.core.models.registry import ARCHITECTURES, architecture_by_config
from tests.paths import FIXTURES

STORED = json.loads((FIXTURES / "rotary.json").read_text())
PATH = Path("config.json")
SIZES = {
    "model_type": "llama",
    **{key: value for key, value in STORED["plain"]["config"].items() if key != "rope_theta"},
}
GGUF = {
    "general.architecture": "llama",
    "llama.block_count": 1,
    "llama.context_length": 256,
    "llama.embedding_length": 64,
    "llama.feed_forward_length": 16,
    "llama.attention.head_count": 4,
    "llama.attention.layer_norm_rms_epsilon": 1e-5,
}


class Vocabulary:
    shape = (8, 64)


def fields_of(architecture, metadata):
    known = architecture._known(GgufFields(metadata, PATH, f"{architecture.gguf}."))[0]
    return architecture.config(**known, vocabulary=8, **more(architecture))


def more(architecture):
    return {"has_both": False} if "has_both" in architecture.config.__struct_fields__ else {}


def frequencies(fields, tensors, name):
    """[rotary_dim/2], as `rotate` of core/models/blocks.py has the op compute them."""
    pairs = fields.rotary_dim // 2
    plain = fields.theta ** -(np.arange(pairs) / pairs)
    plain = plain / fields.scaling_factor if fields.scaling == "linear" else plain
    by = tensors.get(rope.FACTORS, tensors.get(name))
    return plain if by is None else plain / by.dequantize()


def read(kind, said):
    config = CheckpointConfig({**said, "model_type": kind}, PATH)
    architecture = architecture_by_config(config)
    text = architecture.with_defaults(config)
    metadata, known = architecture._metadata(text)
    fields = fields_of(architecture, metadata)
    made = [*architecture.of_config(text, known), *architecture.of_fields(fields)]
    return fields, {tensor.name: tensor for tensor in made}


@pytest.mark.parametrize("case", STORED)
def test_configs_say_the_frequencies_that_transformers_computes(case):
    known = STORED[case]
    fields, tensors = read(known["model_type"], known["config"])
    longer = rope.LONG if fields.original_context < 200 else rope.SHORT  # than the longer text
    for length, name in (("short", rope.SHORT), ("long", longer)):
        np.testing.assert_allclose(frequencies(fields, tensors, name), known[length], rtol=3e-6)
    assert fields.rotary_magnitude == pytest.approx(known["magnitude"], rel=1e-6)


@pytest.mark.parametrize(
    ("said", "same"),
    [
        ({"rope.scaling.factor": 4.0}, {"type": "linear", "factor": 4.0}),
        ({"rope.scale_linear": 4.0}, {"type": "linear", "factor": 4.0}),
        ({"rope.scaling.type": "none", "rope.scaling.factor": 4.0}, {}),
        ({"rope.scaling.factor": 0.0}, {}),
        ({"rope.scaling.finetuned": True}, {}),
        ({"rope.scaling.yarn_ext_factor": -1.0, "rope.scaling.yarn_attn_factor": 1.0}, {}),
    ],
)
def test_fields_of_gguf_as_llama_cpp_reads_them(said, same):
    metadata = GGUF | {f"llama.{key}": value for key, value in said.items()}
    ARCHITECTURES["llama"]._check_scaling(metadata, PATH)
    fields = fields_of(ARCHITECTURES["llama"], metadata)
    expected, tensors = read("llama", {**SIZES, "rope_scaling": same})
    np.testing.assert_array_equal(
        frequencies(fields, {}, rope.SHORT), frequencies(expected, tensors, rope.SHORT)
    )


@pytest.mark.parametrize(
    ("key", "value"),
    [("alpha", 1000.0), ("yarn_ext_factor", 0.5), ("yarn_attn_factor", 0.7)],
)
def test_fields_of_gguf_that_would_be_passed_over_are_named(key, value):
    metadata = GGUF | {f"llama.rope.scaling.{key}": value}
    with pytest.raises(LlmLiteError, match=rf"llama\.rope\.scaling\.{key} is {value:g}.*"):
        ARCHITECTURES["llama"]._check_scaling(metadata, PATH)


@pytest.mark.parametrize("name", ["gemma3n", "gemma4"])
@pytest.mark.parametrize(
    ("kind", "factor", "taken"),
    [("linear", 8.0, False), (None, 8.0, False), ("linear", 1.0, True), (None, 0.0, True)],
)
def test_scalings_of_gguf_where_nothing_is_scaled(name, kind, factor, taken):
    metadata = {f"{name}.rope.scaling.factor": factor}
    metadata |= {} if kind is None else {f"{name}.rope.scaling.type": kind}
    if taken:
        ARCHITECTURES[name]._check_scaling(metadata, PATH)
    else:
        with pytest.raises(LlmLiteError, match=rf"{name}\.rope\.scaling\.(type|factor) is"):
            ARCHITECTURES[name]._check_scaling(metadata, PATH)


@pytest.mark.parametrize(
    ("scaling", "unread"),
    [
        ({"rope_type": "linear", "factor": 2.0, "factorr": 3.0}, ["factorr"]),
        ({"factor": 2.0}, ["factor"]),
        ({"rope_type": "yarn", "factor": 2.0, "extrapolation_factor": 1, "finetuned": True}, []),
        ({"rope_type": "yarn", "factor": 2.0, "low_freq_factor": 2.0}, ["low_freq_factor"]),
        ({"type": "mrope", "mrope_section": [2, 3, 3]}, []),
        ({"type": "dynamic", "factor": 2.0}, []),
    ],
)
def test_fields_of_configs_that_are_not_read_are_named(scaling, unread):
    config = CheckpointConfig({**SIZES, "rope_scaling": scaling}, PATH)
    assert rope.unread(config) == unread


@pytest.mark.parametrize("kind", ["gemma3_text", "gemma4_text"])
@pytest.mark.parametrize(
    ("scaling", "taken"),
    [
        ({"rope_type": "linear", "factor": 1.0}, True),
        ({"rope_type": "dynamic", "factor": 4.0}, True),
        ({"type": "default"}, True),
        ({"rope_type": "linear", "factor": 2.0}, False),
        ({"type": "linear", "factor": 2.0}, False),
    ],
)
def test_scalings_of_layers_with_windows(kind, scaling, taken):
    whole = json.loads((FIXTURES / "config_defaults.json").read_text())[kind]["config"]
    own = {"sliding_attention": scaling, "full_attention": {"rope_type": "default"}}
    config = CheckpointConfig({**whole, "model_type": kind, "rope_parameters": own}, PATH)
    if taken:
        assert architecture_by_config(config).metadata_of(config)
    else:
        with pytest.raises(LlmLiteError, match="such a rotary scaling of windows is"):
            architecture_by_config(config).metadata_of(config)
