"""Ministral 3: its whole context is open, its queries grow, its towers are left out."""

import numpy as np
import pytest

from llm_lite.core.errors import RequestError
from llm_lite.core.loading import loader
from llm_lite.core.loading.sources import open_source
from llm_lite.core.models.model import BuildOptions
from llm_lite.core.models.registry import read_model
from llm_lite.core.plan.builder import Bucket
from tests.families import VOCABULARY, family_of
from tests.family_checks import TOLERANCE, reference, write_case
from tests.make_huggingface import write_folder
from tests.make_safetensors import entry
from tests.runners import exact, running

MINISTRAL_3 = family_of("ministral3")


def test_the_whole_context_is_open(tmp_path):
    path = write_case(MINISTRAL_3, "plain", tmp_path)
    with running(path) as runner:
        assert (runner.model_info.context, runner.model_info.trained_context) == (128, 128)
    with pytest.raises(RequestError, match="at most 128 tokens"), running(path, exact(context=129)):
        pass


def test_queries_alone_grow(tmp_path):
    source = open_source(write_case(MINISTRAL_3, "beyond the first context", tmp_path))
    model = read_model(source.metadata, source.tensors, source.path)
    plan = model.build(BuildOptions(64, "f16", "f16", "f16", False, (Bucket(1, 1),))).plans[0]
    ropes = {op.label.rsplit(".", 1)[-1]: op.params for op in plan.ops if op.name == "rope"}
    assert (ropes["q_rope"]["temperature"], ropes["q_rope"]["temperature_length"]) == (0.4, 5)
    assert ropes["k_rope"]["temperature"] == 0


def test_the_text_model_of_a_multimodal_checkpoint(tmp_path):
    """Its towers are left out, with a note; fields that its config leaves out are the defaults."""
    known = reference(MINISTRAL_3, "plain")
    one = entry(np.ones((2, 3), np.float32))
    tensors = {
        "model.vision_tower.patch_conv.weight": one,
        "model.multi_modal_projector.linear_1.weight": one,
    }
    for name, shape in known.shapes.items():
        own = name.replace("model.", "model.language_model.", 1)
        tensors[own] = entry(MINISTRAL_3.values(name, shape))
    left_out = ("hidden_act", "tie_word_embeddings", "sliding_window")
    text = {key: value for key, value in known.config.items() if key not in left_out}
    config = {"model_type": "mistral3", "text_config": text, "vision_config": {}}
    write_folder(tmp_path, config, tensors, tokens=VOCABULARY)
    notes = []
    file = loader.open_model(str(tmp_path), lambda *_: None, notes.append)
    runner = loader.start(file, exact("cpu"), None, lambda *_: None, every_output=True)
    logits = runner.session.logits(known.tokens)
    runner.close()
    file.close()
    assert np.abs(logits - known.logits).max() < TOLERANCE
    note = "the vision tower (2 tensors) is not used: this is the text model"
    assert notes == [f"{tmp_path}: {note}"]
