"""Layers with a window keep no more of clients' texts than somebody's window reaches."""

import numpy as np
import pytest

from llm_lite.core.errors import OutOfMemoryError, RequestError
from llm_lite.core.inspect.attention import head_maps
from llm_lite.core.inspect.text_maps import EVERY_QUERY
from llm_lite.core.loading.client_room import room_for, row_bytes
from llm_lite.core.messages import (
    FollowToken,
    Inspect,
    MeasureCache,
    ReadAttentionRows,
    SamplingOptions,
    StartServing,
)
from llm_lite.core.plan.step import PAGE, window_pages
from llm_lite.core.questions.scores import ReadScores
from tests.asking import served_maps
from tests.core.serving.clients import Asked, serve
from tests.families import family_of
from tests.family_checks import write_case
from tests.runners import BACKENDS, exact, running

CONTEXT, WINDOW = 16 * PAGE, 5
SEVERAL = SamplingOptions(temperature=0.0, repetition_penalty=1.0, max_new_tokens=6)
GENERATOR = np.random.default_rng(3)
TEXTS = [tuple(GENERATOR.integers(30, 260, n).tolist()) for n in (8 * PAGE + 9, 7 * PAGE + 100)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    family, path = family_of("gemma2"), tmp_path_factory.mktemp("gemma2") / "m"
    return write_case(family, "plain", path, max_position_embeddings=CONTEXT)


def served(client, folder, backend="numpy", **options):
    client.load(folder, exact(backend, query_budget=EVERY_QUERY))
    service = serve(client, parallel=2, **options)
    return service, client.engine._host.runner


@pytest.mark.parametrize("backend", BACKENDS)
def test_answers_are_those_of_whole_caches(client, device, folder, backend):
    client.engine.device_lost(device)
    service, runner = served(client, folder, backend)
    pages = runner.executor.program.pages
    assert (pages.shared, pages.windowed) == (2 * 16, 4 * window_pages(WINDOW))
    asked = [Asked(service, tokens=text, sampling=SEVERAL) for text in TEXTS]
    found = [one.tokens() for one in asked]
    longer = TEXTS[0] + tuple(found[0])
    following = Asked(service, tokens=longer, sampling=SEVERAL)
    found.append(following.tokens())
    assert following.started.reused_tokens >= len(longer) - 2, "all but the last token"
    with running(folder, exact("cpu", whole_caches=True)) as whole:
        for text, said in zip((*TEXTS, longer), found, strict=True):
            whole.session.clear()
            logits = [whole.session.prefill(text)]
            logits += [whole.session.decode(token) for token in said[:-1]]
            assert [int(row.argmax()) for row in logits] == said


def test_what_a_window_no_longer_has_is_said(client, folder):
    service, _ = served(client, folder)
    Asked(service, tokens=TEXTS[0], response="first", sampling=SEVERAL).tokens()
    whole = served_maps(service, "first", 0, (0, 1), 0, 300)
    assert np.isfinite(whole).all(), "nobody needed its places"
    for token in range(31, 37):
        Asked(service, tokens=(token, 40, 41), sampling=SEVERAL).tokens()
    tokens, sliding, other = service.answer_tokens("first").tokens, 0, 1
    rows = served_maps(service, "first", sliding, (0, 1), 0, len(tokens))
    lost = np.isnan(rows[0, :, 0])
    first = int(np.argmin(lost))
    assert first == 8 * PAGE + WINDOW - 1 and not lost[first:].any() and lost[:first].all()
    assert np.isfinite(served_maps(service, "first", other, (0, 1), 0, 200)).all()
    with running(folder, exact("cpu", query_budget=EVERY_QUERY, whole_caches=True)) as runner:
        runner.session.prefill(tokens)
        maps = np.empty((2, len(tokens), len(tokens)), np.float32)
        head_maps(runner.attention, sliding, (0, 1), maps)
        assert np.allclose(rows[:, first:], maps[:, first:], atol=1e-4)
    for look in (
        lambda position: service.ask("first", Inspect(position)),
        lambda position: service.ask("first", FollowToken(position, 0, 0, 0)).trace,
    ):
        look(first)
        with pytest.raises(RequestError, match=f"expected a position from {first} on"):
            look(first - 1)
    asked = ReadAttentionRows(first - 1, "from", "layer-mean", layer=sliding)
    with pytest.raises(RequestError, match=f"expected a position from {first} on"):
        service.ask("first", asked)
    with pytest.raises(RequestError, match="begins with the first token"):
        service.ask("first", ReadAttentionRows(len(tokens) - 1, "from", "rollout"))
    asked = ReadAttentionRows(first, "from", "layer-mean", layer=sliding)
    assert sum(service.ask("first", asked).weights) == pytest.approx(1, abs=1e-5)
    for what in ("key-norm", "value-norm", "received"):
        layers = (found := service.ask("first", MeasureCache(what))).layers
        values = np.array(found.values)
        assert np.isnan(values[layers.index(sliding), : first - WINDOW]).all()
        assert np.isfinite(values[layers.index(sliding), first:-1]).all()
        assert np.isfinite(values[layers.index(other)]).all()
    assert np.isfinite(service.ask("first", ReadScores()).scores["entropy"]).all()


def test_texts_become_vectors_beside_long_answers(client, folder):
    service, _ = served(client, folder)
    vectors = service.embed([TEXTS[0], TEXTS[1], *[TEXTS[0][i : i + 3] for i in range(40)]]).vectors
    asked = [Asked(service, tokens=text, sampling=SEVERAL) for text in TEXTS]
    again = service.embed([TEXTS[0], TEXTS[1], *[TEXTS[0][i : i + 3] for i in range(40)]]).vectors
    assert [len(one.tokens()) for one in asked] == [6, 6]
    assert np.allclose(vectors, again, atol=1e-5)


def test_a_budget_has_room_for_more_pages_than_windows_need(client, folder):
    _, runner = served(client, folder)
    rows, places = row_bytes(runner), 4 * window_pages(WINDOW)
    assert rows.windowed and rows.whole
    page, windowed = PAGE * sum(rows.whole), places * PAGE * sum(rows.windowed)

    def room(budget, context=CONTEXT):
        options = StartServing(parallel=2, cache_budget=budget, context=context)
        found = room_for(runner, options)
        return found.pages, found.windowed

    assert room(windowed + 40 * page) == (40, places)
    assert room(windowed + 40 * page - 1) == (39, places)
    whole = rows.page_bytes(1, 1)
    assert room(places * whole, 8 * PAGE) == (places, 0), "no more than windows need"
    assert room(0) == (2 * 16, places)
    with pytest.raises(OutOfMemoryError, match=r"one answer of 2048 tokens takes \d+ MiB"):
        room(10 * whole)
