"""How a command ends when someone interrupts it, or nobody takes what it says."""

import json
import signal
import subprocess
import time
from pathlib import Path

import pytest

from llm_lite.cli.commands import synth
from llm_lite.cli.main import main
from llm_lite.core.engine.engine import Engine
from llm_lite.core.messages import TokenDecoded
from tests.children import PATIENCE
from tests.cli.terminal_runs import GREEDY, NUMPY, spawn
from tests.make_gguf import write_endless_llama
from tests.runners import BACKENDS


@pytest.fixture(scope="module")
def endless_llama(tmp_path_factory):
    return write_endless_llama(tmp_path_factory.mktemp("models") / "endless.gguf")


ENDLESS = ("-p", "Hello there", "--max-new-tokens", "90000", "--ctx", "95000")


def read_some(stream, count=12):
    seen = b""
    while len(seen) < count:
        byte = stream.read(1)
        assert byte, f"it ended after {seen!r}"
        seen += byte
    return seen


def test_interrupting_an_answer_keeps_what_was_said(endless_llama, capsys, monkeypatch):
    wait, seen = Engine.wait, []

    def interrupt_at_the_fifth_token(engine, timeout):
        reports = wait(engine, timeout)
        before = len(seen)
        seen.extend(one.event for one in reports if isinstance(one.event, TokenDecoded))
        if before < 5 <= len(seen):
            signal.raise_signal(signal.SIGINT)
        return reports

    monkeypatch.setattr(Engine, "wait", interrupt_at_the_fifth_token)
    assert main(["chat", str(endless_llama), *ENDLESS, *NUMPY, "--json"]) == 130
    answer = json.loads(capsys.readouterr().out)
    assert answer["stop_reason"] == "stopped"
    assert len(answer["tokens"]) == answer["stats"]["new_tokens"] == len(seen) >= 5


@pytest.mark.parametrize("backend", BACKENDS)
def test_interrupting_a_stream(endless_llama, backend):
    process = spawn("chat", endless_llama, *ENDLESS, "--backend", backend)
    first = read_some(process.stdout)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    assert b"Traceback" not in err
    assert b"[stopped]" in err
    assert (first + out).endswith(b"\n")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_ends_a_stream(endless_llama, number, code):
    process = spawn("chat", endless_llama, *ENDLESS, *NUMPY)
    read_some(process.stdout)
    process.send_signal(number)
    _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == code
    assert b"Traceback" not in err


@pytest.fixture
def handlers():
    """What handles signals in this process, put back after a command that one has ended."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("handlers")
@pytest.mark.parametrize("form", ["gguf", "variant"])
def test_a_signal_leaves_nothing_of_a_checkpoint(tmp_path, form, capsys, monkeypatch):
    made = []

    def end_it(_done):
        made.extend(tmp_path.iterdir())
        signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr(synth, "Percent", lambda: end_it)
    place = tmp_path / "x"
    assert main(["synth", "smollm2-135m", str(place), "--format", form]) == 143
    assert capsys.readouterr() == ("", "\nllm-lite: terminated\n")
    assert len(made) == 1
    assert made[0].name.endswith(".part")
    assert list(tmp_path.iterdir()) == []


def test_interrupting_before_there_is_an_answer():
    process = spawn("chat", *NUMPY, "-p", "x", stdin=subprocess.PIPE)
    time.sleep(0.3)  # wherever it is now: starting, reading the file, about to answer
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode in (130, -signal.SIGINT)
    assert b"internal error" not in err


def test_a_reader_that_leaves(endless_llama):
    process = spawn("chat", endless_llama, *ENDLESS, *NUMPY)
    read_some(process.stdout)
    process.stdout.close()
    assert process.wait(PATIENCE) == 1
    assert process.stderr.read() == b""
    process.stderr.close()


def test_output_that_nobody_takes():
    process = spawn("models", "list")
    process.stdout.close()
    assert process.wait(PATIENCE) == 1
    assert process.stderr.read() == b""
    process.stderr.close()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
@pytest.mark.parametrize("words", [("models", "list"), ("chat", "-p", "x", *NUMPY, *GREEDY)])
def test_a_full_disk_behind_the_output(tiny_llama, words):
    words = (words[0], tiny_llama, *words[1:]) if words[0] == "chat" else words
    with Path("/dev/full").open("wb") as full:
        process = spawn(*words, stdout=full)
        _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 1
    assert b"No space left" in err
    assert b"Traceback" not in err
