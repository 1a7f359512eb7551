"""Gains compared over a whole answer: right numbers, and the chat finds its cache again."""

import numpy as np
import pytest

from llm_lite.core.engine import interventions_comparison
from llm_lite.core.errors import RequestError
from llm_lite.core.messages import (
    NO_CHANGES,
    AnswerDivergence,
    CompareAnswer,
    Generate,
    GenerationFinished,
    GenerationStarted,
    ReadAttentionRows,
)
from llm_lite.core.messages.interventions import Interventions, Shift
from tests.changes import scales
from tests.core.engine_client import GREEDY, HELLO
from tests.runners import exact, running


def gains_of(info, value):
    """Gains of a model whose first layer has another value."""
    rows = [(1.0,) * info.heads for _ in range(info.layers)]
    return tuple((value,) * info.heads if not layer else row for layer, row in enumerate(rows))


def logits(path, prompt, answer, gains):
    with running(path, exact(), every_output=True) as runner:
        runner.session.set_gains(gains)
        rows = runner.session.logits([*prompt, *answer[:-1]])[len(prompt) - 1 :].astype(float)
    return rows - np.log(np.exp(rows).sum(axis=1, keepdims=True))


def asking(answer, interventions):
    return CompareAnswer(Generate(HELLO, GREEDY), tuple(answer), interventions)


@pytest.fixture
def spoken(client, tiny_llama):
    info = client.load(tiny_llama).model
    client.send(Generate(HELLO, GREEDY))
    prompt = [token.id for token in client.until(GenerationStarted).prompt]
    client.until(GenerationFinished)
    return info, prompt, client.ask()[1]


def test_divergence_is_that_of_two_fresh_computations(client, tiny_llama, spoken):
    info, prompt, answer = spoken
    half = gains_of(info, 0.5)
    found = client.result(asking(answer, (NO_CHANGES, scales(half))))
    assert isinstance(found, AnswerDivergence)
    p = logits(tiny_llama, prompt, answer, gains_of(info, 1.0))
    q = logits(tiny_llama, prompt, answer, half)
    expected = (np.exp(p) * (p - q)).sum(axis=1)
    assert expected.mean() > 1e-4, "the two must differ, or this test shows nothing"
    np.testing.assert_allclose(found.kl, expected, rtol=1e-3, atol=1e-7)


def test_a_direction_moves_what_the_model_says(client, spoken):
    """And what cannot act while it writes is refused before anything runs."""
    _, _, answer = spoken
    shift = Interventions((Shift("layers.0.feed_forward.residual", (0.4, -0.3) * 32),))
    task = asking(answer, (NO_CHANGES, shift))
    assert min(client.result(task).kl) > 1e-4
    assert client.ask()[1] == answer, "the chat has none"
    bad = Interventions((Shift("layers.0.attention.heads", (0.0,) * 64),))
    with pytest.raises(RequestError, match="only what layers leave is shifted"):
        client.result(asking(answer, (bad, shift)))


def test_equal_gains_do_not_diverge(client, spoken):
    info, _, answer = spoken
    half = gains_of(info, 0.5)
    found = client.result(asking(answer, (scales(half),) * 2))
    assert len(found.kl) == len(answer) and max(found.kl) < 1e-8


def test_the_chat_finds_its_cache_and_its_gains_again(client, spoken):
    info, _, answer = spoken
    half, quarter = gains_of(info, 0.5), gains_of(info, 0.25)
    steered = Generate(HELLO, GREEDY, interventions=scales(half))
    client.send(steered)
    again = client.until(GenerationFinished)
    client.result(asking(answer, (NO_CHANGES, scales(quarter))))
    client.send(steered)
    started = client.until(GenerationStarted)
    assert started.reused_tokens == started.prompt_tokens - 1
    assert client.until(GenerationFinished).stats.new_tokens == again.stats.new_tokens


def test_maps_of_the_chat_stay_whole(client, spoken):
    """All of it has queries, as before."""
    info, prompt, answer = spoken
    look = ReadAttentionRows(len(prompt) + 3, "to", "layer-mean", layer=0)
    before = client.result(look)
    task = CompareAnswer(
        Generate(HELLO, GREEDY), tuple(answer), (NO_CHANGES, scales(gains_of(info, 0.5)))
    )
    client.result(task)
    after = client.result(look)
    assert before.note == after.note == ""
    np.testing.assert_allclose(after.weights, before.weights, atol=1e-5)


def test_as_many_tokens_are_compared_as_have_room(client, spoken, monkeypatch):
    _, _, answer = spoken
    monkeypatch.setattr(interventions_comparison, "ROOM", 1)
    found = client.result(asking(answer, (NO_CHANGES,) * 2))
    assert len(found.kl) == 1


def test_an_answer_without_tokens_is_a_sentence(client, spoken):
    problem = client.end_of(client.send(asking((), (NO_CHANGES,) * 2)))
    assert problem == "there is no answer to compare, or it is not in the context"
