"""Gains, lens and comparison through the engine: in order, in the middle of an answer, refused."""

import math

import pytest

from llm_lite.core.errors import DeviceLostError
from llm_lite.core.loading import backends
from llm_lite.core.messages import (
    ChatMessage,
    CompareGains,
    ExecutorChanged,
    FollowToken,
    GainsEffect,
    GenerationStarted,
    Inspect,
    LensResult,
    Logged,
    Reconfigure,
    SetGains,
    TokenDecoded,
    TokenFollowed,
)
from llm_lite.core.records import replace
from llm_lite.core.text.tokenizer import Tokenizer
from tests.core.engine_client import GREEDY, HELLO, PATIENCE, Client, Hook
from tests.make_gguf import tokenizer_metadata
from tests.runners import exact

ONES, HALF = (((g,) * 4,) * 2 for g in (1.0, 0.5))
NONE = ((0.0,) * 4,) * 2


@pytest.fixture
def client(tiny_llama):
    client = Client()
    client.load(tiny_llama)
    yield client
    assert client.engine.close(PATIENCE)


def test_an_answer_with_gains_of_its_own_is_exact_and_leaves_the_others_be(client, tiny_llama):
    plain = client.ask(1)[1]
    steered = client.ask(2, gains=HALF)[1]
    assert client.of(GenerationStarted)[-1].reused_tokens == 0
    assert steered != plain
    assert client.ask(3, gains=HALF)[1] == steered
    assert client.of(GenerationStarted)[-1].reused_tokens > 0, "made with just these"
    assert client.ask(4)[1] == plain, "the live gains are still 1"
    assert client.of(GenerationStarted)[-1].reused_tokens > 0, "what was made with 1 was kept aside"
    fresh = Client()
    fresh.load(tiny_llama)
    fresh.send(SetGains(HALF))
    assert fresh.ask(1)[1] == steered
    assert fresh.engine.close(PATIENCE)


def test_gains_set_between_answers_keep_the_cache(client):
    plain = client.ask(1)[1]
    client.send(SetGains(HALF))
    assert client.ask(2)[1] != plain
    assert client.of(GenerationStarted)[-1].reused_tokens > 0
    client.send(SetGains(ONES))
    client.send(Reconfigure(exact(context=100)))
    assert client.ask(3)[1] == plain


def test_another_conversation_reuses_nothing_that_other_gains_made(client):
    """What both begin with was computed with the gains of the first."""
    plain = client.ask(1, conversation=1)[1]
    client.send(SetGains(HALF))
    client.ask(2, conversation=1)
    assert client.of(GenerationStarted)[-1].reused_tokens > 0, "of its own, all is kept"
    steered = client.ask(3, conversation=2)[1]
    assert client.of(GenerationStarted)[-1].reused_tokens == 0 and steered != plain
    client.send(SetGains(ONES))
    assert client.ask(4, conversation=3)[1] == plain


def test_gains_outlive_a_change_of_executor(client):
    client.send(SetGains(HALF))
    steered = client.ask(1)[1]
    client.send(Reconfigure(exact(context=100)))
    assert client.ask(2)[1] == steered


def at_step(monkeypatch, number, act):
    """Calls act() during the step of this number."""
    hook = Hook(monkeypatch)

    def acting(step, should_stop):
        if len(hook.steps) == number:
            act()

    hook.at_step = acting
    return hook


def test_gains_set_in_the_middle_of_an_answer(monkeypatch, tiny_llama):
    client = Client()
    at_step(monkeypatch, 5, lambda: client.send(SetGains(NONE)))
    client.load(tiny_llama)
    live = client.ask(1)[1]
    plain = client.ask(2, gains=ONES)[1]
    assert live[:5] == plain[:5], "the step that ran is not touched"
    assert live != plain
    assert client.engine.close(PATIENCE)


def test_an_answer_with_gains_of_its_own_keeps_them(monkeypatch, tiny_llama):
    client = Client()
    at_step(monkeypatch, 5, lambda: client.send(SetGains(NONE)))
    client.load(tiny_llama)
    own = client.ask(1, gains=HALF)[1]
    assert client.ask(2, gains=HALF)[1] == own
    assert client.ask(3)[1] == client.ask(4, gains=NONE)[1], "the gains that were set meanwhile"
    assert client.engine.close(PATIENCE)


def test_requests_are_served_between_two_tokens(monkeypatch, tiny_llama):
    client = Client()
    requests = (Inspect(2, 7), CompareGains(8), Inspect(999, 9))
    requests += (FollowToken(10, 3, 1, 2), FollowToken(11, 999, 1, 2))
    at_step(monkeypatch, 4, lambda: client.send(*requests))
    client.load(tiny_llama)
    watched = client.ask(1)[1]
    served = client.of((LensResult, GainsEffect, TokenFollowed))
    assert [event.request for event in served] == [7, 8, 9, 10, 11]
    last = client.events.index(served[-1])
    assert any(isinstance(event, TokenDecoded) for event in client.events[last:])
    lens, effect, refused, followed, missing = served
    assert [row.layer for row in lens.rows] == [0, 1]
    assert all(len(row.tokens) == 5 for row in lens.rows)
    assert effect.kl == 0
    assert refused.rows == ()
    assert "position 999 is not in the cache" in refused.message
    assert "position 999 is not in the cache" in missing.message and missing.trace is None
    trace = followed.trace
    assert (trace.position, trace.layer, trace.head) == (3, 1, 2)
    assert all(token.text for token in trace.distribution.top[:5])
    assert [row.layer for row in lens.rows] == list(range(trace.shape.layers))
    other = Client()
    other.load(tiny_llama)
    assert other.ask(1)[1] == watched
    assert client.engine.close(PATIENCE) and other.engine.close(PATIENCE)


