"""Answers of a server: the same alone and together, and everything told of them."""

import json
import math

import pytest

from llm_lite.core.errors import BusyError, RequestError
from llm_lite.core.messages import (
    ChatMessage,
    Generate,
    GenerationFinished,
    SamplingOptions,
    ServingChanged,
    StartServing,
    StopServing,
    TokenDecoded,
)
from tests.asking import served_maps
from tests.children import PATIENCE
from tests.core.serving.clients import GREEDY, Asked, serve
from tests.fixtures.seq2seq import t5
from tests.runners import BACKENDS, exact
from tests.seq2seq_checks import write_case

PROMPTS = [tuple(range(5, 20)), tuple(range(30, 200)), tuple(range(5, 270)), (9,)]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("changes", [{}, {"mode": "int8", "activations": "auto", "keys": "fp16"}])
def test_together_as_each_alone(client, device, served_model, backend, changes):
    client.engine.device_lost(device)  # "use that one from now on"
    client.load(served_model, exact(backend, **changes))
    service = serve(client, parallel=3)
    assert service.executor.backend == backend
    alone = [Asked(service, tokens=tokens).tokens() for tokens in PROMPTS]
    assert all(len(tokens) == 12 for tokens in alone)
    service = serve(client, parallel=3)  # with an empty cache
    together = [Asked(service, tokens=tokens) for tokens in PROMPTS]
    assert [asked.tokens() for asked in together] == alone
    client.send(StopServing())
    assert not client.until(ServingChanged).is_on
    assert client.engine.service() is None
    with pytest.raises(RequestError, match="serving has ended"):
        Asked(service, tokens=(1, 2))


def test_a_conversation_is_as_in_the_chat(client, served_model):
    client.load(served_model, exact())
    service = serve(client, parallel=2)
    messages = (ChatMessage("user", "Hello there"),)
    asked = Asked(service, messages=messages)
    finished = asked.finished()
    chat, tokens = client.ask(messages)
    assert asked.tokens() == tokens
    assert finished.stop_reason == chat.stop_reason == "length"
    assert finished.stats.prompt_tokens == chat.stats.prompt_tokens
    assert finished.stats.context_used == chat.stats.context_used
    assert min(finished.stats.ttft_ms, finished.stats.decode_tok_s, finished.stats.read_bytes) > 0
    mine = "".join(e.text for e in client.of(TokenDecoded))
    assert asked.text() == mine
    assert service.prompt_tokens(messages) == [token.id for token in asked.started.prompt]
    assert service.tokenize(service.detokenize([70, 71])) == [70, 71]


def test_an_answer_goes_on_where_it_ended(client, served_model):
    client.load(served_model, exact())
    service = serve(client, parallel=2)
    messages = (ChatMessage("user", "Hello there"), ChatMessage("assistant", "the and"))
    asked = Asked(service, messages=messages, continue_last=True)
    _, tokens = client.ask(messages, continue_last=True)
    assert asked.tokens() == tokens
    assert asked.tokens() != Asked(service, messages=messages[:1]).tokens()


def test_the_chat_goes_on_beside_clients(client, served_model):
    client.load(served_model, exact())
    service = serve(client, parallel=2)
    sampling = SamplingOptions(temperature=0.0, max_new_tokens=60)
    asked = Asked(service, tokens=PROMPTS[0], sampling=sampling)
    client.send(Generate((ChatMessage("user", "Hello there"),), GREEDY))
    assert client.until(GenerationFinished).stop_reason == "length"
    assert not asked.done.is_set(), "a step of each in turn: the longer one ends later"
    assert len(asked.tokens()) == 60


