"""`llm-lite ask` and `llm-lite sites`: what they print and write, and their sentences."""

import json

import numpy as np
import pytest

import llm_lite
from llm_lite.cli.main import main
from llm_lite.core.questions import wire
from llm_lite.core.questions.table import QUESTIONS
from tests.encoder_checks import write_case as write_encoder
from tests.encoder_families import family_of
from tests.fixtures.seq2seq import t5
from tests.seq2seq_checks import write_case as write_seq2seq

TEXT = ("--text", "Why is the sky blue?")


def run(capsys, *words):
    """Exit code, standard output and standard error."""
    code = main(list(map(str, words)))
    out, err = capsys.readouterr()
    assert "Traceback" not in err
    return code, out, err


@pytest.mark.parametrize(
    "question",
    [one for one in QUESTIONS if one.name not in ("states", "experts")],
    ids=lambda one: one.name,
)
def test_every_question_prints_its_answer(tiny_llama, capsys, question):
    given = wire.body_of(question, question.example).items()
    words = [f"{name}={json.dumps(value)}" for name, value in given if value is not None]
    code, out, err = run(capsys, "ask", tiny_llama, question.name, *words, *TEXT)
    assert code == 0, err
    assert set(json.loads(out)) == set(question.answer.__struct_fields__)


def test_a_parameter_may_be_a_text_or_stand_in_a_file(tiny_llama, tmp_path, capsys):
    changes = tmp_path / "changes.json"
    changes.write_text('{"changes": [{"kind": "scale", "site": "embedding", "factor": 0.5}]}')
    words = ("source=another text", "sites=embedding", f"interventions=@{changes}", "count=3")
    code, out, err = run(capsys, "ask", tiny_llama, "patch", *words, *TEXT)
    assert code == 0, err
    found = json.loads(out)
    assert 3 <= len(found["tokens"]) == len(found["texts"]) <= 9 and found["kl"][0][0] > 0
    changes.write_text('{"changes": [{"kind": "bend", "site": "embedding"}]}')
    code, _, err = run(capsys, "ask", tiny_llama, "patch", *words, *TEXT)
    assert code == 1 and "interventions.changes[0]" in err


def test_arrays_are_written(tiny_llama, tmp_path, capsys):
    out = tmp_path / "a.npz"
    sites = "sites=embedding,blocks.1.attn.hook_z"
    code, _, err = run(
        capsys, "ask", tiny_llama, "activations", sites, "first=1", *TEXT, "--out", out
    )
    assert code == 0 and "blocks.1.attn.hook_z [" in err
    with np.load(out) as arrays:
        assert set(arrays) == {"first", "embedding", "blocks.1.attn.hook_z"}
        assert arrays["embedding"].ndim == 2 and arrays["first"] == 1


def test_sites_are_listed(tiny_llama, capsys):
    code, out, _ = run(capsys, "sites", tiny_llama)
    assert code == 0
    assert "layers.0.attention.heads" in out and "blocks.0.attn.hook_z" in out
    _, out, _ = run(capsys, "sites", tiny_llama, "--json")
    assert {"name", "index", "columns", "aliases", "of_source"} == set(json.loads(out)[0])


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("nothing",), "question: expected activations, lens, "),
        (("lens",), "position: lens needs it"),
        (("lens", "3"), "'3': expected NAME=VALUE, as position=0"),
        (("lens", "depth=3"), "depth: lens takes position, count"),
        (("lens", "position=far"), "position: expected a whole number"),
        (("lens", "position=99999"), "position 99999 is not in the cache"),
        (("experts",), "the model has no experts"),
        (("states", "layer=0", "head=0"), "the model has no recurrent states"),
        (("activations", "sites=layers.0.q"), "the model has no site 'layers.0.q'"),
    ],
)
def test_what_there_is_not_is_a_sentence(tiny_llama, capsys, words, sentence):
    code, _, err = run(capsys, "ask", tiny_llama, *words, *TEXT)
    assert code == 1 and sentence in err


def test_an_encoder_decoder_is_asked_about_source_and_target(tmp_path, capsys):
    path = write_seq2seq(t5.FAMILY, "plain", tmp_path / "m")
    code, out, _ = run(capsys, "sites", path, "--json")
    sites = {site["name"]: site for site in json.loads(out)}
    assert code == 0
    assert "encoder.block.1" in sites["encoder.layers.1.feed_forward.residual"]["aliases"]
    assert sites["decoder.layers.0.cross_attention.k"]["of_source"]
    wanted = "sites=encoder.block.1,decoder.block.0.layer.1.EncDecAttention"
    out = tmp_path / "a.npz"
    text = ("--tokens", "5,6,7,1", "--target", "abc")
    assert run(capsys, "ask", path, "activations", wanted, *text, "--out", out)[0] == 0
    with np.load(out) as arrays:
        shapes = {name: arrays[name].shape for name in arrays}
    with llm_lite.load(path) as model:
        target = model._target_ids("abc")
    assert shapes["encoder.block.1"] == (4, 48)
    assert shapes["decoder.block.0.layer.1.EncDecAttention"] == (1 + len(target), 48)


def test_an_encoder_is_asked_about_a_text(tmp_path, capsys):
    path = write_encoder(family_of("bert"), "masked", tmp_path / "m")
    code, out, _ = run(capsys, "sites", path)
    assert code == 0 and "encoder.layer.1.attention.output.dense" in out
    wanted = "sites=encoder.layer.1.attention.output.dense,cls.predictions.decoder"
    code, out, _ = run(capsys, "ask", path, "activations", wanted, "--tokens", "5,6,7")
    values = json.loads(out)["values"]
    assert code == 0 and [len(rows) for rows in values.values()] == [3, 3]


def test_only_an_encoder_decoder_has_a_target(tiny_llama, capsys):
    code, _, err = run(capsys, "ask", tiny_llama, "effect", *TEXT, "--target", "abc")
    assert code != 0 and "is no encoder-decoder, which has one" in err
