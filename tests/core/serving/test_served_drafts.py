"""Drafts of an answer that a server writes alone: the same answers in fewer steps."""

from dataclasses import replace

import pytest

from llm_lite.core.generation.speculation import draft_model
from llm_lite.core.messages import SamplingOptions, TokenDecoded
from llm_lite.core.plan.step import PAGE
from tests.core.serving.clients import Asked, serve
from tests.runners import BACKENDS, exact

LONG = SamplingOptions(temperature=0.0, max_new_tokens=60)
# Greedy answers of a random model soon repeat themselves; these are drawn from few tokens.
DRAWN = replace(LONG, temperature=0.7, seed=5, top_k=2)
PENALIZED = replace(LONG, repetition_penalty=1.1, presence_penalty=0.2)
SAMPLINGS = [LONG, DRAWN, PENALIZED]
PROMPT = (*range(5, 25), *range(5, 25), 5)


def answers(client, speculate, samplings=SAMPLINGS, **options):
    service = serve(client, speculate=speculate, **options)
    return [Asked(service, tokens=PROMPT, sampling=sampling) for sampling in samplings]


@pytest.mark.parametrize("backend", BACKENDS)
def test_answers_are_the_same(client, device, served_model, backend):
    client.engine.device_lost(device)
    client.load(served_model, exact(backend))
    plain = [asked.tokens() for asked in answers(client, "off", parallel=1)]
    found = answers(client, "lookup", parallel=1)
    assert [asked.tokens() for asked in found] == plain
    stats = [asked.finished().stats for asked in found]
    assert [s.passes + s.accepted for s in stats] == [len(tokens) - 1 for tokens in plain]
    assert stats[0].accepted > 20
    assert stats[0].drafted_by[0].accepted == stats[0].accepted
    assert sum(s.drafted - s.accepted for s in stats) > 0  # some were wrong


def test_each_token_says_whether_it_was_drafted(client, served_model):
    client.load(served_model, exact())
    (asked,) = answers(client, "lookup", [LONG])
    stats = asked.finished().stats
    told = [e for e in asked.events if isinstance(e, TokenDecoded)]
    assert sum(e.accepted for e in told) == stats.accepted > 0
    assert any(e.rejected for e in told)
    assert not any(e.accepted and e.rejected for e in told)
    assert [e.context_used for e in told] == list(range(len(PROMPT), len(PROMPT) + len(told)))


def test_the_cache_holds_what_was_said(client, served_model):
    """What a next question reuses was left by drafts, partly."""
    client.load(served_model, exact())
    longer = replace(LONG, max_new_tokens=PAGE)
    (plain,) = answers(client, "off", [longer])
    whole = (*PROMPT, *plain.tokens(), 7)
    again = Asked(serve(client, speculate="off"), tokens=whole).tokens()
    (first,) = answers(client, "lookup", [longer])
    assert first.tokens() == plain.tokens()
    assert first.finished().stats.accepted > 0
    second = Asked(serve(client, speculate="lookup"), tokens=whole)
    assert second.tokens() == again


def test_answers_are_the_same_beside_others(client, served_model):
    """Drafts begin where one of them is left alone."""
    client.load(served_model, exact())
    alone = [asked.tokens() for asked in answers(client, "off", parallel=3)]
    together = answers(client, "lookup", parallel=3)
    assert [asked.tokens() for asked in together] == alone


def test_drafts_take_the_pages_that_are_there(client, served_model):
    """The answer fills the only page that it may have."""
    client.load(served_model, exact())
    to_the_end = replace(LONG, max_new_tokens=2 * PAGE)
    found = []
    for speculate in ("off", "lookup"):
        service = serve(client, speculate=speculate, parallel=1, context=PAGE)
        asked = Asked(service, tokens=PROMPT, sampling=to_the_end)
        found.append((asked.tokens(), asked.finished().stop_reason))
    assert found[0] == found[1]
    assert found[0][1] == "context"
    assert len(found[0][0]) == PAGE - len(PROMPT) + 1


def test_a_model_drafts_where_nothing_repeats(client, served_model, monkeypatch):
    """Of the same weights in another mode; where one is named, and only there."""
    monkeypatch.setattr(draft_model, "LEAST_CHANCE", 0.0)  # a random model is never sure
    client.load(served_model, exact(speculate="lookup", draft_model=str(served_model)))
    drawn = replace(LONG, temperature=1.5, seed=3, max_new_tokens=40)
    plain = answers(client, "off", [LONG, drawn])
    tokens = [asked.tokens() for asked in plain]
    found = answers(client, "lookup", [LONG, drawn], by_draft_model=True)
    assert [asked.tokens() for asked in found] == tokens
    sources = {one.source for asked in found for one in asked.finished().stats.drafted_by}
    assert sources == {"lookup", "model"}
    assert "model" not in {
        one.source for asked in plain for one in asked.finished().stats.drafted_by
    }
