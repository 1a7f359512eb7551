"""Scores of heads are of sequences whose maps are there, and of the text that a layer looks at."""

import numpy as np
import pytest

import llm_lite
from llm_lite.core.errors import RequestError
from llm_lite.core.inspect import text_maps
from llm_lite.core.questions import scores
from llm_lite.core.questions.question import answer_of
from llm_lite.core.questions.scores import ReadScores
from tests.asking import asked, parts_of
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


def test_maps_are_scored_in_parts_between_which_others_are_served(tiny_llama, monkeypatch):
    monkeypatch.setattr(text_maps, "BLOCK", 8)
    tokens = list(range(5, 29))
    with running(tiny_llama, exact("cpu")) as runner:
        runner.session.prefill(tokens)
        whole = asked(ReadScores(), runner).scores
        monkeypatch.setattr(text_maps, "PART_WEIGHTS", text_maps.BLOCK * len(tokens))
        parts = parts_of(ReadScores(), runner)
        layers, heads = runner.model_info.layers, runner.model_info.heads
        steps = [next(parts) for _ in range(layers * 3 * heads + layers - 1)]
        with pytest.raises(StopIteration) as finished:
            next(parts)
    assert steps.count("executor") == layers - 1
    for name, values in finished.value.value.scores.items():
        np.testing.assert_allclose(values, whole[name], rtol=1e-6)


def test_scores_of_a_text_that_goes_on(tiny_llama, monkeypatch):
    """What is written between two parts is not scored."""
    monkeypatch.setattr(text_maps, "PART_WEIGHTS", 1)
    with running(tiny_llama, exact("cpu")) as runner:
        runner.session.prefill([5, 6, 7, 8])
        expected = asked(ReadScores(), runner).scores["entropy"]
        parts = parts_of(ReadScores(), runner)
        next(parts)
        runner.session.decode(9)
        found = answer_of(parts).scores["entropy"]
    np.testing.assert_array_equal(found[0], expected[0])


def test_a_cache_that_is_rewritten_between_two_parts(tiny_llama):
    with running(tiny_llama, exact("cpu")) as runner:
        runner.session.prefill([5, 6, 7, 8])
        parts = parts_of(ReadScores(), runner)
        next(parts)
        runner.session.clear()
        with pytest.raises(RequestError, match="rewritten while it was read"):
            answer_of(parts)
