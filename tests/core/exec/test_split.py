"""A step that an accelerator and C++ share, whichever ops of it each runs."""

import contextlib
from itertools import pairwise
from random import Random

import numpy as np
import pytest

from llm_lite.core.errors import CancelledError
from llm_lite.core.exec.accelerator import cut_of, takes
from llm_lite.core.exec.compare import compare
from llm_lite.core.exec.cpu.executor import CpuExecutor
from llm_lite.core.exec.numpy_executor import NumpyExecutor
from llm_lite.core.exec.split import split_executor
from llm_lite.core.plan.plan import Kind
from llm_lite.core.quant import rows
from llm_lite.core.quant.blocks import a8
from tests.make_huggingface import write_tiny_gemma3n
from tests.mixture_in_blocks import write_mixture_in_blocks
from tests.runners import exact, running


class NumpyRunner(NumpyExecutor):
    """The reference executor as an accelerator's: values cross as bytes."""

    def give(self, tensor, step, data):
        columns = tensor.shape[1]
        is_a8 = tensor.dtype == "a8"
        found = a8.decode_rows(data, columns) if is_a8 else rows.decode(data, "f32", columns)
        self._scratch[tensor.name] = found

    def take(self, tensor, step):
        values = self._scratch[tensor.name]
        if tensor.dtype == "a8":
            return a8.encode_rows(a8.quantize_rows(values))
        return rows.encode(values, "f32")


class Some:
    """An accelerator that takes the ops for which `chooses` returns true."""

    name, device, activations = "some", "NumPy", "a32"

    def __init__(self, chooses):
        self.chooses = chooses

    def takes(self, op, plan):
        return self.chooses(op)

    def weight_bytes(self, weight):
        return 0

    def runner(self, program, weights):
        return NumpyRunner(program, weights)


@pytest.fixture(scope="module", params=["gemma3n", "mixture"])
def loaded(request, tmp_path_factory):
    """A program with its weights, and an executor of all of it."""
    folder = tmp_path_factory.mktemp("split")
    write = {
        "gemma3n": lambda at: write_tiny_gemma3n(at / "model"),
        "mixture": write_mixture_in_blocks,
    }
    options = exact("cpu", context=64)
    with running(write[request.param](folder), options) as runner:
        yield runner.executor.program, runner.weights, runner.executor


@contextlib.contextmanager
def shared(loaded, chooses):
    program, weights, _ = loaded
    executor = split_executor(
        Some(chooses), program, weights, lambda cut: CpuExecutor(program, weights, 2, beside=cut)
    )
    try:
        yield executor
    finally:
        executor.close()


def check_answers(loaded, chooses):
    program, _, alone = loaded
    with shared(loaded, chooses) as both:
        tokens, ends = [i * 7 % program.vocabulary for i in range(14)], (0, 9, 10, 13, 14)
        for first, last in pairwise(ends):
            step = program.step(tokens[first:last], first)
            found, expected = both.run(step), alone.run(step)
            np.testing.assert_allclose(found, expected, atol=2e-3 * np.abs(expected).max())
        return both.crossings


@pytest.mark.parametrize("seed", range(12))
def test_any_ops_may_be_refused(loaded, seed):
    plan, random = loaded[0].plans[0], Random(seed)
    names = sorted({op.name for op in plan.ops})
    kinds = set(random.sample(names, random.randint(0, len(names))))
    refused = {op.label for op in plan.ops if random.random() < 0.2}
    check_answers(loaded, lambda op: op.name in kinds and op.label not in refused)


def test_an_accelerator_that_takes_nothing_gets_nothing(loaded):
    assert check_answers(loaded, lambda op: False) == 0


def test_caches_states_and_tables_are_the_hosts(loaded):
    plan = loaded[0].plans[0]
    some = Some(lambda op: True)
    for op in plan.ops:
        kinds = {plan.tensors[i].kind for i in (*op.given, *op.outputs)}
        if takes(some, op, plan):
            assert not kinds & {Kind.STATE, Kind.TABLE}, op.label
        else:
            assert kinds & {Kind.STATE, Kind.TABLE}, op.label


def test_a_value_crosses_once(loaded):
    """Into a part what it reads of the other one's making, and out of it what that reads."""
    program, _, _ = loaded
    with shared(loaded, lambda op: op.name == "matmul") as both:
        step = program.step([3, 1, 4], 0)
        plan = program.plan_of(step)
        both.run(step)
        parts = cut_of(Some(lambda op: op.name == "matmul"))(plan)
        expected = [tensor for part in parts for tensor in part.takes]
        assert both.crossings == len(expected)
        sizes = (4 * t.shape[1] * t.rows_in(step) for t in expected if t.dtype == "f32")
        assert both.crossed >= sum(sizes) > 0


def test_it_is_compared_op_by_op(loaded):
    program, weights, _ = loaded
    numpy = NumpyExecutor(program, weights)
    with shared(loaded, lambda op: op.name in ("matmul", "silu_mul", "gelu")) as both:
        step = program.step([3, 1, 4, 1, 5], 0)
        assert compare(numpy, both, step) is None
        whole, ops = both.measure(program.plan_of(step), step, 2)
        assert whole >= 0.9 * sum(ops) > 0 and len(ops) == len(program.plan_of(step).ops)


def test_states_are_those_of_cpp(loaded):
    program, _, alone = loaded
    name = next(t.name for t in program.plans[0].tensors if t.name.startswith("k_cache"))
    with shared(loaded, lambda op: op.name == "matmul") as both:
        data = np.arange(alone.read_state(name, 0, 2).size, dtype=np.uint8).reshape(2, -1)
        both.write_state(name, 0, data)
        np.testing.assert_array_equal(both.read_state(name, 0, 2), data)
        assert both.device_state(name) is None
        np.testing.assert_array_equal(both.host_state(name)[:2], data)


def test_a_value_that_was_written_is_read_by_either_side(loaded):
    """As the session of an encoder writes hidden states before the ops behind them."""
    program, _, alone = loaded
    step = program.step([3, 1, 4], 0)
    plan = program.plan_of(step)
    alone.run(step)
    head = next(i for i, op in enumerate(plan.ops) if op.name == "output_rows")
    hidden = plan.tensors[plan.ops[head].inputs[0]]
    values = np.random.default_rng(0).normal(size=(3, hidden.shape[1])).astype(np.float32)
    with shared(loaded, lambda op: True) as both:
        both.run(step)
        for executor in (alone, both):
            again = program.step([3, 1, 4], 0)
            executor.write(plan, hidden, again, values)
            executor.run_ops(plan, again, head, len(plan.ops))
        logits = plan.tensors[plan.logits]
        found, expected = (one.read(plan, logits, again) for one in (both, alone))
        np.testing.assert_allclose(found, expected, atol=2e-3 * np.abs(expected).max())


def test_a_step_is_stopped_within_a_part_of_cpp(loaded):
    asked = []

    def should_stop():
        asked.append(1)
        return len(asked) > 1

    with shared(loaded, lambda op: False) as both, pytest.raises(CancelledError):
        both.run(loaded[0].step([1, 2, 3], 0), should_stop)
    assert len(asked) == 2
