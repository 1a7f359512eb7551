"""Gains, lens and comparison through the engine: in order, in the middle of an answer, refused."""

import math
import threading

import pytest

from llm_lite.core.engine import step_requests
from llm_lite.core.engine.step_requests import StepRequestServer
from llm_lite.core.errors import DeviceLostError, RequestError
from llm_lite.core.handles import Handle
from llm_lite.core.loading import backends
from llm_lite.core.messages import (
    ChatMessage,
    CountTokens,
    EffectRead,
    Ended,
    ExecutorChanged,
    FollowToken,
    GenerationStarted,
    Inspect,
    InterventionsSet,
    LensResult,
    Logged,
    ReadAttentionRows,
    ReadEffect,
    Reconfigure,
    SetInterventions,
    TokenDecoded,
    TokenFollowed,
)
from llm_lite.core.messages.interventions import (
    NO_CHANGES,
    Choose,
    Interventions,
    Replace,
    Scale,
    Shift,
)
from llm_lite.core.questions import lens as lens_question
from llm_lite.core.records import replace
from llm_lite.core.text.tokenizer import Tokenizer
from tests.changes import scales
from tests.core.engine_client import GREEDY, HELLO, PATIENCE, Client, Hook
from tests.make_gguf import tokenizer_metadata
from tests.runners import exact, running

ONES, HALF = (((g,) * 4,) * 2 for g in (1.0, 0.5))
NONE = ((0.0,) * 4,) * 2


@pytest.fixture
def client(tiny_llama):
    client = Client()
    client.load(tiny_llama)
    yield client
    assert client.engine.close(PATIENCE)


def test_an_answer_with_gains_of_its_own_is_exact_and_leaves_the_others_be(client, tiny_llama):
    plain = client.ask()[1]
    steered = client.ask(interventions=scales(HALF))[1]
    assert client.of(GenerationStarted)[-1].reused_tokens == 0
    assert steered != plain
    assert client.ask(interventions=scales(HALF))[1] == steered
    assert client.of(GenerationStarted)[-1].reused_tokens > 0, "made with just these"
    assert client.ask()[1] == plain, "the live gains are still 1"
    assert client.of(GenerationStarted)[-1].reused_tokens > 0, "what was made with 1 was kept aside"
    fresh = Client()
    fresh.load(tiny_llama)
    fresh.send(SetInterventions(scales(HALF)))
    assert fresh.ask()[1] == steered
    assert fresh.engine.close(PATIENCE)


SHIFT = Interventions((Shift("blocks.0.hook_resid_post", (0.4, -0.3) * 32),))


def test_layers_are_shifted_as_heads_are_weighed(client, tiny_llama):
    plain = client.ask()[1]
    shifted = client.ask(interventions=SHIFT)[1]
    assert client.of(GenerationStarted)[-1].reused_tokens == 0 and shifted != plain
    assert client.ask(interventions=SHIFT)[1] == shifted
    assert client.ask()[1] == plain
    client.result(SetInterventions(SHIFT))
    assert client.ask(conversation=3)[1] == shifted
    client.result(Reconfigure(exact(context=100)))
    assert client.ask(conversation=4)[1] == shifted, "they outlive a change of executor"
    both = Interventions((*scales(HALF).changes, *SHIFT.changes))
    client.result(SetInterventions(both))
    steered = client.ask(conversation=5)[1]
    assert steered not in (shifted, plain)
    assert client.ask(interventions=both, conversation=6)[1] == steered
    client.result(SetInterventions(scales(HALF)))
    half = client.ask(interventions=scales(HALF), conversation=8)[1]
    assert client.ask(conversation=7)[1] == half != steered, "they take the place of all others"
    assert client.ask(interventions=NO_CHANGES, conversation=9)[1] == plain, "its own are none"
    client.result(SetInterventions(NO_CHANGES))
    assert client.ask(conversation=10)[1] == plain


