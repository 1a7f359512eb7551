"""Another mode or executor in the middle of an answer."""

import threading

import pytest

from llm_lite.core.generation.speculation import draft_model
from llm_lite.core.loading import loader
from llm_lite.core.memory import trim_heap
from llm_lite.core.messages import (
    Cancel,
    ExecutorChanged,
    Generate,
    GenerationFinished,
    LoadModel,
    LoadStarted,
    ModelLoaded,
    Reconfigure,
    TokenDecoded,
)
from llm_lite.core.records import replace
from tests.children import answer_of
from tests.core.engine_client import GREEDY, HELLO, PATIENCE
from tests.resident import resident_bytes
from tests.runners import BACKENDS, exact
from tests.tiers import thorough

LONG = 60  # tokens


class Pace:
    """Lets an answer go a token at a time: steps wait for `let`."""

    def __init__(self, monkeypatch):
        self.free = threading.Event()
        self.gate = threading.Semaphore(0)
        self.sessions = []
        run = loader.Session._run
        pace = self

        def paced(session, tokens, outputs, should_stop):
            if not pace.free.is_set():
                pace.gate.acquire(timeout=PATIENCE)
            if session not in pace.sessions:
                pace.sessions.append(session)
            return run(session, tokens, outputs, should_stop)

        monkeypatch.setattr(loader.Session, "_run", paced)

    def let(self, steps):
        for _ in range(steps):
            self.gate.release()


@pytest.fixture
def pace(monkeypatch):
    return Pace(monkeypatch)


def answer(client):
    client.send(Generate(HELLO, replace(GREEDY, max_new_tokens=LONG)))


def tokens_of(client):
    return [e.token for e in client.of(TokenDecoded)]


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_answer_goes_on_with_another_runner(client, tiny_llama, pace, device, backend):
    pace.free.set()
    client.engine.device_lost(device)
    client.load(tiny_llama)
    answer(client)
    client.until(GenerationFinished)
    alone, first = tokens_of(client), len(client.events)
    pace.free.clear()
    pace.sessions.clear()
    answer(client)
    pace.let(5)
    client.until(TokenDecoded)
    client.send(Reconfigure(exact(backend, mode="fp32", context=100)))
    pace.let(1)
    client.until(LoadStarted)
    for preparing in threading.enumerate():
        if preparing.name == "switching":
            preparing.join(PATIENCE)
    pace.free.set()
    pace.let(1)
    changed = client.until(ExecutorChanged)
    assert (changed.executor.backend, changed.executor.mode) == (backend, "fp32")
    finished = client.until(GenerationFinished)
    assert (finished.stop_reason, finished.stats.new_tokens) == ("length", LONG)
    assert tokens_of(client)[LONG:] == alone, "the weights are the same numbers, so is the answer"
    assert len(pace.sessions) == 2
    kinds = [type(e) for e in client.events[first:]]
    at = kinds.index(ExecutorChanged)
    assert TokenDecoded in kinds[:at] and TokenDecoded in kinds[at:]


def test_the_answer_goes_on_while_the_runner_is_prepared(client, tiny_llama, monkeypatch):
    client.load(tiny_llama)
    ready, start = threading.Event(), loader.start

    def slow(*arguments, **options):
        assert ready.wait(PATIENCE)
        return start(*arguments, **options)

    monkeypatch.setattr(loader, "start", slow)
    answer(client)
    client.until(TokenDecoded)
    client.send(Reconfigure(exact(mode="int8")))
    finished = client.until(GenerationFinished)
    assert finished.stats.new_tokens == LONG and not client.of(ExecutorChanged)
    ready.set()
    assert client.until(ExecutorChanged).executor.mode == "int8"
    answer(client)
    assert client.until(GenerationFinished).stop_reason == "length"


def test_a_change_that_fails_or_is_cancelled_leaves_the_answer_alone(client, tiny_llama, pace):
    client.load(tiny_llama)
    answer(client)
    client.send(Reconfigure(exact(context=10_000)))
    while not client.failed_loads():  # it is told between two steps, once the preparation has ended
        pace.let(1)
        client.take(0.01)
    failed = client.failed_load()
    assert "at most 128 tokens" in failed.problem and not failed.unwanted
    client.send(Reconfigure(exact(mode="fp32"))).cancel()
    pace.free.set()
    pace.let(1)
    failed = client.failed_load()
    assert failed.unwanted
    answered = client.of(GenerationFinished) or [client.until(GenerationFinished)]
    assert answered[0].stats.new_tokens == LONG
    assert not client.of(ExecutorChanged)


def prepared_slowly(monkeypatch):
    """Runners are made once the event is set; the modes that were begun."""
    ready, start, begun = threading.Event(), loader.start, []

    def slow(file, options, *arguments, **named):
        begun.append(options.mode)
        assert ready.wait(PATIENCE)
        return start(file, options, *arguments, **named)

    monkeypatch.setattr(loader, "start", slow)
    return ready, begun


