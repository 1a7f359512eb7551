"""Looking into answers of a server: as the inspectors of the chat see the same text."""

from typing import get_args

import numpy as np
import pytest

from llm_lite.core.errors import CancelledError, GoneError, RequestError
from llm_lite.core.generation.sampling import likeliest
from llm_lite.core.inspect.attention import head_maps
from llm_lite.core.inspect.text_maps import EVERY_QUERY
from llm_lite.core.messages import FollowToken, Inspect, Measure, MeasureCache, ReadAttentionRows
from llm_lite.core.messages.inspecting.lesson import ANY_HEAD
from llm_lite.core.questions import activations
from llm_lite.core.questions import scores as scoring
from llm_lite.core.questions.activations import ReadActivations
from llm_lite.core.questions.attention_reader import AttentionRowsReader
from llm_lite.core.questions.scores import ReadScores
from llm_lite.core.questions.tracing import traced
from llm_lite.core.serving import response_replay
from tests.asking import asked, layer_scores, lens, served_maps
from tests.children import PATIENCE
from tests.core.serving.clients import Asked, serve
from tests.core.serving.test_scheduling import BYTES_A_PAGE, LONG
from tests.runners import BACKENDS, exact, running

PROMPT = tuple(range(5, 285))


def row(position, **more):
    return ReadAttentionRows(position, "from", "layer-mean", **more)


def own_maps(path, tokens, layer):
    """Maps float32 [heads, n, n] of the text by itself, and its lens behind the last token."""
    options = exact(query_budget=EVERY_QUERY, whole_caches=True)
    with running(path, options) as runner:
        runner.session.prefill(tokens)
        heads = runner.attention.layers[layer].heads
        maps = np.empty((heads, len(tokens), len(tokens)), np.float32)
        head_maps(runner.attention, layer, range(heads), maps)
        return maps, lens(runner.session, len(tokens) - 1)


@pytest.mark.parametrize("backend", BACKENDS)
def test_maps_and_lens_are_those_of_the_text(client, device, served_model, backend):
    client.engine.device_lost(device)
    client.load(served_model, exact(backend))
    service = serve(client, parallel=2)
    asked = [Asked(service, tokens=PROMPT[n:], response=f"r{n}") for n in range(2)]
    for one in asked:
        one.finished()
    told = service.answer_tokens("r1")
    assert told.tokens == (*PROMPT[1:], *asked[1].tokens()[:-1]), "the last one was not computed"
    assert (told.prompt_tokens, told.first_query, told.layers, told.heads) == (279, 0, 2, 4)
    assert told.texts == tuple(service.token_texts(told.tokens))
    n = len(told.tokens)
    maps, layers = own_maps(served_model, told.tokens, 1)
    found = served_maps(service, "r1", 1, (0, 3), 120, n)
    assert found.shape == (2, n - 120, n)
    assert np.allclose(found, maps[[0, 3], 120:], atol=1e-5)
    assert np.allclose(found.sum(axis=2), 1, atol=1e-5)
    rows = service.ask("r1", Inspect(n - 1, 3)).rows
    assert [row.layer for row in rows] == [0, 1]
    for row, (_, logits) in zip(rows, layers, strict=True):
        assert [one.token for one in row.tokens] == [t for t, _ in likeliest(logits, 3)]
        alone = [service.token_texts([one.token])[0] or "\ufffd" for one in row.tokens]
        assert [one.text for one in row.tokens] == alone
    again = Asked(service, tokens=(*PROMPT, 7)).tokens()
    assert again == Asked(service, tokens=(*PROMPT, 7)).tokens(), "nothing was written"