def test_what_is_set_is_told_by_the_names_of_the_model(client):
    client.result(SetInterventions(scales(HALF)))
    shift = Shift("blocks.0.hook_resid_post", (0.5,) * 64)
    told = client.result(SetInterventions(Interventions((shift,))))
    assert isinstance(told, InterventionsSet)
    (change,) = told.interventions.changes
    assert change == replace(shift, site="layers.0.feed_forward.residual")


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (Replace("layers.0.attention.heads", ((0.0,) * 64,), (0,)), "rows are put in place where"),
        (Shift("layers.0.attention.heads", (0.0,) * 64), "only what layers leave is shifted"),
        (Scale("layers.0.attention.output", 0.0), "only heads, as of"),
        (Scale("layers.0.attention.heads", 0.0, 9), "has heads 0 to 3, found 9"),
        (Choose("layers.0.attention.heads", "last", 1), "is no choice of experts"),
        (Scale("layers.9.attention.heads", 0.0), "did you mean layers.1.attention.heads"),
    ],
)
def test_what_cannot_act_is_refused_and_the_others_stay(client, change, sentence):
    client.result(SetInterventions(scales(HALF)))
    halved = client.ask(conversation=1)[1]
    with pytest.raises(RequestError, match=sentence):
        client.result(SetInterventions(Interventions((change,))))
    assert client.of(InterventionsSet)[-1].interventions == scales(HALF)
    assert sentence in client.refusal(interventions=Interventions((change,)))
    assert client.ask(conversation=2)[1] == halved


def test_gains_set_between_answers_keep_the_cache(client):
    plain = client.ask()[1]
    client.send(SetInterventions(scales(HALF)))
    assert client.ask()[1] != plain
    assert client.of(GenerationStarted)[-1].reused_tokens > 0
    client.send(SetInterventions(scales(ONES)))
    client.send(Reconfigure(exact(context=100)))
    assert client.ask()[1] == plain


def test_another_conversation_reuses_nothing_that_other_gains_made(client):
    """What both begin with was computed with the gains of the first."""
    plain = client.ask(conversation=1)[1]
    client.send(SetInterventions(scales(HALF)))
    client.ask(conversation=1)
    assert client.of(GenerationStarted)[-1].reused_tokens > 0, "of its own, all is kept"
    steered = client.ask(conversation=2)[1]
    assert client.of(GenerationStarted)[-1].reused_tokens == 0 and steered != plain
    client.send(SetInterventions(scales(ONES)))
    assert client.ask(conversation=3)[1] == plain


def test_gains_outlive_a_change_of_executor(client):
    client.send(SetInterventions(scales(HALF)))
    steered = client.ask()[1]
    client.send(Reconfigure(exact(context=100)))
    assert client.ask()[1] == steered


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
    at_step(monkeypatch, 5, lambda: client.send(SetInterventions(scales(NONE))))
    client.load(tiny_llama)
    live = client.ask()[1]
    plain = client.ask(interventions=scales(ONES))[1]
    assert live[:5] == plain[:5], "the step that ran is not touched"
    assert live != plain
    assert client.engine.close(PATIENCE)


def test_an_answer_with_gains_of_its_own_keeps_them(monkeypatch, tiny_llama):
    client = Client()
    at_step(monkeypatch, 5, lambda: client.send(SetInterventions(scales(NONE))))
    client.load(tiny_llama)
    own = client.ask(interventions=scales(HALF))[1]
    assert client.ask(interventions=scales(HALF))[1] == own
    assert client.ask()[1] == client.ask(interventions=scales(NONE))[1], (
        "the gains that were set meanwhile"
    )
    assert client.engine.close(PATIENCE)