def test_a_prefix_is_computed_once(client, served_model):
    client.load(served_model, exact())
    service = serve(client, parallel=4)
    prompt = tuple(range(20, 290))
    first = Asked(service, tokens=prompt)
    assert first.tokens()
    assert first.finished().stats.reused_tokens == 0
    steps = service.status().steps
    again = Asked(service, tokens=(*prompt[:-1], 5))
    again.finished()
    assert again.started.reused_tokens == 256
    assert again.finished().stats.reused_tokens == 256
    assert service.status().steps == steps + 12, "a chunk of 14 tokens, then 11 tokens"
    status = service.status()
    assert (status.prompt_tokens, status.cached_tokens, status.new_tokens) == (540, 256, 24)
    assert (status.finished, status.pages_used, status.requests) == (2, 0, ())
    assert status.pages_kept > 0


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_next_turn_reads_only_what_is_new(client, device, served_model, backend):
    """In the page where the turn before ended, whose maps stay; the answer is that of a turn that
    reads all."""
    client.engine.device_lost(device)
    client.load(served_model, exact(backend))
    service = serve(client, parallel=2)
    first = Asked(service, tokens=PROMPTS[1])
    said = first.tokens()
    turn = (*PROMPTS[1], *said, 7, 8, 9)
    maps = served_maps(service, first.response, 1, (0,), 100, 150)
    again = Asked(service, tokens=turn)
    tokens = again.tokens()
    assert again.started.reused_tokens == len(PROMPTS[1]) + len(said) - 1, "but for its last token"
    assert (served_maps(service, first.response, 1, (0,), 100, 150) == maps).all()
    service = serve(client, parallel=2)  # with an empty cache
    afresh = Asked(service, tokens=turn)
    assert afresh.tokens() == tokens
    assert afresh.started.reused_tokens == 0
    client.send(StopServing())


def test_equal_prompts_at_once_are_read_once(client, served_model, hook):
    client.load(served_model, exact())
    service = serve(client, parallel=4)
    prompt = tuple(range(20, 290))
    several = [Asked(service, tokens=prompt) for _ in range(4)]
    texts = {tuple(asked.tokens()) for asked in several}
    assert len(texts) == 1
    read = sum(len(step.tokens) for step in hook.steps if step.count > 4)
    assert read < 2 * len(prompt), "the two full pages were computed by one of them"
    assert service.status().cached_tokens == 3 * 256


def test_options_of_a_request(client, served_model):
    client.load(served_model, exact())
    service = serve(client)
    plain = Asked(service, tokens=PROMPTS[0], alternatives=0)
    asked = Asked(service, tokens=PROMPTS[0], alternatives=7)
    assert asked.tokens() == plain.tokens()
    told = [e for e in asked.events if isinstance(e, TokenDecoded)]
    assert all(len(e.alternatives) == 7 for e in told)
    assert all(e.alternatives[0].token == e.token for e in told), "greedy"
    assert all(math.isclose(e.alternatives[0].probability, e.probability) for e in told)
    assert not any(e.alternatives for e in plain.events if isinstance(e, TokenDecoded))

    stop = next(e.text for e in told[2:] if e.text and "\ufffd" not in e.text)
    sampling = SamplingOptions(temperature=0.0, max_new_tokens=12, stop=(stop,))
    stopped = Asked(service, tokens=PROMPTS[0], sampling=sampling)
    assert stopped.finished().stop_reason == "stop string"
    assert stopped.text() == asked.text().partition(stop)[0]

    drawn = SamplingOptions(temperature=1.0, seed=5, max_new_tokens=12)
    pair = [Asked(service, tokens=PROMPTS[0], sampling=drawn) for _ in range(2)]
    assert pair[0].tokens() == pair[1].tokens()