@pytest.mark.parametrize("backend", BACKENDS)
def test_statistics_and_scores_are_those_of_the_chat_with_the_same_text(
    client, device, served_model, backend
):
    client.engine.device_lost(device)
    client.load(served_model, exact(backend))
    service = serve(client)
    Asked(service, tokens=PROMPT, response="r").finished()
    tokens = service.answer_tokens("r").tokens
    scores = service.ask("r", ReadScores()).scores
    with running(served_model, exact(query_budget=EVERY_QUERY, whole_caches=True)) as runner:
        runner.session.prefill(tokens)
        source = runner.attention
        for what in get_args(Measure):
            expected = asked(MeasureCache(what), runner)
            found = service.ask("r", MeasureCache(what))
            assert found.layers == (0, 1)
            assert np.allclose(found.values, expected.values, atol=1e-4)
        for layer in (0, 1):
            for name, values in layer_scores(source, layer).items():
                assert np.allclose(scores[name][layer], values, atol=1e-4), name
                assert np.ptp(values) > 1e-3


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_trace_is_that_of_the_chat_with_the_same_text(client, device, served_model, backend):
    client.engine.device_lost(device)
    client.load(served_model, exact(backend))
    service = serve(client)
    Asked(service, tokens=PROMPT, response="r").finished()
    tokens = service.answer_tokens("r").tokens
    with running(served_model, exact()) as runner:
        runner.session.prefill(tokens)
        for position, layer, head in ((200, 0, 3), (len(tokens) - 1, 1, ANY_HEAD), (0, 1, 0)):
            asked = FollowToken(position, layer, head)
            expected, found = traced(runner, asked), service.ask("r", asked).trace
            same = (expected.head, expected.tokens, expected.texts)
            assert (found.head, found.tokens, found.texts) == same
            for one, other in zip(numbers(found), numbers(expected), strict=True):
                assert np.allclose(one, other, atol=1e-3, equal_nan=True)
    with pytest.raises(RequestError, match="position 4000 is not in the cache"):
        service.ask("r", FollowToken(4000, 0, 0))
    with pytest.raises(RequestError, match="layer 2: the model has 2 layers"):
        service.ask("r", FollowToken(0, 2, 0))


def numbers(trace):
    """What a trace shows of its token, as arrays."""
    head = trace.opened.head
    vectors = (trace.row, trace.embedded, trace.final, trace.opened.after, head.query, head.output)
    yield from (np.array(vector.values) for vector in vectors)
    yield np.array([(s.dot, s.probability, *s.key, *s.value) for s in head.scores])
    yield np.array([(one.attention, one.feed_forward, one.residual) for one in trace.growth])
    yield np.array(sorted(token.logit for token in trace.distribution.top))


def test_statistics_of_a_response_that_is_cut_short(client, served_model):
    client.load(served_model, exact())
    service = serve(client)
    Asked(service, tokens=PROMPT, response="r").finished()
    for request in (ReadScores(), MeasureCache("received")):
        with pytest.raises(CancelledError):
            service.ask("r", request, lambda: True)
        with pytest.raises(GoneError, match="no answer of the name other"):
            service.ask("other", request, lambda: False)


def test_scores_of_a_text_that_is_long_are_refused(client, served_model, monkeypatch):
    monkeypatch.setattr(scoring, "MOST_WEIGHTS", 1000)
    client.load(served_model, exact())
    service = serve(client)
    Asked(service, tokens=PROMPT, response="r").finished()
    with pytest.raises(RequestError, match="weights, at most 1,000 are scored at once"):
        service.ask("r", ReadScores())


ROWS = (
    ReadAttentionRows(150, "from", "heads", ((0, 1), (1, 3))),
    ReadAttentionRows(150, "to", "layer-mean", layer=1),
    ReadAttentionRows(150, "from", "rollout"),
    ReadAttentionRows(3, "to", "rollout", without_first=True),
)