def test_requests_without_an_answer_running(client):
    client.send(CompareGains(1))
    assert "the cache is empty" in client.until(GainsEffect).message
    client.ask(2)
    client.send(SetGains(NONE), CompareGains(3))
    effect = client.until(GainsEffect)
    assert effect.request == 3
    assert effect.kl > 0 and not effect.message
    client.send(Inspect(0, 4))
    assert client.until(LensResult).position == 0


def test_requests_without_a_model():
    client = Client()
    client.send(Inspect(0, 1), FollowToken(3, 0, 0, 0), CompareGains(2), SetGains(ONES))
    lens, effect = client.until(LensResult), client.until(GainsEffect)
    assert "no model is loaded" in lens.message
    assert "no model is loaded" in effect.message and math.isnan(effect.kl)
    assert "no model is loaded" in client.of(TokenFollowed)[0].message
    assert "no model is loaded" in client.until(Logged).text
    assert client.engine.close(PATIENCE)


def test_gains_of_another_shape(client):
    client.send(SetGains(((1.0,),)))
    while "gains" not in (text := client.until(Logged).text):
        pass
    assert text == "gains: expected 2 layers of 4 heads each"
    finished, _ = client.ask(1, gains=((1.0,),))
    assert finished.stop_reason == "error"
    assert finished.message == text
    assert client.ask(2)[0].stop_reason == "length"


def test_a_new_model_begins_with_gains_of_1(client, tiny_llama):
    plain = client.ask(1)[1]
    client.send(SetGains(HALF))
    client.load(tiny_llama)
    assert client.ask(2)[1] == plain


def test_another_choice_and_what_follows(client):
    _, tokens = client.ask(1)
    events = client.of(TokenDecoded)
    other = events[3].alternatives[1].token
    assert other != tokens[3]
    forced = (*tokens[:3], other)
    two = replace(GREEDY, max_new_tokens=2)
    finished, branch = client.ask(2, sampling=two, forced=forced)
    told = [e for e in client.of(TokenDecoded) if e.request == 2]
    assert branch[:4] == list(forced)
    assert len(branch) == 4 + 2, "forced tokens are not new ones"
    assert finished.stats.new_tokens == len(branch)
    assert all(math.isnan(e.probability) and not e.alternatives for e in told[:3])
    assert told[3].probability == pytest.approx(events[3].alternatives[1].probability, rel=1e-3)
    assert "".join(e.text for e in told[:3]) == "".join(e.text for e in events[:3])
    greedy = Client.ask(client, 3, forced=tuple(tokens[:5]))[1]
    assert greedy[: len(tokens)] == tokens, "forced to what it would say, it says the same"


def test_forced_tokens_that_cannot_be(client):
    for forced in ((5, 300), (-1,)):
        finished, tokens = client.ask(1, forced=forced)
        assert finished.stop_reason == "error" and tokens == []
        assert "is outside the vocabulary of 300 tokens" in finished.message
    finished, _ = client.ask(2, forced=(5,) * 128)
    assert finished.stop_reason == "error"
    assert "the context holds 128" in finished.message


def test_a_forced_end_token_ends(client):
    end = next(iter(Tokenizer.from_gguf(tokenizer_metadata(300), "tiny").end_ids))
    finished, tokens = client.ask(1, forced=(5, end))
    assert (finished.stop_reason, tokens) == ("end", [5, end])


def test_alternatives(client):
    client.ask(1, sampling=replace(GREEDY, temperature=1.0, seed=1))
    for event in client.of(TokenDecoded):
        chances = [a.probability for a in event.alternatives]
        assert len(chances) == 5 and chances == sorted(chances, reverse=True)
        assert sum(chances) <= 1
        same = [a for a in event.alternatives if a.token == event.token]
        assert all(a.probability == pytest.approx(event.probability) for a in same)
        assert same or event.probability <= chances[-1]


def test_the_prompt_says_whose_its_tokens_are(client):
    answer = ChatMessage("assistant", "of the sea", (70, 71, 72))
    turns = (ChatMessage("system", "Be brief."), *HELLO, answer, ChatMessage("user", "On?"))
    client.ask(1, turns)
    started = client.of(GenerationStarted)[-1]
    assert len(started.prompt) == started.prompt_tokens
    said = {
        owner: "".join(t.text for t in started.prompt if t.message == owner)
        for owner in range(-1, 4)
    }
    assert (said[0], said[1], said[3]) == ("Be brief.", "Hello there", "On?")
    assert [t.id for t in started.prompt if t.message == 2] == [70, 71, 72]
    assert "Hello" not in said[-1] and said[-1].count("<|im_start|>") == 5
    client.ask(2, turns, raw=True)
    owners = [t.message for t in client.of(GenerationStarted)[-1].prompt]
    assert sorted(owners) == owners and set(owners) == {0, 1, 2, 3}
    assert owners.count(2) == 3


def test_gains_go_on_where_the_device_fails(monkeypatch, tiny_llama):
    client = Client()
    hook = Hook(monkeypatch, "vulkan")

    def lose(step, should_stop):
        if len(hook.steps) == 5:
            raise DeviceLostError("the device was lost")

    hook.at_step = lose
    monkeypatch.setattr(backends, "choose", lambda *_: backends.ExecutorChoice("vulkan", ""))
    monkeypatch.setattr(backends, "device_name", lambda choice: "planted")
    client.load(tiny_llama, exact("vulkan"))
    moved = client.ask(1, gains=HALF)[1]
    assert client.of(ExecutorChanged)
    assert client.ask(2, gains=HALF)[1] == moved
    assert client.ask(3)[1] != moved
    assert client.engine.close(PATIENCE)
