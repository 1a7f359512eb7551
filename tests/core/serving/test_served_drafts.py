"""Drafts of an answer that a server writes alone: the same answers in fewer steps."""

import threading
import time

import pytest

from llm_lite.core.errors import DeviceLostError
from llm_lite.core.generation.speculation import draft_model, speculation
from llm_lite.core.generation.speculation.lookup import LookupSource
from llm_lite.core.messages import (
    Reconfigure,
    SamplingOptions,
    ServingChanged,
    StopServing,
    TokenDecoded,
)
from llm_lite.core.plan.step import PAGE
from llm_lite.core.records import replace
from llm_lite.core.serving import drafts
from tests.children import PATIENCE
from tests.core.serving.clients import Asked, is_of_clients, serve
from tests.runners import BACKENDS, exact

LONG = SamplingOptions(temperature=0.0, max_new_tokens=60)
# Greedy answers of a random model soon repeat themselves; these are drawn from few tokens.
DRAWN = replace(LONG, temperature=0.7, seed=5, top_k=2)
PENALIZED = replace(LONG, repetition_penalty=1.1, presence_penalty=0.2)
TWICE = tuple(n % 97 + 5 for n in range(200))
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


@pytest.mark.parametrize(
    "changes",
    [{"stop": ("a",)}, {"json_schema": '{"type": "array"}'}, {"grammar": 'root ::= "a" [a-z]*'}],
)
def test_what_is_told_of_tokens_is_the_same(client, served_model, changes):
    """Shares to the last bit, what else was likely, where a stop string begins."""
    client.load(served_model, exact("cpu"))
    found = []
    for speculate in ("off", "lookup"):
        service = serve(client, speculate=speculate, parallel=1)
        sampling = replace(LONG, **changes)
        asked = Asked(service, tokens=PROMPT, sampling=sampling, alternatives=3)
        found.append((asked.text(), asked.finished().stop_reason, attachment_text(asked)))
    assert found[0] == found[1]
    assert asked.finished().stats.drafted > 0


def attachment_text(asked):
    """By token."""
    told = [event for event in asked.events if isinstance(event, TokenDecoded)]
    return [(event.token, event.probability, event.alternatives) for event in told]


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


def test_what_was_said_is_computed_again_without_drafts(client, served_model, hook):
    """By another executor, which takes the answer over: what comes next is known already. Its
    tokens take the places that drafts have."""
    client.load(served_model, exact())
    (plain,) = answers(client, "off", [LONG], parallel=1)
    tokens = plain.tokens()
    reached = hook.block_step(len(hook.steps) + 15)  # where its text repeats itself
    (asked,) = answers(client, "lookup", [LONG], parallel=1)
    assert reached.wait(PATIENCE)
    before = len(hook.steps)
    client.send(Reconfigure(exact(context=384)))
    hook.heard = True
    assert asked.tokens() == tokens
    steps = [step.segments for step in hook.steps[before:]]
    prompt = next(i for i, segments in enumerate(steps) if segments[0].start == 0)
    last = next(i for i in range(prompt + 1, len(steps)) if steps[i][-1].outputs)
    said = [segment for segments in steps[prompt + 1 : last + 1] for segment in segments]
    assert len(said) > 15 > last - prompt
    assert [segment.start for segment in said] == [len(PROMPT) + i for i in range(len(said))]
    assert [segment.outputs for segment in said] == [0] * (len(said) - 1) + [1]


def test_a_long_text_is_heard_in_pieces(client, served_model, hook, monkeypatch):
    """The answer goes on without drafts meanwhile; the next question knows what was heard."""
    begun = []
    begin = LookupSource.begin

    def note(source, tokens):
        begun.append(len(tokens))
        begin(source, tokens)

    monkeypatch.setattr(LookupSource, "begin", note)
    monkeypatch.setattr(speculation, "PIECE", 4)
    client.load(served_model, exact())
    (plain,) = answers(client, "off", [LONG], parallel=1)
    tokens = plain.tokens()
    before = len(hook.steps)
    service = serve(client, speculate="lookup", parallel=1)
    asked = Asked(service, tokens=PROMPT, sampling=LONG)
    assert asked.tokens() == tokens
    assert asked.finished().stats.accepted > 0
    drafted = [len(step.segments) > 1 for step in hook.steps[before:]]
    assert drafted.index(True) > len(PROMPT) // 4
    Asked(service, tokens=(*PROMPT, *tokens, 7), sampling=LONG).finished()
    assert begun[0] == 4
    assert len(PROMPT) < begun[1] < len(PROMPT) + len(tokens)


