"""Behind a comparison the chat's cache is read again, whatever became of the comparison; only what
needs the cache itself does not wait for that."""

import threading
from pathlib import Path

import numpy as np
import pytest

from llm_lite.core.loading import backends
from llm_lite.core.messages import (
    NO_CHANGES,
    Cancel,
    ChatMessage,
    CompareAnswer,
    CompareRuns,
    CountTokens,
    Generate,
    MakeTitle,
    OpenCache,
    Read,
    ReadAttentionRows,
    Reconfigure,
    SaveCache,
    Shutdown,
)
from tests.changes import scales
from tests.core.engine_client import GREEDY, HELLO, PATIENCE
from tests.runners import exact

CHUNK = 16  # tokens of a step, so that the conversation takes several
LONG = (
    ChatMessage(
        "user",
        "What the cache holds takes several steps to be read again, and all of it comes back",
    ),
)
STARTS = list(range(0, 96, CHUNK))


class Chat:
    """A conversation in the cache, a comparison of another one, and the steps that read the first
    one again. `at(start)` is called before the step that begins there."""

    def __init__(self, client, hook, path):
        self.client = client
        self.info = client.load(path).model
        self.answer = client.ask(LONG)[1]
        self.tokens = self.session.tokens()
        assert 5 * CHUNK < len(self.tokens) <= 6 * CHUNK
        self.read, self.at = [], lambda start: None
        self.seen, self.at_comparing = 0, lambda step: None
        hook.at_step = self._at_step

    @property
    def session(self):
        return self.client.engine._host.runner.session

    def _at_step(self, step, should_stop):
        start = step.first_position
        if start >= CHUNK and tuple(step.tokens) == self.tokens[start : start + step.count]:
            self.read.append(start)
            self.at(start)
        elif not self.read:
            self.seen += 1
            self.at_comparing(self.seen)

    def maps(self):
        look = ReadAttentionRows(len(self.tokens) - 1, "from", "layer-mean", layer=0)
        found = self.client.result(look)
        assert found.note == "", "some of it has no queries"
        return found.weights


def answers(info):
    gains = tuple((0.5,) * info.heads for _ in range(info.layers))
    return CompareAnswer(Generate(HELLO, GREEDY), tuple(range(40, 50)), (NO_CHANGES, scales(gains)))


def runs(info):
    return CompareRuns(HELLO, (exact(), exact(mode="fp16")), GREEDY)


@pytest.fixture(params=[answers, runs])
def comparison(request):
    return request.param


@pytest.fixture
def chat(client, hook, tiny_llama, monkeypatch):
    monkeypatch.setitem(backends._BUCKETS, "numpy", (1, CHUNK))
    return Chat(client, hook, tiny_llama)


def test_one_that_is_cancelled_leaves_the_cache_and_its_maps(chat, comparison):
    before, task = chat.maps(), comparison(chat.info)

    def cancel(seen):
        if seen == 2:
            chat.client.send(Cancel(task))

    chat.at_comparing = cancel
    handle = chat.client.send(task)
    chat.client.end_of(handle)
    assert handle.is_cancelled and chat.read == STARTS[1:]
    assert chat.session.tokens() == chat.tokens
    np.testing.assert_allclose(chat.maps(), before, atol=1e-5)
    assert chat.client.ask(LONG)[1] == chat.answer


@pytest.mark.parametrize(
    "waits",
    [
        MakeTitle(1, LONG),
        CountTokens(("Hello there",)),
        ReadAttentionRows(70, "from", "layer-mean", layer=0),
        SaveCache("cache.kv"),
    ],
    ids=lambda one: type(one).__name__,
)
def test_what_is_of_the_cache_waits_for_it(chat, comparison, waits, tmp_path):
    if isinstance(waits, SaveCache):
        waits = SaveCache(str(tmp_path / waits.path))
    handles, task = [], comparison(chat.info)
    chat.at = lambda start: None if handles else handles.append(chat.client.send(waits))
    assert chat.client.end_of(chat.client.send(task)) == ""
    handles[0].result(PATIENCE)
    assert chat.read == STARTS[1:] and chat.session.tokens() == chat.tokens
    assert not isinstance(waits, SaveCache) or Path(waits.path).is_file()


@pytest.mark.parametrize(
    "waits",
    [
        Generate(LONG, GREEDY),
        Read(LONG),
        OpenCache("none.kv"),
        Reconfigure(exact(context=120)),
    ],
    ids=lambda one: type(one).__name__,
)
def test_what_needs_the_cache_itself_does_not_wait(chat, comparison, waits):
    handles, delaying, sent = [], [], threading.Event()

    def send(start):
        assert sent.wait(PATIENCE)
        if not compared.is_over:
            delaying.append(start)
        if not handles:
            handles.append(chat.client.send(waits))

    chat.at = send
    compared = chat.client.send(comparison(chat.info))
    sent.set()
    assert chat.client.end_of(compared) == ""
    handles[0].result(PATIENCE)
    assert delaying == STARTS[1:2]
    assert chat.client.ask(LONG)[1] == chat.answer


def test_one_that_was_cancelled_while_it_waited_stops_nothing(chat, comparison):
    handles, task = [], comparison(chat.info)

    def send(start):
        if not handles:
            handles.append(chat.client.send(Generate(HELLO, GREEDY)))
            handles[0].cancel()

    chat.at = send
    chat.client.end_of(chat.client.send(task))
    chat.client.end_of(handles[0])
    assert chat.read == STARTS[1:] and chat.session.tokens() == chat.tokens


def test_an_engine_that_closes_does_not_wait(chat, comparison):
    chat.at = lambda start: chat.client.engine.submit(Shutdown())
    chat.client.end_of(chat.client.send(comparison(chat.info)))
    assert chat.read == STARTS[1:2]


def test_a_cache_that_was_not_used_is_not_read_again(chat):
    both = (exact(mode="fp16"), exact(mode="int8"))
    task = CompareRuns(HELLO, both, GREEDY)
    version = chat.session.committed.version
    assert chat.client.end_of(chat.client.send(task)) == ""
    assert not chat.read and chat.session.committed.version == version
