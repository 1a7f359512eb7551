"""The package to begin from, as an author installs it; and what its checks say of wrong ones."""

from importlib.metadata import EntryPoint

import numpy as np
import pytest
from llm_lite_template import Runner, Template

from llm_lite.cli.main import main
from llm_lite.core.errors import AcceleratorError, RequestError
from llm_lite.core.exec.accelerator import GROUP
from llm_lite.core.exec.conformance import conformance
from llm_lite.core.exec.guarded import guarded
from llm_lite.core.hub.fit.machine import this_machine
from llm_lite.core.loading import accelerators, backends
from llm_lite.core.loading.accelerators import accelerator, accelerator_names
from llm_lite.core.loading.fitting import Fitting, description_of
from llm_lite.core.loading.loader import open_model
from llm_lite.core.messages import EngineOptions, ExecutorChanged
from tests.children import PATIENCE
from tests.core.engine_client import GREEDY, Client
from tests.runners import exact, running


def test_it_is_found_by_name():
    assert {"template", "uca"} <= set(accelerator_names())
    assert accelerator("template").device == Template.device


def test_it_conforms(capsys):
    assert main(["conformance", "template"]) == 0
    said = capsys.readouterr().out
    assert "template agrees with the definition" in said
    assert "matmul (" in said and "silu_mul (" in said


class WrongElement(Runner):
    """Adds to one element of each product."""

    def run_op(self, plan, op, step, inputs):
        (y,) = super().run_op(plan, op, step, inputs)
        if op.name == "matmul":
            y[-1, -1] += 0.5 * max(1.0, float(np.abs(y).max()))
        return [y]


class WrongShape(Runner):
    def run_op(self, plan, op, step, inputs):
        (y,) = super().run_op(plan, op, step, inputs)
        return [y[:, :-1]] if op.name == "silu_mul" else [y]


class Failing(Runner):
    def run_op(self, plan, op, step, inputs):
        raise OSError("the device is not there")


def of(runner):
    class Wrong(Template):
        def runner(self, program, weights):
            return runner(weights)

    return Wrong()


def test_a_wrong_element_is_named():
    found = conformance(of(WrongElement))
    first = found.failures[0]
    assert first.case == "matmul of f16, 1 x 13, a32"
    assert "out (matmul): out[0,0] differs by" in first.problem
    assert any("out[0,126]" in one.problem for one in found.failures), "row and column"
    assert any(one.case.startswith("a decoder in f16") for one in found.failures)
    assert not any(one.case.startswith("silu_mul") for one in found.failures)


@pytest.mark.parametrize("runner", [WrongShape, Failing])
def test_what_it_raises_is_a_failure(runner):
    found = conformance(of(runner))
    assert found.failures
    assert all(one.problem for one in found.failures)
    if runner is Failing:
        assert found.failures[0].problem == "OSError: the device is not there"


def test_a_name_that_no_package_has_is_said(tiny_llama):
    with pytest.raises(RequestError, match=r"expected one of auto, vulkan, cpu, numpy, .*uca"):
        backends.choose(EngineOptions(backend="nobody"), None)


def registered(monkeypatch, value):
    entry = EntryPoint("broken", value, GROUP)
    monkeypatch.setattr(accelerators, "_registered", lambda: ({"broken": entry}, ("two: why",)))


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("no_such_package:X", "cannot be imported: ModuleNotFoundError"),
        ("math:pi", "expected an accelerator, found float without name, device, activations"),
        ("llm_lite_template:Template", "expected an accelerator, found the class Template"),
        ("llm_lite_template:ACCELERATOR", "expected the name broken, found 'template'"),
    ],
)
def test_a_package_that_fails_is_named(monkeypatch, capsys, value, said):
    registered(monkeypatch, value)
    with pytest.raises(RequestError) as caught:
        accelerator("broken")
    assert said in str(caught.value) and "\n" not in str(caught.value)
    assert main(["doctor"]) == 0
    out = capsys.readouterr().out
    assert said in out and "two: why" in out


def test_its_weights_count_when_a_model_is_checked_to_fit(tiny_llama):
    file = open_model(str(tiny_llama), lambda *_: None, print)
    try:
        sizes = {}
        for name in ("cpu", "template"):
            options = exact(name, mode="fp16")
            choice = backends.choose(options, None)
            fit = Fitting(description_of(file), choice, this_machine(None)).fit(options)
            sizes[name] = next(part.host for part in fit.parts if part.name == "weights")
        with running(tiny_llama, exact("template", mode="fp16")) as runner:
            own = runner.executor.runner.weight_bytes
        assert sizes["template"] - sizes["cpu"] == own > 0
        assert runner.executor_info.device == "a template in NumPy"
        assert "products run on template, all else in C++" in runner.executor_info.shared
    finally:
        file.close()


def test_a_mode_that_it_does_not_take_runs_in_cpp(tiny_llama):
    with running(tiny_llama, exact("template", mode="int8")) as runner:
        assert "ops run on template, all else in C++" in runner.executor_info.shared
        step = runner.executor.program.step([1, 2], 0)
        assert np.isfinite(runner.executor.run(step)).all()


class Unkind(Template):
    """Each of its methods can fail, as packages of others do."""

    def __init__(self, fails):
        self.fails = fails

    def __getattribute__(self, name):
        if name == object.__getattribute__(self, "__dict__").get("fails"):
            raise RuntimeError("no driver")
        return object.__getattribute__(self, name)


@pytest.mark.parametrize("fails", ["device", "takes", "weight_bytes", "runner"])
def test_what_a_package_raises_names_it(fails, tiny_llama):
    one = guarded(Unkind(fails))
    calls = {
        "device": lambda: one.device,
        "takes": lambda: one.takes(None, None),
        "weight_bytes": lambda: one.weight_bytes(None),
        "runner": lambda: one.runner(None, {}),
    }
    with pytest.raises(AcceleratorError, match="the accelerator template failed: RuntimeError"):
        calls[fails]()


@pytest.mark.parametrize("fails", ["takes", "runner"])
def test_it_does_not_leave_the_check(fails):
    found = conformance(Unkind(fails))
    assert found.failures
    assert all("no driver" in one.problem for one in found.failures)


def test_a_runner_that_fails_hands_over_to_cpp(monkeypatch, tiny_llama):
    monkeypatch.setattr(accelerators, "_loaded", lambda entry: guarded(of(Failing)))
    client = Client()
    try:
        loaded = client.load(tiny_llama, exact("template", mode="fp16"))
        assert loaded.executor.backend == "template"
        finished, tokens = client.ask()
        assert len(tokens) == GREEDY.max_new_tokens and finished.stop_reason == "length"
        changed = client.of(ExecutorChanged)[-1].executor
        assert changed.backend == "cpu"
        assert changed.reason == (
            "the accelerator template failed: OSError: the device is not there"
        )
    finally:
        assert client.engine.close(PATIENCE)
