"""gpt-oss as it is published: experts packed in MXFP4, two tensors for each of their matrices."""

import numpy as np
import pytest

from llm_lite.core.errors import LlmLiteError
from llm_lite.core.loading.sources import open_source
from llm_lite.core.quant.blocks.code_tables import MXFP4
from tests.families import VOCABULARY, family_of
from tests.family_checks import TOLERANCE, reference
from tests.make_huggingface import write_folder
from tests.make_safetensors import entry
from tests.runners import exact, running

FAMILY = family_of("gpt_oss")
NUMBERS = [0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6]
CHANGES = {"hidden_size": 64, "quantization_config": {"quant_method": "mxfp4"}}


def packed(rng, experts, rows, columns):
    """Codes and exponents, and the values that they stand for [experts, rows, columns]."""
    codes = rng.integers(0, 16, (experts, rows, columns // 32, 32)).astype(np.uint8)
    exponents = rng.integers(120, 125, codes.shape[:-1]).astype(np.uint8)
    blocks = codes[..., ::2] | codes[..., 1::2] << 4
    scales = np.ldexp(1.0, exponents.astype(int) - 127)[..., None]
    values = np.array(NUMBERS)[codes] * scales
    return blocks, exponents, values.reshape(experts, rows, columns).astype(np.float32)


def folders(place):
    """The same model twice: packed, and with floats as transformers writes them."""
    known, rng = reference(FAMILY, "plain"), np.random.default_rng(0)
    config = {**known.config, **CHANGES}
    wide = {48: 64}
    floats, as_published = {}, {}
    for name, shape in known.shapes.items():
        last = name.rpartition(".experts.")[2]
        shape = tuple(wide.get(size, size) for size in shape)
        if last in ("gate_up_proj", "down_proj"):
            experts, inputs, outputs = shape
            blocks, exponents, values = packed(rng, experts, outputs, inputs)
            as_published[f"{name}_blocks"] = ("U8", blocks.shape, blocks.tobytes())
            as_published[f"{name}_scales"] = ("U8", exponents.shape, exponents.tobytes())
            floats[name] = entry(np.ascontiguousarray(values.swapaxes(1, 2)))
        else:
            floats[name] = as_published[name] = entry(FAMILY.values(name, shape, "plain"))
    plain = {key: value for key, value in config.items() if key != "quantization_config"}
    return (
        write_folder(place / "packed", config, as_published, tokens=VOCABULARY),
        write_folder(place / "floats", plain, floats, tokens=VOCABULARY),
    )


def test_packed_experts_are_used_as_they_are(tmp_path):
    tokens, logits = reference(FAMILY, "plain").tokens, []
    for folder in folders(tmp_path):
        with running(folder, exact("cpu", mode="as-stored"), every_output=True) as runner:
            logits.append(runner.session.logits(tokens))
            dtype = runner.weights["blk.0.ffn_up_exps.weight"].dtype
            assert dtype == ("mxfp4" if folder.name == "packed" else "f32")
    assert np.abs(logits[0] - logits[1]).max() < TOLERANCE


def test_what_does_not_fit_of_packed_experts_is_named(tmp_path):
    known = reference(FAMILY, "plain")
    config = {**known.config, **CHANGES}
    name = "model.layers.1.mlp.experts.down_proj"
    codes = np.zeros((5, 64, 1, MXFP4.BLOCK_SIZE // 2), np.uint8)
    blocks = ("U8", codes.shape, codes.tobytes())
    for scales, expected in (
        ({}, f"tensor {name}_scales is missing"),
        ({f"{name}_scales": ("U8", (5, 63, 1), bytes(315))}, f"tensor {name}_blocks: expected U8"),
    ):
        tensors = {f"{name}_blocks": blocks, **scales}
        with pytest.raises(LlmLiteError, match=expected):
            open_source(write_folder(tmp_path / "bad", config, tensors, tokens=VOCABULARY))
