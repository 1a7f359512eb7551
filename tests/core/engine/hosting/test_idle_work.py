"""What an engine does while nobody asks for anything."""

import threading

import pytest

from llm_lite.core.engine.hosting.idle_work import measure
from llm_lite.core.generation.speculation.costs import PassTiming
from llm_lite.core.messages import Generate, GenerationFinished, Logged
from tests.core.engine_client import GREEDY, HELLO, PATIENCE
from tests.fixtures.seq2seq import t5
from tests.runners import exact, running
from tests.seq2seq_checks import write_case

AUTO = exact("cpu", speculate="auto")


@pytest.fixture(autouse=True)
def without_idle_passes():
    """In the place of the one for all tests: here there are some."""


@pytest.fixture
def first_answer(client, tiny_llama):
    """Its tokens, on an engine that measures nothing."""
    client.load(tiny_llama, exact("cpu", speculate="off"))
    return client.ask()[1]


def test_costs_are_known_before_the_first_answer(client, tiny_llama, first_answer):
    client.load(tiny_llama, AUTO)
    host, deadline = client.engine._host, threading.Event()
    for _ in range(int(100 * PATIENCE)):
        if host.runner.session.speculation.timing is None:
            break
        deadline.wait(0.01)
    costs = host.runner.session.speculation.policy.costs
    assert list(costs.measured()) == [1, 2, 4, 8, 16, 32]
    assert host.runner.session.context_used == 0
    assert client.ask()[1] == first_answer


def test_a_command_does_not_wait(client, tiny_llama, first_answer, monkeypatch):
    """A pass that would take for ever ends when an answer is asked for."""
    from llm_lite.core.exec.cpu.executor import CpuExecutor

    run, began, heard = CpuExecutor.run, threading.Event(), threading.Event()

    def endless(executor, step, should_stop=None):
        if not began.is_set():
            began.set()
            while not should_stop():
                heard.wait(0.001)
            heard.set()
        return run(executor, step, should_stop)

    monkeypatch.setattr(CpuExecutor, "run", endless)
    client.load(tiny_llama, AUTO)
    assert began.wait(PATIENCE)
    client.send(Generate(HELLO, GREEDY))
    assert client.until(GenerationFinished).stats.new_tokens == len(first_answer)
    assert heard.is_set()


def test_a_defect_ends_the_measuring_alone(client, tiny_llama, first_answer, monkeypatch):
    def fail(timing, session, is_wanted):
        raise RuntimeError("planted")

    monkeypatch.setattr(PassTiming, "step", fail)
    client.load(tiny_llama, AUTO)
    assert client.ask()[1] == first_answer
    while not (planted := [e for e in client.of(Logged) if "planted" in e.text]):
        client.take(0.05)  # the engine was idle before or is behind it
    assert [event.level for event in planted] == ["error"]


def test_encoder_decoders_are_left_alone(tmp_path, monkeypatch):
    with running(write_case(t5.FAMILY, "gated", tmp_path), AUTO) as runner:
        monkeypatch.setattr(runner.executor, "run", None)
        assert not measure(runner, lambda: False)
