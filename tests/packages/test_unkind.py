"""Packages with executors that end the program, return what they should not, or hang."""

import re
import signal
import subprocess
import sys
import textwrap
from importlib.metadata import EntryPoint

import numpy as np
import pytest
from llm_lite_template import Runner, Template

from llm_lite.cli.main import main
from llm_lite.core.errors import AcceleratorError, RequestError
from llm_lite.core.exec.accelerator import GROUP
from llm_lite.core.exec.guarded import guarded
from llm_lite.core.loading import accelerators
from llm_lite.core.loading.accelerators import accelerator
from llm_lite.core.messages import ExecutorChanged
from tests.children import PATIENCE
from tests.core.engine_client import GREEDY, Client
from tests.paths import ROOT
from tests.runners import exact

IMPORTS = {
    "leaving": ("import sys; sys.exit(3)", "SystemExit: 3"),
    "of_its_own": (
        "class Stop(BaseException): pass\nraise Stop('not on this machine')",
        "Stop: not on this machine",
    ),
    "generator": ("raise GeneratorExit", "GeneratorExit:"),
    "without_a_text": (
        "class Odd(Exception):\n    def __str__(self): raise ValueError\nraise Odd",
        "Odd: an error without a text",
    ),
    "parts_of_one": ("class A: name = 3\nX = A()", "expected an accelerator, found A without"),
}


