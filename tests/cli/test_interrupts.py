"""Ctrl-C again and again, at any moment and at any distance: an exit code, never an abort."""

import random
import signal
import subprocess
import sys
import time

import pytest

from llm_lite.cli.terminal import interrupts
from tests.children import PATIENCE
from tests.cli.terminal_runs import GREEDY, ROOT, spawn
from tests.make_gguf import write_endless_llama

ROUNDS = 6
GAPS = (0.0, 0.005, 0.05, 0.1)  # seconds, at most


@pytest.fixture(scope="module")
def endless(tmp_path_factory):
    """Its steps in C++ take a while."""
    path = tmp_path_factory.mktemp("models") / "endless.gguf"
    return write_endless_llama(path, layers=8, width=256, ffn=512)


def interrupt(process, chance):
    for _ in range(chance.randint(3, 6)):
        process.send_signal(signal.SIGINT)
        time.sleep(chance.choice(GAPS) * chance.random())


def start(model, *answer):
    told_when_aborted = {"PYTHONFAULTHANDLER": "1"}
    return spawn("chat", model, *answer, *GREEDY, "--backend", "cpu", env=told_when_aborted)


def check(process, expected):
    try:
        _, err = process.communicate(timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGABRT)
        _, err = process.communicate()
        pytest.fail(f"it goes on: {err.decode(errors='replace')}")
    assert process.returncode in expected, err
    assert b"terminate called" not in err
    if process.returncode == 130:
        assert b"Traceback" not in err
        assert b"please report" not in err


def test_while_it_answers(endless):
    chance = random.Random(1)
    answer = ("-p", "Hello there", "--max-new-tokens", "90000", "--ctx", "95000")
    for _ in range(ROUNDS):
        process = start(endless, *answer)
        assert process.stdout.read(1)
        time.sleep(chance.random() / 50)
        interrupt(process, chance)
        check(process, (130,))


def test_wherever_it_is(endless):
    """Starting, loading, or inside C++ for a prompt that takes longer than anything here waits."""
    chance = random.Random(2)
    answer = ("-p", "Tell me a long story. " * 1500, "--ctx", "95000", "--max-new-tokens", "60000")
    for _ in range(ROUNDS):
        process = start(endless, *answer)
        time.sleep(0.3 + 2 * chance.random())
        interrupt(process, chance)
        # Before the program has said what it does about them, the system ends it.
        check(process, (130, -signal.SIGINT))


STUCK = """
import sys, threading
import llm_lite.cli.main
from llm_lite.cli import entry
from llm_lite_kernels import _cpp

def work():
    while True:
        _cpp.read_bandwidth(1 << 22, 1)

def main(**_):
    threading.Thread(target=work, daemon=True).start()
    sys.stdout.write("said")
    return 3

llm_lite.cli.main.main = main
sys.exit(entry.main())
"""


def test_an_engine_that_does_not_end_is_left():
    """A thread goes in and out of C++, which aborts where the interpreter ends meanwhile."""
    process = subprocess.run(
        [sys.executable, "-c", STUCK], cwd=ROOT, capture_output=True, timeout=PATIENCE, check=False
    )
    assert (process.returncode, process.stdout, process.stderr) == (3, b"said", b"")


NESTED = """
import signal, sys, threading, time
from llm_lite.cli.terminal import interrupts

class Slow:
    "A second Ctrl-C comes within the handler of the first, wherever in it that is."
    def __init__(self, presses):
        self.presses = presses
    def __call__(self, frame, event, argument):
        if self.presses and event == "c_return":
            self.presses -= 1
            signal.raise_signal(signal.SIGINT)
        return self

interrupts.install()
with interrupts.noted() as noted:
    sys.setprofile(Slow(5))
    try:
        signal.raise_signal(signal.SIGINT)
    except KeyboardInterrupt:
        pass
    sys.setprofile(None)
    print(noted.is_set())
"""


def test_an_interrupt_within_the_handler_of_another_one_does_not_wait():
    process = subprocess.run(
        [sys.executable, "-c", NESTED], cwd=ROOT, capture_output=True, timeout=PATIENCE, check=False
    )
    assert (process.returncode, process.stdout) == (0, b"True\n"), process.stderr


LOST = """
import signal, sys, time
import llm_lite.cli.main
from llm_lite.cli import entry

class Finalized:
    def __del__(self):
        signal.raise_signal(signal.SIGINT)
        time.sleep(0.1)  # the interrupt is raised here, and Python drops it

def main(**_):
    Finalized()
    time.sleep(60)

llm_lite.cli.main.main = main
sys.exit(entry.main())
"""


def test_an_interrupt_within_a_finalizer_is_not_lost():
    process = subprocess.run(
        [sys.executable, "-c", LOST], cwd=ROOT, capture_output=True, timeout=PATIENCE, check=False
    )
    assert (process.returncode, process.stdout, process.stderr) == (130, b"", b"")


def test_the_first_interrupt_ends_and_the_next_ones_wait_for_that(monkeypatch):
    left = []
    monkeypatch.setattr(interrupts.os, "_exit", left.append)
    monkeypatch.setattr(interrupts, "_ending_since", None)
    clock = [100.0]
    monkeypatch.setattr(interrupts.time, "monotonic", lambda: clock[0])
    before = signal.getsignal(signal.SIGINT)
    interrupts.install()
    try:
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        assert interrupts.pressed()
        signal.raise_signal(signal.SIGINT)  # while the program ends
        assert left == []
        clock[0] += interrupts.PATIENCE + 0.1
        signal.raise_signal(signal.SIGINT)
        assert left == [interrupts.CODE]
        interrupts.answered()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)
