"""`llm-lite ask` and `llm-lite sites`: what they print and write, and their sentences."""

import json

import numpy as np
import pytest

from llm_lite.cli.main import main
from llm_lite.core.questions.table import QUESTIONS

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
    words = [f"{n}={json.dumps(getattr(question.example, n))}" for n in _given(question.example)]
    code, out, err = run(capsys, "ask", tiny_llama, question.name, *words, *TEXT)
    assert code == 0, err
    assert set(json.loads(out)) == set(question.answer.__struct_fields__)


def _given(request):
    return [name for name in request.__struct_fields__ if getattr(request, name) is not None]


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