def test_a_draft_model_reads_a_long_text_in_pieces(client, served_model, hook, monkeypatch):
    """A client that leaves meanwhile is not waited for."""
    monkeypatch.setattr(draft_model, "LEAST_CHANCE", 0.0)
    monkeypatch.setattr(drafts, "CHUNK", 32)
    client.load(served_model, exact(speculate="lookup", draft_model=str(served_model)))
    plain = Asked(serve(client), tokens=TWICE, sampling=LONG).tokens()
    before = len(hook.steps)
    service = serve(client, speculate="lookup", by_draft_model=True)
    asked = Asked(service, tokens=TWICE, sampling=LONG)
    assert asked.tokens() == plain
    assert "model" in {one.source for one in asked.finished().stats.drafted_by}
    read = [len(step.tokens) for step in hook.steps[before:] if not is_of_clients(step)]
    assert max(read) == 32
    assert read.count(32) == len(TWICE) // 32

    reached = threading.Event()

    def wait(step, should_stop):
        if not is_of_clients(step) and not hook.heard:
            reached.set()
            while not (stops := should_stop()):
                time.sleep(0.001)
            hook.heard = stops

    hook.at_step = wait
    left = Asked(service, tokens=TWICE[::-1], sampling=LONG)
    assert reached.wait(PATIENCE)
    left.handle.cancel()
    assert left.finished().stop_reason == "stopped"
    assert Asked(service, tokens=TWICE, sampling=LONG).tokens() == plain
    client.send(StopServing())
    client.until(ServingChanged)
    model = client.engine._host.runner.draft.source
    assert model.most_read == draft_model.DraftModel.most_read, "of the chat again"


def test_the_chats_choice_reaches_a_server_that_is_on(client, served_model):
    """Where it was switched on without one of its own."""
    client.load(served_model, exact(speculate="off"))
    service = serve(client, speculate=None)
    plain = Asked(service, tokens=PROMPT, sampling=LONG)
    assert plain.finished().stats.drafted == 0
    for chosen, has_drafts in (("lookup", True), ("off", False)):
        client.send(Reconfigure(exact(speculate=chosen)))
        client.until(ServingChanged)
        asked = Asked(service, tokens=PROMPT, sampling=LONG)
        assert asked.tokens() == plain.tokens()
        assert (asked.finished().stats.drafted > 0) == has_drafts


@pytest.mark.parametrize("where", ["drafting", "verifying"])
def test_a_device_that_is_lost_takes_nothing_along(client, served_model, hook, monkeypatch, where):
    """While a model drafts, and while its drafts are verified."""
    monkeypatch.setattr(draft_model, "LEAST_CHANCE", 0.0)
    client.load(served_model, exact(speculate="lookup", draft_model=str(served_model)))
    plain = Asked(serve(client), tokens=TWICE[:50], sampling=LONG).tokens()
    service = serve(client, speculate="lookup", by_draft_model=True)
    lost = threading.Event()

    def lose(step, should_stop):
        is_drafting, is_verifying = not is_of_clients(step), len(step.segments) > 1
        is_there = is_drafting if where == "drafting" else is_verifying and not is_drafting
        if is_there and not lost.is_set():
            lost.set()
            raise DeviceLostError("the device was lost")

    hook.at_step = lose
    asked = Asked(service, tokens=TWICE[:50], sampling=LONG)
    assert asked.tokens() == plain
    assert lost.is_set()
    assert Asked(service, tokens=TWICE[:50], sampling=LONG).tokens() == plain
    assert service.status().failed == 0
