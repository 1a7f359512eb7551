"""Heads and other copies of the embedding in checkpoints that call them tied.

Transformers ties what is equal and says that it leaves apart what is not, so that the logits are
those that it stored for the same weights without `tie_word_embeddings`.
"""

import json
from importlib import import_module

import numpy as np
import pytest

from llm_lite.core.errors import LlmLiteError
from llm_lite.core.loading.sources import open_source
from tests import seq2seq_checks
from tests.families import family_of
from tests.family_checks import NAMES, TOLERANCE, reference, stored, write_case
from tests.make_huggingface import write_folder
from tests.make_safetensors import entry
from tests.runners import exact, running
from tests.seq2seq_families import VOCABULARY

HEAD = "lm_head.weight"
APART = [  # a case of each family whose head is a matrix of its own
    (name, next(iter(cases)))
    for name in NAMES
    if (
        cases := [
            case
            for case in family_of(name).cases
            if HEAD in json.loads(str(stored(name)[f"{case}.shapes"]))
        ]
    )
]


def test_most_families_have_such_a_case():
    assert len(APART) >= 20


@pytest.mark.parametrize(("name", "case"), APART, ids=str)
def test_a_head_that_differs_is_used_though_it_is_called_tied(name, case, tmp_path):
    family, known = family_of(name), reference(family_of(name), case)
    folder = write_case(family, case, tmp_path / "m", tie_word_embeddings=True)
    options = exact("cpu", context=family.context.get(case, 0))
    with running(folder, options, every_output=True) as runner:
        logits = runner.session.logits(known.tokens)
    assert np.abs(logits - known.logits).max() < TOLERANCE


def _seq2seq(name, folder, **more):
    family = import_module(f"tests.fixtures.seq2seq.{name}").FAMILY
    known = seq2seq_checks.stored(name, next(iter(family.cases)))
    config, shapes = (json.loads(str(known[part])) for part in ("config", "shapes"))
    tensors = {one: family.values(one, tuple(shape)) for one, shape in shapes.items()}
    for copy, values in more.items():
        tensors[copy.replace("__", ".")] = values(tensors)
    written = {one: entry(values) for one, values in tensors.items() if values is not None}
    return write_folder(folder, {**config, "tie_word_embeddings": True}, written, tokens=VOCABULARY)


def _shared(tensors):
    return next(values for name, values in tensors.items() if name.endswith("shared.weight"))


@pytest.mark.parametrize("name", ["t5", "marian", "bart"])
def test_tables_of_stacks_are_the_embedding_again_or_refused(name, tmp_path):
    plain = set(open_source(_seq2seq(name, tmp_path / "plain")).tensors)
    copy = {"decoder__embed_tokens__weight": _shared}
    assert set(open_source(_seq2seq(name, tmp_path / "copy", **copy)).tensors) == plain
    other = {"decoder__embed_tokens__weight": lambda tensors: _shared(tensors) + 1}
    with pytest.raises(LlmLiteError, match=r"'decoder\.embed_tokens\.weight' has no place in a"):
        open_source(_seq2seq(name, tmp_path / "other", **other))


@pytest.mark.parametrize("name", ["t5", "marian", "bart"])
def test_heads_of_encoder_decoders_are_kept_where_they_differ(name, tmp_path):
    more = {"lm_head__weight": lambda tensors: _shared(tensors) + 1}
    assert "output.weight" in open_source(_seq2seq(name, tmp_path / "m", **more)).tensors
    same = {"lm_head__weight": _shared}
    assert "output.weight" not in open_source(_seq2seq(name, tmp_path / "n", **same)).tensors
