"""A title is asked of the model behind the conversation, and leaves no trace there."""

import numpy as np
import pytest

from llm_lite.core.engine.engine import Engine
from llm_lite.core.engine.hosting.model_host import NO_MODEL
from llm_lite.core.generation import titles
from llm_lite.core.generation.session import Session
from llm_lite.core.handles import SUPERSEDED
from llm_lite.core.messages import ChatMessage, Ended, Event, MakeTitle, TitleMade
from tests.core.engine_client import PATIENCE, Client
from tests.make_gguf import write_tiny_llama
from tests.runners import BACKENDS, exact

ROW = 2 * 64 * 4  # bytes of a position's queries, float32
LONG = (ChatMessage("user", "What do you know of the sea and of ships? " * 20),)
HELLO = (ChatMessage("user", "Hello there"),)


@pytest.fixture
def client():
    made = Client()
    yield made
    assert made.engine.close(PATIENCE)


def state_of(client):
    """All that a step writes, and what is told of it."""
    session = client.engine._host.runner.session
    source = client.engine._host.runner.attention
    rows = {name: rows.data.copy() for name, rows in session.copy_prefix().rows.items()}
    first, length = session.committed.rows.start, session.committed.length
    for tensor in session.executor.program.plans[0].tensors:
        if "quer" in tensor.name and tensor.kind.value == "state":
            ring = session.executor.read_state(tensor.name, 0, tensor.shape[0])
            for position in range(first, length):
                rows[tensor.name, position] = ring[position % source.ring_rows].copy()
    return rows, (session.tokens(), session.committed.rows, session.committed.oldest)


@pytest.fixture(scope="module")
def roomy(tmp_path_factory):
    """Its context is longer than some rings of queries."""
    return write_tiny_llama(tmp_path_factory.mktemp("roomy") / "x.gguf", seed=2, context=1024)


def talked(client, model, said=HELLO, **options):
    client.load(model, exact(**options))
    _, tokens = client.ask(said)
    return (*said, ChatMessage("assistant", "x", tuple(tokens)))


def titled(client, messages):
    return client.result(MakeTitle(7, messages))


def untitled(client, messages):
    """It ends without a title, which nobody waits for any more."""
    handle = client.send(MakeTitle(7, messages))
    assert client.end_of(handle) == SUPERSEDED
    return client.of(Event, handle) == [Ended(SUPERSEDED, unwanted=True)]


def same(before, after):
    assert before[1] == after[1]
    assert before[0].keys() == after[0].keys()
    for name, rows in before[0].items():
        assert np.array_equal(rows, after[0][name]), name


@pytest.fixture
def short(monkeypatch):
    """A tiny model's context is 128 tokens."""
    monkeypatch.setattr(titles, "REQUEST", "A title?")


@pytest.mark.parametrize("backend", [name for name in BACKENDS if name != "vulkan"])
@pytest.mark.parametrize("ring", [1 << 20, 512 * ROW])
def test_the_cache_and_its_queries_are_as_they_were(client, roomy, monkeypatch, backend, ring):
    messages = talked(client, roomy, LONG, backend=backend, query_budget=ring)
    before, steps, run = state_of(client), [], Session.run_scratch

    def counted(session, tokens, start, should_stop):
        steps.append((start, len(tokens), session.committed.rows.start))
        return run(session, tokens, start, should_stop)

    monkeypatch.setattr(Session, "run_scratch", counted)
    rows = before[1][1]
    assert (rows.start > 0) == (ring < 1 << 20)
    assert isinstance(titled(client, messages), TitleMade)
    assert steps and steps[0][0] > 0 and (ring == 1 << 20 or steps[0][2] > rows.start)
    same(before, state_of(client))
    expected = Client()
    talked(expected, roomy, LONG, backend=backend)
    more = (*messages, ChatMessage("user", "And?"))
    assert client.ask(more)[1] == expected.ask(more)[1]
    assert expected.engine.close(PATIENCE)


def test_another_command_ends_it_and_the_cache_is_as_it_was(client, tiny_llama, short, monkeypatch):
    messages = talked(client, tiny_llama)
    before = state_of(client)
    waiting = []
    real = titles._generated

    def slow(session, tokenizer, prompt, start, should_stop):
        client.engine._commands.put(None)  # something else is wanted
        waiting.append(should_stop())
        return real(session, tokenizer, prompt, start, should_stop)

    monkeypatch.setattr(titles, "_generated", slow)
    assert untitled(client, messages)
    assert waiting == [True]
    same(before, state_of(client))


def test_where_the_cache_has_no_room_nothing_is_asked(client, tiny_llama):
    messages = talked(client, tiny_llama)
    assert titled(client, messages).text == "", "the request alone is longer than what is left"
    client.load(tiny_llama)
    assert titled(client, HELLO * 40).text == ""


def test_without_a_model_it_is_said_that_there_is_none(client):
    assert isinstance(client.engine, Engine)
    assert client.end_of(client.send(MakeTitle(7, HELLO))) == NO_MODEL