@pytest.mark.parametrize("backend", BACKENDS)
def test_rows_are_those_of_the_chat_with_the_same_text(client, device, served_model, backend):
    client.engine.device_lost(device)
    client.load(served_model, exact(backend))
    service = serve(client)
    Asked(service, tokens=PROMPT, response="r").finished()
    tokens = service.answer_tokens("r").tokens
    with running(served_model, exact(query_budget=EVERY_QUERY, whole_caches=True)) as runner:
        runner.session.prefill(tokens)
        reader = AttentionRowsReader(runner.attention)
        for asked in ROWS:
            found, expected = service.ask("r", asked), reader.read(asked)
            assert found.note == expected.note == ""
            assert np.allclose(found.weights, expected.weights, atol=1e-5)


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        (lambda s: served_maps(s, "r", 9, (0,), 0, 1), "layer 9: the model has layers 0 to 1"),
        (lambda s: served_maps(s, "r", 0, (4,), 0, 1), "heads 0 to 3"),
        (lambda s: served_maps(s, "r", 0, (0,), 5, 5), "positions 5 to 4"),
        (lambda s: served_maps(s, "r", 0, (0,), 0, 999), "positions 0 to 998"),
        (lambda s: s.ask("r", row(0, layer=9)), "layer 9: the model has 2 layers"),
        (lambda s: s.ask("r", row(99, layer=0)), "position 99 is not in the cache"),
        (lambda s: s.ask("other", row(0)), "no answer of the name other"),
        (lambda s: s.ask("r", Inspect(-1)), "position -1 is not in the cache"),
        (lambda s: s.ask("r", Inspect(0, 0)), "count"),
        (lambda s: s.answer_tokens("other"), "no answer of the name other"),
    ],
)
def test_what_is_not_there(client, served_model, ask, words):
    client.load(served_model, exact())
    service = serve(client)
    Asked(service, tokens=(5, 6, 7), response="r").finished()
    with pytest.raises(RequestError, match=words):
        ask(service)


def test_while_it_runs_and_until_its_pages_go(client, served_model, hook):
    client.load(served_model, exact())
    service = serve(client, parallel=2, cache_budget=4 * BYTES_A_PAGE)
    reached = hook.block_step(len(hook.steps) + 9)
    asked = Asked(service, tokens=(5, 6, 7), response="r", sampling=LONG)
    assert reached.wait(PATIENCE)
    hook.heard = True
    assert len(service.answer_tokens("r").tokens) >= 3
    asked.handle.cancel()
    asked.finished()
    assert served_maps(service, "r", 0, (0,), 0, 3).shape[:2] == (1, 3)
    Asked(service, tokens=tuple(range(9, 280)) + (5,) * 200).finished()
    with pytest.raises(GoneError, match="r is no longer in the cache"):
        service.answer_tokens("r")


def test_what_a_client_may_let_run_again_is_limited(client, served_model, monkeypatch):
    client.load(served_model, exact())
    service = serve(client)
    Asked(service, tokens=PROMPT, response="r").finished()
    wanted = ReadActivations(("embedding",))
    assert len(service.ask("r", wanted).values["embedding"]) >= len(PROMPT)
    monkeypatch.setattr(activations, "MOST_OF_A_CLIENT", 1000)
    with pytest.raises(RequestError, match="values are too many, at most 1,000"):
        service.ask("r", wanted)
    monkeypatch.setattr(response_replay, "MOST_AGAIN", 10)
    with pytest.raises(RequestError, match=r"^\d+ tokens would run again: at most 10 do for one"):
        service.ask("r", ReadActivations(("embedding",), 0, 11))


def test_without_queries_there_are_no_maps(client, served_model):
    client.load(served_model, exact(query_budget=0))
    service = serve(client)
    Asked(service, tokens=(5, 6, 7), response="r").finished()
    told = service.answer_tokens("r")
    assert told.first_query == len(told.tokens)
    with pytest.raises(RequestError, match="no queries are kept"):
        served_maps(service, "r", 0, (0,), 0, 1)
    with pytest.raises(RequestError, match="no queries are kept"):
        service.ask("r", row(0))