def test_requests_are_served_between_two_tokens(monkeypatch, tiny_llama):
    monkeypatch.setattr(step_requests, "SERVE_SECONDS", PATIENCE)  # none is cut into slices
    client = Client()
    requests = (Inspect(2), ReadEffect(), Inspect(999))
    requests += (FollowToken(3, 1, 2), FollowToken(999, 1, 2))
    handles = []
    at_step(monkeypatch, 4, lambda: handles.extend(map(client.send, requests)))
    client.load(tiny_llama)
    watched = client.ask()[1]
    told = [report for report in client.reports if report.command in requests]
    kinds = [(requests.index(report.command), type(report.event)) for report in told]
    assert kinds == [
        *((0, LensResult), (0, Ended), (1, EffectRead), (1, Ended), (2, Ended)),
        *((3, TokenFollowed), (3, Ended), (4, Ended)),
    ]
    last = client.reports.index(told[-1])
    assert any(isinstance(report.event, TokenDecoded) for report in client.reports[last:])
    lens, effect, followed = (handles[number].result() for number in (0, 1, 3))
    assert [row.layer for row in lens.rows] == [0, 1]
    assert all(len(row.tokens) == 5 for row in lens.rows)
    assert effect.kl == 0
    for number in (2, 4):
        with pytest.raises(RequestError, match="position 999 is not in the cache"):
            handles[number].result()
    trace = followed.trace
    assert (trace.position, trace.layer, trace.head) == (3, 1, 2)
    assert all(token.text for token in trace.distribution.top[:5])
    assert [row.layer for row in lens.rows] == list(range(trace.shape.layers))
    other = Client()
    other.load(tiny_llama)
    assert other.ask()[1] == watched
    assert client.engine.close(PATIENCE) and other.engine.close(PATIENCE)


def test_a_question_that_gives_way_leaves_nothing_of_it(monkeypatch, tiny_llama):
    """One slice of it is run between two steps; a newer one takes its place."""
    monkeypatch.setattr(step_requests, "SERVE_SECONDS", 0.0)
    server = StepRequestServer(lambda *_: None)
    first, second = (
        Handle(ReadAttentionRows(position, "from", "layer-mean"), lambda _: None)
        for position in (3, 4)
    )
    with running(tiny_llama) as runner:
        runner.session.prefill(list(range(40)))
        server.submit(first)
        server.serve(runner, lambda: True)
        assert not first.is_over and list(server._unfinished) == [first]
        server.submit(second)
        server.serve(runner, lambda: False)
        with pytest.raises(RequestError, match="a newer request"):
            first.result(0)
        assert second.result(0).position == 4 and not server._unfinished
        server.submit(first := Handle(second.command, lambda _: None))
        server.serve(runner, lambda: True)
        server.serve(None, lambda: True)
        assert first.is_over and not server._unfinished


def test_a_defect_ends_its_request_and_not_the_answer(monkeypatch, tiny_llama):
    client, handles = Client(), []
    at_step(monkeypatch, 4, lambda: handles.append(client.send(Inspect(2))))
    monkeypatch.setattr(lens_question, "layer_logits", lambda *_: 1 / 0)
    client.load(tiny_llama)
    assert client.ask()[0].stop_reason == "length"
    with pytest.raises(RequestError, match="an internal error"):
        handles[0].result(PATIENCE)
    assert "ZeroDivisionError" in client.of(Logged)[-1].text
    assert client.engine.close(PATIENCE)


def test_requests_without_an_answer_running(client):
    with pytest.raises(RequestError, match="the cache is empty"):
        client.result(ReadEffect())
    client.ask()
    effect = client.result(SetInterventions(scales(NONE)), ReadEffect())
    assert isinstance(effect, EffectRead) and effect.kl > 0
    lens = client.result(Inspect(0))
    assert isinstance(lens, LensResult) and lens.position == 0


def test_the_end_of_a_question_says_of_which_tokens_it_was_answered(client):
    client.ask()
    counted = client.until_end(client.send(CountTokens(("so",))))
    assert (counted.problem, counted.of_tokens) == ("", None)
    tokens = client.engine.attention().tokens()
    for question, problem in ((ReadEffect(), ""), (Inspect(len(tokens)), "position")):
        ended = client.until_end(client.send(question))
        assert ended.of_tokens == tokens and len(tokens) > 3
        assert problem in ended.problem and bool(problem) == bool(ended.problem)


