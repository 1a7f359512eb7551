"""Scores of heads are of sequences whose maps are there, and of the text that a layer looks at."""

import numpy as np
import pytest

import llm_lite
from llm_lite.core.errors import RequestError
from llm_lite.core.questions import scores
from llm_lite.core.questions.scores import ReadScores
from tests.asking import asked
from tests.fixtures.seq2seq import bart
from tests.runners import exact, running
from tests.seq2seq_checks import stored, write_case


def test_there_must_be_maps(tiny_llama):
    with running(tiny_llama) as runner, pytest.raises(RequestError, match="the cache is empty"):
        asked(ReadScores(), runner)
    with running(tiny_llama, exact(query_budget=0)) as runner:
        runner.session.prefill([5, 6, 7])
        with pytest.raises(RequestError, match="queries are not kept"):
            asked(ReadScores(), runner)


def test_only_clients_wait_for_no_more_than_others_can(tiny_llama, monkeypatch):
    monkeypatch.setattr(scores, "MOST_WEIGHTS", 1)
    with llm_lite.load(tiny_llama, backend="cpu") as model:
        assert np.isfinite(model.scores((5, 6, 7))["entropy"]).all()


def test_layers_that_look_at_a_source_have_none(tmp_path):
    case = next(iter(bart.FAMILY.cases))
    known = stored("bart", case)
    with running(write_case(bart.FAMILY, case, tmp_path / "m"), exact("cpu")) as runner:
        runner.read_source(known["source"].tolist())
        runner.session.prefill(known["target"].tolist())
        found = asked(ReadScores(), runner).scores["entropy"]
        cross = np.array([layer.cross for layer in runner.attention.layers])
    assert cross.any() and not cross.all()
    np.testing.assert_array_equal(np.isnan(found).all(axis=1), cross)
