"""The Python face of encoders."""

import numpy as np
import pytest

import llm_lite
from llm_lite.core.errors import RequestError
from llm_lite.core.inspect.attention_scores import SCORES
from tests.core.questions.test_attention_reader import rollout_of
from tests.encoder_checks import TOLERANCE, stored, write_case
from tests.encoder_families import family_of


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = write_case(family_of("bert"), "masked", tmp_path_factory.mktemp("encoders") / "m")
    with llm_lite.load(folder, backend="cpu") as loaded:
        yield loaded


def test_vectors_candidates_and_arrays(model):
    known = stored("bert", "masked")
    tokens = known["tokens"].tolist()
    assert isinstance(model, llm_lite.Encoder)
    assert model.embed(["the cat", "a cat", "sat on"]).shape == (3, 48)
    (mask,) = model.fill("the [MASK] sat", 4)
    assert len(mask.candidates) == 4 and mask.position == 2
    assert np.abs(model.logits(tokens) - known["logits"]).max() < TOLERANCE
    assert np.abs(model.hidden_states(tokens) - known["hidden"]).max() < TOLERANCE
    assert np.abs(model.attention(tokens) - known["maps"]).max() < TOLERANCE
    expected = rollout_of(known["maps"])
    assert np.abs(model.rollout(tokens, 1) - expected[1]).max() < TOLERANCE
    assert np.abs(model.rollout(tokens, 1, to=True) - expected[:, 1]).max() < TOLERANCE
    scores = model.scores(tokens)["entropy"]
    expected = [SCORES["entropy"](layer, range(len(tokens)), tokens) for layer in known["maps"]]
    assert np.abs(scores - np.stack(expected)).max() < TOLERANCE
    with pytest.raises(RequestError, match="which keeps no keys and values"):
        model.statistics(tokens, "key-norm")
    pair = model.pair("the cat", "sat on")
    assert model.tokens(pair).count("[SEP]") == 2


def test_activations_are_the_hidden_states_and_logits(model):
    known = stored("bert", "masked")
    tokens = known["tokens"].tolist()
    found = model.activations(tokens, ["encoder.layer.1", "cls.predictions.decoder"])
    assert np.abs(found["encoder.layer.1"] - known["hidden"]).max() < TOLERANCE
    assert np.abs(found["cls.predictions.decoder"] - known["logits"]).max() < TOLERANCE
    part = model.activations(tokens, "logits", 5, 8)["logits"]
    np.testing.assert_allclose(part, known["logits"][5:8], atol=TOLERANCE)
    with pytest.raises(RequestError, match="positions 9 to 30 are not in the text of the encoder"):
        model.activations(tokens, "logits", 9, 31)


def test_interventions_change_all_tokens(model):
    """As each sees the changed one; what the last layer's norm makes is changed alone."""
    tokens = stored("bert", "masked")["tokens"].tolist()
    first, last, logits = "encoder.layer.0", "encoder.layer.1", "cls.predictions.decoder"
    plain = model.activations(tokens, [first, last, logits])
    off = llm_lite.Scale(first, 0.0, positions=(3,))
    found = model.activations(tokens, [first, last, logits], interventions=off)
    assert np.abs(found[first][3]).max() == 0
    np.testing.assert_array_equal(np.delete(found[first], 3, 0), np.delete(plain[first], 3, 0))
    assert (np.abs(found[last] - plain[last]).max(axis=1) > 1e-5).all()
    doubled = llm_lite.Scale("cls.predictions.decoder", 2.0, positions=(4,))
    found = model.activations(tokens, logits, 2, 6, interventions=doubled)[logits]
    np.testing.assert_allclose(found[2], 2 * plain[logits][4], atol=1e-5)
    np.testing.assert_allclose(
        np.delete(found, 2, 0), np.delete(plain[logits][2:6], 2, 0), atol=1e-5
    )
    np.testing.assert_array_equal(model.activations(tokens, last)[last], plain[last])


def test_an_encoder_without_a_head_predicts_nothing(tmp_path):
    folder = write_case(family_of("bert"), "plain", tmp_path / "m")
    with (
        llm_lite.load(folder, backend="cpu") as plain,
        pytest.raises(RequestError, match="no masked-token head, only hidden states: it predicts"),
    ):
        plain.patch([7, 8, 9], [7, 9, 9], "encoder.layer.0")


def test_heads_run_for_few_tokens_at_a_time(model):
    """A text longer than the outputs of a step."""
    tokens = (stored("bert", "masked")["tokens"].tolist() * 2)[:40]
    most = model._encoder.executor.program.max_outputs
    found = model.activations(tokens, "logits")["logits"]
    np.testing.assert_allclose(found, model.logits(tokens), atol=1e-5)
    assert len(found) == 40 >= most


def test_a_head_that_is_ablated_changes_the_vector(model):
    before = model.embed("the cat sat")
    model.gains[0, 2] = 0
    assert np.abs(model.embed("the cat sat") - before).max() > 1e-4
    model.gains = 1
    assert np.abs(model.embed("the cat sat") - before).max() < 1e-6


def test_a_trace_is_of_a_token_of_the_text(model):
    ids, found = model.tokenize("the cat sat"), model.trace("the cat sat", 1, layer=1, head=0)
    assert (found.token, found.shape.path, found.head) == (ids[1], "encoder", 0)
    row = model.attention("the cat sat", 1, 0)[1]
    shares = [score.probability for score in found.opened.head.scores]
    np.testing.assert_allclose(shares, row, atol=1e-4)


@pytest.mark.parametrize("ask", ["generate", "complete", "likelihood", "lens", "perplexity"])
def test_it_writes_no_text(model, ask):
    with pytest.raises(RequestError, match="is an encoder, which writes no text"):
        getattr(model, ask)("Hello")