@pytest.mark.parametrize("name", IMPORTS)
def test_imports_that_would_end_the_program(name, tmp_path, monkeypatch, capsys):
    text, said = IMPORTS[name]
    (tmp_path / f"unkind_{name}.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    entry = EntryPoint("broken", f"unkind_{name}:X", GROUP)
    monkeypatch.setattr(accelerators, "_registered", lambda: ({"broken": entry}, ()))
    with pytest.raises(RequestError, match=re.escape(said)):
        accelerator("broken")
    assert main(["doctor"]) == 0
    assert said in capsys.readouterr().out


class Stop(BaseException):
    """As of a library that wants to end the program."""


def of(runner=None, **wrong):
    class Wrong(Template):
        def runner(self, program, weights):
            return super().runner(program, weights) if runner is None else runner(weights)

    for name, value in wrong.items():
        setattr(Wrong, name, value)
    return Wrong()


ODD = (None, "a text", 1j, float("nan"), -1)


@pytest.mark.parametrize("value", [*ODD, True], ids=str)
def test_weights_of_no_number_of_bytes(value):
    one = guarded(of(weight_bytes=lambda self, weight: value))
    tensor = type("T", (), {"name": "w"})
    with pytest.raises(AcceleratorError, match="weight_bytes of w: expected a number of bytes"):
        one.weight_bytes(tensor)


@pytest.mark.parametrize("value", [*ODD, 1], ids=str)
def test_ops_that_are_neither_taken_nor_not(value):
    one = guarded(of(takes=lambda self, op, plan: value))
    op = type("Op", (), {"label": "out", "name": "matmul"})
    with pytest.raises(AcceleratorError, match=r"takes of out \(matmul\): expected True or False"):
        one.takes(op, None)


@pytest.mark.parametrize("value", [None, "a text", 1j], ids=str)
def test_what_is_no_runner_and_no_device(value):
    one = guarded(of(runner=lambda weights: value))
    with pytest.raises(AcceleratorError, match="runner: expected one with weight_bytes, run_ops"):
        one.runner(None, {})
    if not isinstance(value, str):
        with pytest.raises(AcceleratorError, match="device: expected a text, found"):
            _ = guarded(of(device=value)).device


@pytest.mark.parametrize("error", [SystemExit(3), Stop("no driver"), GeneratorExit()], ids=repr)
def test_exceptions_that_are_no_exceptions(error):
    def takes(self, op, plan):
        raise error

    with pytest.raises(AcceleratorError, match=f"template failed: {type(error).__name__}"):
        guarded(of(takes=takes)).takes(None, None)


def test_ctrl_c_of_a_person_stays_one():
    def takes(self, op, plan):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        guarded(of(takes=takes)).takes(None, None)


def returning(make):
    class Wrong(Runner):
        def run_op(self, plan, op, step, inputs):
            return make(super().run_op(plan, op, step, inputs))

    return Wrong


def raising(error):
    class Wrong(Runner):
        def run_op(self, plan, op, step, inputs):
            raise error

    return Wrong


class NothingTaken(Runner):
    def take(self, tensor, step):
        return None


class Unknown(Runner):
    weight_bytes = None


RUNNERS = {
    "nothing": (returning(lambda ys: None), "expected a list of 1 arrays, found NoneType"),
    "two": (returning(lambda ys: [*ys, *ys]), "expected a list of 1 arrays, found a list of 2"),
    "none in a list": (returning(lambda ys: [None]), "expected arrays of real numbers [T, K]"),
    "a text": (returning(lambda ys: ["x"]), "expected arrays of real numbers [T, K], found str"),
    "complex": (
        returning(lambda ys: [ys[0] + 0j]),
        "expected arrays of real numbers [T, K], found complex",
    ),
    "objects": (returning(lambda ys: [ys[0].astype(object)]), "real numbers [T, K], found object"),
    "nan": (returning(lambda ys: [ys[0] * np.nan]), "with NaN or infinity, of values that"),
    "infinity": (returning(lambda ys: [ys[0] + np.inf]), "with NaN or infinity, of values that"),
    "exit": (raising(SystemExit(1)), "the accelerator template failed: SystemExit: 1"),
    "stop": (raising(Stop("gone")), "the accelerator template failed: Stop: gone"),
    "not taken": (NothingTaken, "expected"),
}


@pytest.mark.parametrize("name", RUNNERS)
def test_a_runner_that_is_wrong_is_blamed_and_cpp_goes_on(name, monkeypatch, tiny_llama):
    runner, said = RUNNERS[name]
    monkeypatch.setattr(accelerators, "_loaded", lambda entry: guarded(of(runner)))
    client = Client()
    try:
        client.load(tiny_llama, exact("template", mode="fp16"))
        finished, tokens = client.ask()
        assert len(tokens) == GREEDY.max_new_tokens and finished.stop_reason == "length"
        changed = client.of(ExecutorChanged)[-1].executor
        assert changed.backend == "cpu"
        assert "accelerator template" in changed.reason and said in changed.reason
    finally:
        assert client.engine.close(PATIENCE)


def test_a_runner_of_unknown_size_is_refused(monkeypatch, tiny_llama):
    monkeypatch.setattr(accelerators, "_loaded", lambda entry: guarded(of(Unknown)))
    with pytest.raises(AcceleratorError, match="weight_bytes of its runner: expected a number"):
        _ = guarded(of(Unknown)).runner(None, {}).weight_bytes


HANGING = """
    import signal, sys, time
    from importlib.metadata import EntryPoint
    from llm_lite.cli import entry
    from llm_lite.cli.terminal import interrupts
    from llm_lite.core.loading import accelerators
    from llm_lite.core.exec.guarded import guarded
    from llm_lite_template import Runner, Template

    interrupts.PATIENCE = 0.5

    class Hangs(Runner):
        def run_op(self, plan, op, step, inputs):
            while signal.getsignal(signal.SIGINT) is interrupts._interrupt:
                time.sleep(0.01)  # until the answer is waited for
            print("hangs", flush=True)
            while True:
                time.sleep(0.01)

    class Hanging(Template):
        def runner(self, program, weights):
            return Hangs(weights)

    accelerators._loaded = lambda entry: guarded(Hanging())
    sys.exit(entry.main())
"""


def test_a_step_that_hangs_is_told_and_left(tiny_llama):
    words = ["chat", str(tiny_llama), "-p", "a", "--backend", "template", "--mode", "fp16"]
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(HANGING), *words, "--raw"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None and process.stderr is not None
        assert "hangs" in process.stdout.readline()
        process.send_signal(signal.SIGINT)
        said = ""
        while "does not end" not in said:
            said = process.stderr.readline()
            assert said, "it ended without a word"
        assert "Ctrl-C ends the program" in said
        while process.poll() is None:
            process.send_signal(signal.SIGINT)
            try:
                process.wait(1)
            except subprocess.TimeoutExpired:
                continue
        assert process.returncode == 130
    finally:
        process.kill()
        process.communicate()
