"""BART: rules for its targets, what it may lack, what is refused of it."""

import json

import numpy as np
import pytest

from llm_lite.core.errors import LlmLiteError
from llm_lite.core.generation.beam_search import BeamOptions, BeamSearch, repeating
from llm_lite.core.loading.beside import translator_of
from llm_lite.core.loading.sources import open_source
from llm_lite.core.models.registry import read_model
from tests.fixtures.seq2seq.bart import FAMILY
from tests.make_huggingface import write_folder
from tests.make_safetensors import entry
from tests.runners import exact, running
from tests.seq2seq_checks import stored, write_case
from tests.seq2seq_families import NEW_TOKENS, VOCABULARY


def changed(folder, **changes):
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
    return folder


def test_targets_follow_the_rules_of_its_config(tmp_path):
    known = stored("bart", "plain")
    folder = changed(write_case(FAMILY, "plain", tmp_path), **FAMILY.generation)
    with running(folder, exact("cpu")) as runner:
        translator = translator_of(runner)
        for beams, name in ((1, "greedy"), (4, "beam.0")):
            options = translator.options(beams, NEW_TOKENS)
            target = translator.translate(known["source"].tolist(), options)
            assert list(target.tokens) == known[name].tolist()[1:]


def test_no_run_of_tokens_comes_twice():
    assert repeating((1, 2, 3, 1, 2), 3) == [3]
    assert repeating((1, 1), 2) == [1] and repeating((1, 2), 1) == [1, 2]
    assert repeating((), 2) == [] == repeating((1,), 3)
    search = BeamSearch(BeamOptions(1, frozenset({0}), most_tokens=5, no_repeat=2, shortest=4))
    while not search.is_done:
        search.advance(np.log(np.array([[0.7, 0.2, 0.1]], np.float32)))
    assert search.best.tokens == (1, 1, 2, 0)


def test_a_checkpoint_without_a_head_has_no_bias_of_logits(tmp_path):
    known = stored("bart", "plain")
    config, shapes = (json.loads(str(known[part])) for part in ("config", "shapes"))
    tensors = {name: FAMILY.values(name, tuple(shape)) for name, shape in shapes.items()}
    bias = tensors.pop("final_logits_bias")
    plain = {name.removeprefix("model."): entry(values) for name, values in tensors.items()}
    with running(write_folder(tmp_path, config, plain, tokens=VOCABULARY), exact()) as runner:
        runner.read_source(known["source"].tolist())
        logits = runner.session.prefill(known["target"].tolist())
    assert np.abs(logits + bias.reshape(-1) - known["logits"][-1]).max() < 2e-3


BAD = [
    ({"normalize_before": True}, "normalize_before is true: norms before sublayers are not known"),
    ({"add_final_layer_norm": True}, "norms behind stacks are not known here"),
    ({"max_position_embeddings": 66}, r"enc.position_embd.weight: expected shape \(68, 48\)"),
    ({"activation_function": "tanh"}, "expected relu, silu or gelu"),
    ({"decoder_attention_heads": 2}, "known are stacks of equal widths"),
    (
        {"encoder_attention_heads": 7, "decoder_attention_heads": 7},
        "head_count is 7, expected a divisor of the width, 48",
    ),
    ({"no_repeat_ngram_size": -1}, "no_repeat_ngram_size is -1, expected 0 to 1024"),
    ({"min_length": "x"}, "min_length is 'x', expected an integer"),
]


@pytest.mark.parametrize(("changes", "message"), BAD)
def test_bad_configs(changes, message, tmp_path):
    folder = changed(write_case(FAMILY, "plain", tmp_path), **changes)
    with pytest.raises(LlmLiteError, match=message):
        source = open_source(folder)
        read_model(source.metadata, source.tensors, source.path)
