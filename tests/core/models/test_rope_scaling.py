"""Rotary scalings: the context chooses factors; models without rotary positions read none."""

import json
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from gguf import RopeScalingType

from llm_lite.core.errors import LlmLiteError
from llm_lite.core.loading.sources import open_source
from llm_lite.core.models.registry import ARCHITECTURES
from tests import seq2seq_checks
from tests.families import family_of
from tests.family_checks import TOLERANCE, reference, write_case
from tests.runners import exact, running

LLAMA = family_of("llama")


def test_the_context_that_is_opened_chooses_the_factors(tmp_path):
    """Opened with more, the shorter text is computed with the longer factors."""
    case = "longrope within the shorter context"
    known = reference(LLAMA, case)
    path = write_case(LLAMA, case, tmp_path)
    with running(path, exact("cpu", context=64), every_output=True) as runner:
        logits = runner.session.logits(known.tokens)
        assert "those of up to 16 tokens are more exact in a context of 16" in runner.note
    assert np.abs(logits - known.logits).max() > 0.05


def test_the_default_context_is_the_one_that_short_texts_are_exact_in(tmp_path):
    case = "longrope within the shorter context"
    known = reference(LLAMA, case)
    with running(write_case(LLAMA, case, tmp_path), exact("cpu"), every_output=True) as runner:
        assert (runner.session.context, runner.model_info.trained_context) == (16, 64)
        assert runner.note == ""
        logits = runner.session.logits(known.tokens)
    assert np.abs(logits - known.logits).max() < TOLERANCE


@pytest.mark.parametrize("kind", ["llama3", "longrope", "yarn", "another"])
@pytest.mark.parametrize("name", ["t5", "marian"])
def test_models_without_rotary_positions_read_no_scaling(name, kind, tmp_path):
    """As in transformers: there is nothing that it could scale."""
    family = import_module(f"tests.fixtures.seq2seq.{name}").FAMILY
    folder = seq2seq_checks.write_case(family, next(iter(family.cases)), tmp_path / "m")
    plain = set(open_source(folder).tensors)
    config = json.loads((folder / "config.json").read_text())
    config["rope_scaling"] = {"rope_type": kind, "factor": 8.0, "low_freq_factor": 1.0}
    (folder / "config.json").write_text(json.dumps(config))
    assert set(open_source(folder).tensors) == plain


@pytest.mark.parametrize("name", ["t5", "marian", "gemma3n", "gemma4"])
def test_a_file_that_scales_what_its_model_does_not_is_refused(name):
    architecture = ARCHITECTURES[name]
    metadata = {f"{name}.rope.scaling.type": "yarn", f"{name}.rope.scaling.factor": 4.0}
    with pytest.raises(
        LlmLiteError, match=rf"{name}\.rope\.scaling\.type is 'yarn', expected none"
    ):
        architecture.config_of(metadata, {}, Path("m.gguf"))


@pytest.mark.parametrize("kind", ["none", "yarn"])
def test_a_t5_file_may_name_a_scaling_and_is_never_a_traceback(kind, tmp_path):
    path = tmp_path / "t5.gguf"
    family = import_module("tests.fixtures.seq2seq.t5").FAMILY
    seq2seq_checks.write_t5_gguf(
        family, "plain", path, lambda writer: writer.add_rope_scaling_type(RopeScalingType(kind))
    )
    if kind == "none":
        assert open_source(path).tensors
    else:
        with pytest.raises(LlmLiteError, match="expected none: a T5 model has no such positions"):
            open_source(path)
