"""Answers that keep to a grammar, in steps that others share."""

import threading

import pytest

from llm_lite.core.generation.grammars.matcher import ForcedTexts
from llm_lite.core.messages import (
    Cancel,
    ExecutorChanged,
    Generate,
    GenerationFinished,
    SamplingOptions,
)
from tests.core.engine_client import HELLO, PATIENCE
from tests.core.serving.clients import GREEDY, Asked, serve
from tests.runners import exact

PROMPT = tuple(range(5, 20))
# In the second place only one text can come: the tokens of that are asked for.
FORCED = SamplingOptions(temperature=0.0, max_new_tokens=12, grammar='root ::= ("a" | "b") "cde"')


@pytest.fixture
def held(monkeypatch):
    """`held.asked` is set once the tokens of such a text are asked for, which are told when
    `held` itself is set."""
    told, tokens_of = threading.Event(), ForcedTexts.tokens
    told.asked = threading.Event()

    def wait(*arguments):
        told.asked.set()
        told.wait(PATIENCE)
        return tokens_of(*arguments)

    monkeypatch.setattr(ForcedTexts, "tokens", wait)
    yield told
    told.set()


def test_nobody_waits_for_the_grammar_of_another(client, served_model, held):
    client.load(served_model, exact())
    service = serve(client, parallel=2)
    late = Asked(service, tokens=PROMPT, sampling=FORCED)
    assert held.asked.wait(PATIENCE)
    for _ in range(2):
        free = Asked(service, tokens=(9, *PROMPT))
        assert len(free.tokens()) == GREEDY.max_new_tokens
    assert client.ask()[0].stop_reason == "length", "nor does the chat"
    assert not late.done.is_set()
    held.set()
    assert late.finished().stop_reason == "end"
    assert late.text()[1:].startswith("cde")


def test_an_answer_whose_mask_is_late_needs_no_place(client, served_model, held):
    client.load(served_model, exact())
    service = serve(client, parallel=1)
    late = Asked(service, tokens=PROMPT, sampling=FORCED, client="here late")
    assert held.asked.wait(PATIENCE)
    for number in range(3):
        free = Asked(service, tokens=(9 + number, *PROMPT), client=f"here {number}")
        assert len(free.tokens()) == GREEDY.max_new_tokens
    assert not late.done.is_set()
    held.set()
    assert late.finished().stop_reason == "end"
    assert late.text()[1:].startswith("cde")


def test_an_answer_whose_mask_is_late_can_be_cancelled(client, served_model, held):
    client.load(served_model, exact())
    service = serve(client)
    late = Asked(service, tokens=PROMPT, sampling=FORCED)
    assert held.asked.wait(PATIENCE)
    late.handle.cancel()
    assert late.finished().stop_reason == "stopped"


def test_an_answer_whose_mask_is_late_goes_on_in_another_mode(client, served_model, held):
    """Its logits are computed again."""
    client.load(served_model, exact())
    service = serve(client)
    late = Asked(service, tokens=PROMPT, sampling=FORCED)
    assert held.asked.wait(PATIENCE)
    service.modes.request("int8", "a32")
    client.until(ExecutorChanged)
    held.set()
    assert late.finished().stop_reason == "end"
    assert late.text()[1:].startswith("cde")


def test_a_grammar_that_cannot_go_on_is_the_request_s_fault(client, served_model):
    client.load(served_model, exact())
    service = serve(client)
    names = [f"r{i}" for i in range(1500)]
    text = "root ::= " + " | ".join(names) + "\n"
    text += "\n".join(f'{name} ::= "a" x{name}\nx{name} ::= "a{name}"' for name in names)
    asked = Asked(service, tokens=PROMPT, sampling=SamplingOptions(grammar=text))
    end = asked.end()
    assert end.at_fault
    assert end.problem.startswith("the grammar cannot go on: Current row has")
    assert not Asked(service, tokens=PROMPT).end().at_fault


def test_clients_are_answered_while_the_chat_waits_for_its_mask(client, served_model, held):
    client.load(served_model, exact())
    service = serve(client)
    answer = client.send(Generate(HELLO, FORCED))
    assert held.asked.wait(PATIENCE)
    assert len(Asked(service, tokens=PROMPT).tokens()) == GREEDY.max_new_tokens
    client.send(Cancel(answer.command))
    finished = client.until(GenerationFinished)
    assert finished.stop_reason == "stopped"
