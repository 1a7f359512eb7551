"""A step that two executors share: what each has, what crosses, and the answer, which is that of
one."""

import numpy as np
import pytest

from llm_lite.core.exec.compare import compare
from llm_lite.core.exec.cpu.executor import CpuExecutor
from llm_lite.core.exec.numpy_executor import NumpyExecutor
from llm_lite.core.exec.parts import cut_out, experts_apart, held, whole_plan
from llm_lite.core.plan.plan import Kind
from tests.core.exec.test_experts import MOST, ROUTES, Mixture, steps
from tests.tiers import tiered

VULKAN = pytest.mark.vulkan
FORMATS = (("f32", False), ("q4_0", True), ("q6_k", False))  # and activations as 8-bit numbers


def names(plan, numbers):
    return {plan.tensors[n].name for n in numbers}


def test_experts_are_cut_out_of_a_plan():
    model = Mixture(64, 32, 5, 2, "q8_0", a8=True)
    plan = model.plan(9)
    before, experts, after = experts_apart(plan)
    assert [part.apart for part in (before, experts, after)] == [False, True, False]
    assert before.last == experts.first and experts.last == after.first
    assert after.last == len(plan.ops)
    ops = [op.name for op in experts.ops(plan)]
    assert ops[0] == "expert_places" and ops[-1] == "expert_sum"
    (chosen, shares) = next(op for op in before.ops(plan) if op.name == "route").outputs
    assert {chosen, shares} < {t.id for t in experts.takes}
    assert [t.id for t in after.takes] == list(experts.ops(plan)[-1].outputs)


def test_what_was_given_once_is_not_given_again():
    plan = Mixture(64, 32, 5, 2).plan(1)
    every_other = [range(i, i + 1) for i in range(1, len(plan.ops), 2)]
    given = set()
    for part in cut_out(plan, every_other):
        made = {n for op in part.ops(plan) for n in op.outputs}
        for tensor in part.takes:
            assert (tensor.id, part.apart) not in given and tensor.id not in made
            given.add((tensor.id, part.apart))
    assert given


def test_each_has_the_weights_of_its_own_ops():
    program = Mixture(64, 32, 5, 2).program()
    sides = [held(program, experts_apart, apart=apart) for apart in (False, True)]
    own, beside = ({t.name for t in side if t.kind is Kind.WEIGHT} for side in sides)
    assert (own, beside) == ({"x", "logits"}, {"w", "biases"})
    assert not held(program, whole_plan, apart=True) or not {
        t.kind for t in held(program, whole_plan, apart=True)
    } - {Kind.SCRATCH}


def beside(model, program, **options):
    return CpuExecutor(program, model.weights, 2, beside=experts_apart, **options)


@VULKAN
@tiered(
    "route, dtype, a8",
    [(route, *how) for route in ROUTES for how in FORMATS],
    first=[(route, *FORMATS[0]) for route in ROUTES] + [("sigmoid", *how) for how in FORMATS[1:]],
)
def test_vulkan_with_experts_in_cpp(make_vulkan, route, dtype, a8):
    experts, chosen, how = ROUTES[route]
    model = Mixture(256, 32, experts, chosen, dtype, a8=a8, **how)
    program = model.program()
    in_file = dtype == "q4_0"
    partner = beside(model, program, experts_in_file=in_file)
    both = make_vulkan(program, model.weights, partner=partner, cut=experts_apart)
    alone = make_vulkan(program, model.weights)
    numpy = NumpyExecutor(program, model.weights)
    if how.get("switches"):
        for one in (both, alone, numpy):
            one.write_state("switches", 0, model.switches.view(np.uint8))
    for step in steps(1, 7, MOST):
        assert compare(numpy, both, step) is None, "op by op"
        found, expected = both.run(step), alone.run(step)
        np.testing.assert_allclose(found, expected, atol=2e-4 * np.abs(expected).max())
    apart = sum(model.weights[name].nbytes for name in ("w", "biases"))
    assert partner.weight_bytes == apart
    assert both.weight_bytes - apart < alone.weight_bytes - apart // 2


@VULKAN
def test_a_step_in_parts_is_measured(make_vulkan):
    model = Mixture(64, 32, 5, 2)
    program = model.program()
    both = make_vulkan(program, model.weights, partner=beside(model, program), cut=experts_apart)
    (step,) = steps(9)
    plan = program.plan_of(step)
    whole, ops = both.measure(plan, step, 2)
    assert whole > 0 and len(ops) == len(plan.ops) and min(ops) >= 0
