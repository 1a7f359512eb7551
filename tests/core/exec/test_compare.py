import numpy as np
import pytest

from llm_lite.core.exec.compare import compare
from llm_lite.core.exec.numpy_executor import NumpyExecutor
from llm_lite.core.loading import loader
from llm_lite.core.models.model import BuildOptions
from llm_lite.core.plan.builder import Bucket
from llm_lite.core.plan.plan import Kind
from llm_lite.core.plan.step import Step


class Faulty(NumpyExecutor):
    """The reference with one op slightly wrong, or with every op where the label is None."""

    def __init__(self, program, weights, label, error=1.0):
        super().__init__(program, weights)
        self._label, self._error = label, error

    def _run_op(self, plan, op, step):
        super()._run_op(plan, op, step)
        if self._label not in (op.label, None):
            return
        tensor = plan.tensors[op.outputs[-1]]
        if tensor.kind is Kind.STATE:
            values = self.read(plan, tensor, step)
            values[step.start, 1] += self._error
            self.write(plan, tensor, step, values)
        else:
            self._scratch[tensor.name][-1, 1] += self._error


@pytest.fixture(scope="module", params=[False, True], ids=["a32", "a8"])
def model(request, tiny_llama):
    file = loader.open_model(str(tiny_llama), lambda *_: None, print)
    build = BuildOptions(32, "f16", "f16", "f16", request.param, (Bucket(1, 1), Bucket(8, 8)))
    return file.model.build(build), file.file.tensors


PROMPT = Step(np.array([5, 17, 200, 3, 42], np.int32), start=0, outputs=2)
NEXT = Step(np.array([99], np.int32), start=5)


def test_equal_executors_do_not_differ(model):
    a, b = NumpyExecutor(*model), NumpyExecutor(*model)
    assert compare(a, b, PROMPT) is None
    assert compare(a, b, NEXT) is None


def test_lockstep_computes_what_a_run_computes(model):
    a, b, c = (NumpyExecutor(*model) for _ in range(3))
    compare(a, b, PROMPT)
    logits = c.run(PROMPT)
    plan = c.program.plan_for(PROMPT.count, PROMPT.outputs)
    for executor in (a, b):
        assert np.array_equal(executor.read(plan, plan.tensors[plan.logits], PROMPT), logits)


def test_every_op_of_a_layer_is_found_by_its_label(model):
    program, weights = model
    labels = [op.label for op in program.plans[-1].ops]
    assert len(labels) == len(set(labels))
    chosen = [label for label in labels if not label.startswith("layers.0")]
    assert any("store" in label for label in chosen)
    for label in chosen:
        found = compare(NumpyExecutor(*model), Faulty(program, weights, label), PROMPT)
        assert found is not None, label
        assert found.label == label
        assert found.column == 1
        assert label in str(found)
        assert found.op in str(found)


def test_a_small_error_late_in_a_conversation(model):
    program, weights = model
    label = "layers.1.feed_forward.silu_mul"
    a, b = NumpyExecutor(*model), Faulty(program, weights, label, error=1e-3)
    for executor in (a, b):
        executor.run(PROMPT)
    b.write(program.plans[0], *_state(a, program, NEXT))  # the same state before the step
    found = compare(a, b, NEXT)
    assert found is not None
    assert (found.op, found.label, found.row, found.column) == ("silu_mul", label, 0, 1)
    assert found.tolerance < found.error < 2e-3


def _state(a, program, step):
    tensor = next(t for t in program.plans[0].tensors if t.name == "k_cache.1")
    return tensor, step, a.read(program.plans[0], tensor, step)


def test_errors_do_not_add_up(model):
    """Each op begins from the same inputs, so allowed errors stay as small as they are made."""
    everywhere = Faulty(*model, label=None, error=6e-6)
    assert compare(NumpyExecutor(*model), everywhere, PROMPT) is None


def test_not_a_number_is_a_difference(model):
    program, weights = model
    label = "layers.0.attention.norm"
    found = compare(NumpyExecutor(*model), Faulty(program, weights, label, np.nan), PROMPT)
    assert found is not None
    assert (found.label, found.error) == (label, np.inf)


def test_an_error_below_the_tolerance_is_none(model):
    program, weights = model
    b = Faulty(program, weights, "output.norm", 1e-6)
    assert compare(NumpyExecutor(*model), b, PROMPT) is None