@pytest.mark.parametrize("answers", [False, True])
def test_the_last_wish_counts(client, tiny_llama, monkeypatch, answers):
    """What is being prepared gives way, what waits is not begun; both end as cancelled."""
    client.load(tiny_llama)
    ready, begun = prepared_slowly(monkeypatch)
    if answers:
        answer(client)
        client.until(TokenDecoded)
    first = client.send(Reconfigure(exact(mode="int8")))
    client.until(LoadStarted)
    second = client.send(Reconfigure(exact(mode="fp16")))
    third = client.send(Reconfigure(exact(mode="fp32")))
    ready.set()
    changed = third.result(PATIENCE)
    assert (changed.executor.mode, changed.options.mode) == ("fp32", "fp32")
    for handle in (first, second):
        assert "a newer change" in client.end_of(handle)
    assert len(client.of(ExecutorChanged)) == 1
    assert [end.unwanted for end in client.failed_loads()] == [True, True]
    assert begun == ["int8", "fp32"]


def test_behind_a_load_it_changes_the_new_model(client, tiny_llama, pace):
    client.load(tiny_llama)
    answer(client)
    client.send(LoadModel(str(tiny_llama), exact()), Reconfigure(exact(mode="fp16")))
    pace.free.set()
    pace.let(1)
    client.until(ModelLoaded)
    assert client.until(ExecutorChanged).executor.mode == "fp16"
    assert client.of(GenerationFinished)[0].stats.new_tokens == LONG


@pytest.mark.parametrize("leak", [False, thorough(True)])
def test_twenty_switches_leave_no_memory_behind(leak):
    """Heaps of threads come and go, a tenth of it all; runners that stay are several times that."""
    first, *_, last = answer_of("tests.core.engine.switching_child", *["leak"] * leak)
    assert (max(last) > 1.5 * max(first)) == leak


@pytest.mark.parametrize("backends", [("cpu", "cpu"), thorough(("cpu", "vulkan"))])
def test_twenty_switches_within_an_answer(client, tmp_path, pace, device, backends):
    """int4, fp16, int8 and again: the answer goes on, and the memory is what it was."""
    from tests.make_gguf import write_tiny_llama

    path = write_tiny_llama(tmp_path / "wide.gguf", width=256, ffn=1024, context=2048)
    client.engine.device_lost(device)
    client.load(path, exact("cpu", speculate="off"))  # what repeats itself would soon be over
    sampling = replace(GREEDY, max_new_tokens=500)
    long = client.send(Generate(HELLO, sampling))
    sizes = []
    for number in range(20):
        mode = ("int4", "fp16", "int8")[number % 3]
        options = exact(backends[number % 2], mode=mode, speculate="off")
        client.send(Reconfigure(options))
        pace.let(1)
        client.until(LoadStarted)
        for preparing in threading.enumerate():
            if preparing.name == "switching":
                preparing.join(PATIENCE)
        pace.let(2)
        assert client.until(ExecutorChanged).executor.mode == mode
        client.until(TokenDecoded)
        pace.sessions.clear()
        trim_heap()
        sizes.append(resident_bytes())
    client.send(Cancel(long.command))
    pace.free.set()
    pace.let(1)
    finished = client.until(GenerationFinished)
    assert finished.stop_reason == "stopped" and finished.stats.new_tokens > 20
    assert max(sizes[12:]) <= 1.05 * max(sizes[6:12])  # each has been there once before


def test_drafts_are_switched_on_and_off(client, tiny_llama):
    """By the same command as everything else of the executor; the answer stays."""
    client.load(tiny_llama, exact("cpu", speculate="lookup"))
    told = []
    for number, choice in enumerate(("lookup", "off", "lookup")):
        if number > 0:
            client.send(Reconfigure(exact("cpu", speculate=choice)))
            client.until(ExecutorChanged)
        first = len(client.events)
        answer(client)
        stats = client.until(GenerationFinished).stats
        said = [e.token for e in client.events[first:] if isinstance(e, TokenDecoded)]
        told.append((said, stats.drafted > 0))
    assert [drafted for _, drafted in told] == [True, False, True]
    assert told[0][0] == told[1][0] == told[2][0]


def test_a_draft_model_comes_and_goes_in_the_middle_of_answers(client, tiny_llama, monkeypatch):
    """Answers are the same, and what was loaded for it is let go."""
    monkeypatch.setattr(draft_model, "LEAST_CHANCE", 0.0)
    client.load(tiny_llama, exact("cpu", speculate="off"))
    expected = client.ask()[1]
    drafting = exact("cpu", speculate="lookup", draft_model=str(tiny_llama))
    assert client.load(tiny_llama, drafting).executor.draft.path == str(tiny_llama)
    finished, tokens = client.ask()
    assert tokens == expected
    assert {one.source for one in finished.stats.drafted_by} >= {"model"}
    draft = client.engine._host.runner.draft
    client.send(Reconfigure(exact("cpu", speculate="lookup")))
    assert client.until(ExecutorChanged).executor.draft is None
    assert client.ask()[1] == expected
    assert draft.session.executor not in client.engine._host.runner.executors
    client.send(Reconfigure(exact("numpy", speculate="lookup", draft_model=str(tiny_llama))))
    assert client.until(ExecutorChanged).executor.draft is not None
    assert client.ask()[1] == expected


def test_a_draft_model_of_another_vocabulary_changes_nothing(client, tiny_llama, smollm2):
    client.load(tiny_llama, exact("cpu"))
    before = client.engine._host.runner
    client.send(Reconfigure(exact("cpu", speculate="lookup", draft_model=str(smollm2))))
    problem = client.failed_load().problem
    assert str(smollm2) in problem and str(tiny_llama) in problem
    assert client.engine._host.runner is before