def test_requests_without_a_model():
    client = Client()
    commands = (
        Inspect(0),
        FollowToken(0, 0, 0),
        ReadEffect(),
        SetInterventions(scales(ONES)),
    )
    for handle in [client.send(command) for command in commands]:
        with pytest.raises(RequestError, match="no model is loaded"):
            handle.result(PATIENCE)
        assert "no model is loaded" in client.until(Ended).problem
    assert not client.of((LensResult, TokenFollowed, EffectRead))
    assert client.engine.close(PATIENCE)


def test_a_new_model_begins_with_gains_of_1(client, tiny_llama):
    plain = client.ask()[1]
    client.send(SetInterventions(scales(HALF)))
    client.load(tiny_llama)
    assert client.ask()[1] == plain


def test_another_choice_and_what_follows(client):
    _, tokens = client.ask()
    events = client.of(TokenDecoded)
    other = events[3].alternatives[1].token
    assert other != tokens[3]
    forced = (*tokens[:3], other)
    two = replace(GREEDY, max_new_tokens=2)
    finished, branch = client.ask(sampling=two, forced=forced)
    told = client.of(TokenDecoded, client.handles[-1])
    assert branch[:4] == list(forced)
    assert len(branch) == 4 + 2, "forced tokens are not new ones"
    assert finished.stats.new_tokens == len(branch)
    assert all(math.isnan(e.probability) and not e.alternatives for e in told[:3])
    assert told[3].probability == pytest.approx(events[3].alternatives[1].probability, rel=1e-3)
    assert "".join(e.text for e in told[:3]) == "".join(e.text for e in events[:3])
    greedy = Client.ask(client, forced=tuple(tokens[:5]))[1]
    assert greedy[: len(tokens)] == tokens, "forced to what it would say, it says the same"


def test_forced_tokens_that_cannot_be(client):
    for forced in ((5, 300), (-1,)):
        assert "is outside the vocabulary of 300 tokens" in client.refusal(forced=forced)
        assert not client.of(TokenDecoded, client.handles[-1])
    assert "the context holds 128" in client.refusal(forced=(5,) * 128)


def test_a_forced_end_token_ends(client):
    end = next(iter(Tokenizer.from_gguf(tokenizer_metadata(300), "tiny").end_ids))
    finished, tokens = client.ask(forced=(5, end))
    assert (finished.stop_reason, tokens) == ("end", [5, end])


def test_alternatives(client):
    client.ask(sampling=replace(GREEDY, temperature=1.0, seed=1))
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
    client.ask(turns)
    started = client.of(GenerationStarted)[-1]
    assert len(started.prompt) == started.prompt_tokens
    said = {
        owner: "".join(t.text for t in started.prompt if t.message == owner)
        for owner in range(-1, 4)
    }
    assert (said[0], said[1], said[3]) == ("Be brief.", "Hello there", "On?")
    assert [t.id for t in started.prompt if t.message == 2] == [70, 71, 72]
    assert "Hello" not in said[-1] and said[-1].count("<|im_start|>") == 5
    client.ask(turns, raw=True)
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
    moved = client.ask(interventions=scales(HALF))[1]
    assert client.of(ExecutorChanged)
    assert client.ask(interventions=scales(HALF))[1] == moved
    assert client.ask()[1] != moved
    assert client.engine.close(PATIENCE)


def test_a_lens_for_which_tokens_run_again_can_be_cancelled(recurrent_folder, monkeypatch):
    client = Client()
    client.load(recurrent_folder, exact("cpu"))
    client.ask()
    runner = client.engine._host.runner
    states, run_ops, ran = runner.session.cache.states, runner.executor.run_ops, []
    before, asked = runner.session.tokens(), threading.Event()

    def cancelling(*given):
        assert asked.wait(PATIENCE)
        ran.append(given)
        handle.cancel()
        run_ops(*given)

    monkeypatch.setattr(runner.executor, "run_ops", cancelling)
    handle = client.engine.submit(Inspect(len(before) - 5))
    asked.set()
    with pytest.raises(RequestError, match="it was cancelled"):
        handle.result(PATIENCE)
    assert len(ran) == 1 and runner.session.tokens() == before and states.holds(len(before))
    monkeypatch.undo()
    assert client.result(Inspect(len(before) - 5)).rows
    assert client.engine.close(PATIENCE)