def test_an_answer_keeps_to_a_schema(client, served_model):
    client.load(served_model, exact())
    service = serve(client)
    schema = json.dumps({"enum": [7, 12]})
    sampling = SamplingOptions(temperature=0.0, json_schema=schema, max_new_tokens=40)
    several = [
        Asked(service, messages=(ChatMessage("user", word),), sampling=sampling)
        for word in ("one", "another one")
    ]
    assert all(asked.finished().stop_reason == "end" for asked in several)
    assert all(json.loads(asked.text().partition("<|")[0]) in (7, 12) for asked in several)


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        ({}, "empty"),
        ({"tokens": (1,), "text": "x"}, "tokens and text"),
        ({"tokens": (1, 999_999)}, "outside the vocabulary"),
        ({"tokens": (7,) * 600}, "600 tokens, but the context holds 512"),
        ({"text": "x" * 100_000}, "the prompt has ~[\\d,]+ tokens, but the context holds 512"),
        ({"tokens": (1,), "alternatives": 21}, "0 to 20, found 21"),
        ({"tokens": (1,), "sampling": SamplingOptions(top_p=3.0)}, "top-p"),
        ({"tokens": (1,), "sampling": SamplingOptions(grammar="root ::= (")}, "grammar"),
        ({"tokens": (1,), "sampling": SamplingOptions(logit_bias=((999_999, 1.0),))}, "bias"),
    ],
)
def test_what_cannot_be_is_refused_at_once(client, served_model, request_, words):
    client.load(served_model, exact())
    service = serve(client)
    with pytest.raises(RequestError, match=words):
        Asked(service, **request_)
    assert service.status().requests == ()


def test_a_full_context_ends_an_answer(client, served_model):
    client.load(served_model, exact())
    service = serve(client, context=130, parallel=1)
    assert service.status().context == 130
    asked = Asked(service, tokens=tuple(range(5, 130)), sampling=SamplingOptions(temperature=0.0))
    assert asked.finished().stop_reason == "context"
    assert "130 tokens is full" in asked.finished().message
    assert asked.finished().stats.context_used == 130
    assert asked.finished().stats.new_tokens == 6


@pytest.mark.parametrize("backend", BACKENDS)
def test_one_short_answer_at_a_time(client, device, served_model, backend):
    """A cache of one page, in which a page and a token of a step have no room."""
    client.engine.device_lost(device)
    client.load(served_model, exact(backend))
    tokens = tuple(range(5, 95))
    usual = Asked(serve(client, parallel=2), tokens=tokens).tokens()
    service = serve(client, context=128, parallel=1)
    assert service.status().pages == 1
    asked = Asked(service, tokens=tokens)
    assert asked.tokens() == usual and asked.finished().stop_reason == "length"


def test_starting_where_it_cannot_be(client, served_model):
    assert "no model is loaded" in client.end_of(client.send(StartServing()))
    assert not client.of(ServingChanged)
    assert client.engine.service() is None
    client.load(served_model, exact())
    for options, words in (
        ({"context": 1000}, "at most 512"),
        ({"parallel": 0}, "1 to 64"),
        ({"cache_budget": 1000}, "serve with a smaller context"),
    ):
        client.send(StartServing(**options))
        changed = client.until(ServingChanged)
        assert (changed.is_on, words in changed.problem) == (False, True), changed.problem
        assert client.engine.service() is None
    assert client.ask()[0].stop_reason == "length"


def test_an_encoder_decoder_is_not_served(client, served_model, tmp_path):
    """Nor once it takes the place of a model that was."""
    client.load(write_case(t5.FAMILY, "plain", tmp_path), exact())
    client.send(StartServing())
    assert "`llm-lite translate` writes targets" in client.until(ServingChanged).problem
    client.load(served_model, exact())
    serve(client, parallel=1)
    client.load(tmp_path, exact())
    changed = client.until(ServingChanged)
    assert not changed.is_on and "is an encoder-decoder" in changed.problem
    assert client.engine.service() is None


def test_busy_says_when_to_ask_again(client, served_model, hook):
    client.load(served_model, exact())
    service = serve(client, parallel=1, most_waiting=2)
    reached = hook.block_step(len(hook.steps) + 1)
    running = Asked(service, tokens=PROMPTS[0])
    assert reached.wait(PATIENCE)
    waiting = [Asked(service, tokens=PROMPTS[0]) for _ in range(2)]
    with pytest.raises(BusyError) as refused:
        Asked(service, tokens=PROMPTS[0])
    assert 1 <= refused.value.seconds <= 60
    told = service.status()
    assert [one.waiting for one in told.requests] == [False, True, True]
    assert told.refused == 1
    hook.heard = True
    assert all(asked.tokens() == running.tokens() for asked in waiting)
