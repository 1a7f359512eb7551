"""Mixtures of experts on three executors: who is chosen, in which order rows lie, the products of
each one's own, and that a token has the same bits whoever else is in the step."""

import numpy as np
import pytest

from llm_lite.core.exec.compare import compare
from llm_lite.core.exec.cpu.executor import CpuExecutor
from llm_lite.core.exec.numpy_executor import NumpyExecutor
from llm_lite.core.exec.vulkan import memory
from llm_lite.core.exec.vulkan.tuning import Tuning
from llm_lite.core.plan.builder import Bucket, PlanBuilder
from llm_lite.core.plan.plan import Program
from llm_lite.core.plan.step import Step
from llm_lite.core.records import replace
from tests.core.exec.one_op import BLOCKS, EVERY_ISA, FLOATS, TILES, weight
from tests.pairs import tiered_pairs
from tests.weight_blocks import width

VOCABULARY, MOST = 40, 45
VULKAN = pytest.mark.vulkan
LANES = Tuning(matvec_tokens=16, subgroups=True)
WAYS = {
    "vectors": Tuning(vector_tokens=4),
    "lanes": LANES,
    "rows": replace(LANES, tile_lanes=16),
    "dots": replace(LANES, integer_dot=True),
}
# experts, chosen, how
ROUTES = {
    "softmax": (7, 3, {}),
    "all": (5, 5, {"normalized": True, "factor": 2.5}),
    "one": (33, 1, {"normalized": True}),
    "late": (32, 4, {"late": True}),
    "sigmoid": (16, 2, {"sigmoid": True, "bias": True, "normalized": True, "factor": 0.5}),
    "groups": (24, 5, {"sigmoid": True, "bias": True, "groups": 4, "chosen_groups": 2}),
    "gains": (9, 4, {"gains": True, "normalized": True}),
    "both": (9, 4, {"gains": True, "bias": True, "sigmoid": True}),
    "groups of one": (6, 2, {"groups": 6, "chosen_groups": 3}),
    "many": (256, 8, {"normalized": True}),
    "switches": (9, 4, {"switches": True, "normalized": True, "layer": 1}),
    "all that there is": (12, 4, {"switches": True, "gains": True, "late": True}),
    "groups and switches": (24, 5, {"switches": True, "groups": 4, "chosen_groups": 2}),
}


class Mixture:
    """A plan of a router and a product of its experts over embeddings."""

    def __init__(self, columns, outputs, experts, chosen, dtype="f32", *, a8=False, **how):
        self.experts, self.chosen, self.how, self.a8 = experts, chosen, dict(how), a8
        rng = np.random.default_rng([columns, outputs, experts])
        sizes = {"x": (VOCABULARY, columns), "logits": (VOCABULARY, experts)}
        sizes |= {"bias": (experts,), "gains": (experts,), "biases": (experts * outputs,)}
        self.weights = {n: weight(n, "f32", rng.normal(0, 1, size)) for n, size in sizes.items()}
        switches = rng.choice([0, 0.5, 1, 1, 1, 2], (3, 2 * experts))
        switches[:, experts:] = rng.choice([0, 1, 1, 2], (3, experts))
        self.switches = switches.astype(np.float32)
        values = rng.normal(0, 0.1, (experts * outputs, columns))
        self.weights["w"] = weight("w", dtype, values)

    def plan(self, tokens):
        b = PlanBuilder(self.weights, Bucket(tokens, tokens), integer_activations=self.a8)
        x, logits = (b.embed(b.weight(name), f"{name}.rows") for name in ("x", "logits"))
        how = dict(self.how)
        vectors = {n: b.weight(n) for n in ("bias", "gains") if how.pop(n, False)}
        if how.pop("switches", False):
            vectors["switches"] = b.state("switches", "f32", self.switches.shape, fill=1.0)
        experts, shares = b.route(logits, "route", count=self.chosen, **vectors, **how)
        places, starts = b.expert_places(experts, "places", count=self.experts)
        rows = b.expert_rows(x, places, b.weight("w"), "rows")
        y = b.expert_matmul(rows, b.weight("w"), starts, "y")
        y = b.expert_bias(y, b.weight("biases"), starts, "biased")
        y = b.silu_mul(y, y, "gated")
        return b.finish(b.output_rows(b.expert_sum(y, places, shares, "sum"), "out"))

    def program(self):
        plans = tuple(map(self.plan, (1, 9, MOST)))
        return Program(plans, 64, VOCABULARY)


def steps(*counts):
    for count in counts:
        tokens = np.random.default_rng(count).integers(0, VOCABULARY, count)
        yield Step(tokens.astype(np.int32), 0, count)


def check(model, executor, *counts):
    numpy = NumpyExecutor(model.program(), model.weights)
    if model.how.get("switches"):
        for one in (numpy, executor):
            one.write_state("switches", 0, model.switches.view(np.uint8))
    for step in steps(*counts):
        assert compare(numpy, executor, step) is None


@EVERY_ISA
@pytest.mark.parametrize("route", ROUTES)
def test_every_build_routes_as_defined(route, isa):
    experts, chosen, how = ROUTES[route]
    model = Mixture(13, 16, experts, chosen, **how)
    cpu = CpuExecutor(model.program(), model.weights, 2, isa=isa)
    check(model, cpu, 1, 5, MOST)
    cpu.close()


@EVERY_ISA
@pytest.mark.parametrize("a8", [False, True])
@pytest.mark.parametrize("dtype", FLOATS + TILES + BLOCKS)
def test_every_build_multiplies_every_format(dtype, a8, isa):
    columns = 70 if dtype in FLOATS else width(dtype, 3)
    model = Mixture(columns, 48, 5, 2, dtype, a8=a8)
    cpu = CpuExecutor(model.program(), model.weights, 3, isa=isa)
    check(model, cpu, 1, 8, MOST)
    cpu.close()


@EVERY_ISA
@pytest.mark.parametrize("a8", [False, True])
@pytest.mark.parametrize("dtype", BLOCKS)
def test_experts_in_their_file_give_the_same_bits(dtype, a8, isa):
    model = Mixture(width(dtype, 3), 144, 5, 2, dtype, a8=a8)
    found = []
    for in_file in (False, True):
        cpu = CpuExecutor(model.program(), model.weights, 3, isa=isa, experts_in_file=in_file)
        found.append([cpu.run(step) for step in steps(1, 8, MOST)])
        cpu.close()
    assert all(map(np.array_equal, *found))


@VULKAN
@pytest.mark.parametrize("route", ROUTES)
def test_vulkan_routes_as_defined(make_vulkan, route):
    experts, chosen, how = ROUTES[route]
    model = Mixture(13, 16, experts, chosen, **how)
    check(model, make_vulkan(model.program(), model.weights), 1, 5, MOST)


@VULKAN
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("dtype", ["f32", "f16", "int4", "int8", "q6_k", "mxfp4"])
def test_vulkan_multiplies(make_vulkan, dtype, way):
    for a8 in {False, way == "dots"}:
        model = Mixture(64 if dtype in FLOATS else width(dtype, 3), 48, 5, 2, dtype, a8=a8)
        check(model, make_vulkan(model.program(), model.weights, tuning=WAYS[way]), 1, 13)


@VULKAN
@tiered_pairs("way, dtype", list(WAYS), ["f32", "int4"])
def test_vulkan_multiplies_parts_of_experts(make_vulkan, monkeypatch, dtype, way):
    """The weights of some experts begin in one buffer and end in the next."""
    monkeypatch.setattr(memory, "MOST_PART_ROWS", 64)
    model = Mixture(64, 48, 5, 2, dtype)
    executor = make_vulkan(model.program(), model.weights, tuning=WAYS[way])
    assert [part.rows for part in executor.matrix("w")] == [64, 64, 64, 48]
    check(model, executor, 1, 13)


@pytest.mark.parametrize("backend", ["cpu", pytest.param("vulkan", marks=VULKAN)])
@pytest.mark.parametrize("dtype", ["f32", "int4", "q6_k"])
@pytest.mark.parametrize("a8", [False, True])
def test_a_token_has_the_same_bits_beside_others(request, backend, dtype, a8):
    model = Mixture(64 if dtype == "f32" else width(dtype, 2), 32, 4, 2, dtype, a8=a8)
    program = model.program()
    if backend == "vulkan":
        executor = request.getfixturevalue("make_vulkan")(program, model.weights)
    else:
        executor = CpuExecutor(program, model.weights, 2)
        request.addfinalizer(executor.close)
    (whole,) = steps(MOST)
    together = executor.run(whole)
    for place in (0, 17, MOST - 1):
        alone = executor.run(Step(whole.tokens[place : place + 1], 0, 1))
        np.testing.assert_array_equal(alone[0], together[place])


@pytest.mark.parametrize("backend", ["cpu", pytest.param("vulkan", marks=VULKAN)])
def test_of_experts_that_are_equal_the_first_are_chosen(request, backend):
    model = Mixture(8, 16, 12, 3)
    tied = np.zeros((VOCABULARY, 12))
    tied[:, [2, 5, 7]] = 1.0
    tied[1::2, 9] = 1.0
    model.weights["logits"] = weight("logits", "f32", tied)
    program = model.program()
    if backend == "vulkan":
        executor = request.getfixturevalue("make_vulkan")(program, model.weights)
    else:
        executor = CpuExecutor(program, model.weights, 2)
        request.addfinalizer(executor.close)
    (step,) = steps(9)
    plan = program.plan_of(step)
    executor.run_ops(plan, step, 0, len(plan.ops))
    route = next(op for op in plan.ops if op.name == "route")
    executor.run_ops(plan, step, 0, plan.ops.index(route) + 1)
    chosen = executor.read(plan, plan.tensors[route.outputs[0]], step)
    assert (chosen == [2, 5, 7]).all()


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_logits_that_are_not_finite_choose_experts_that_exist(value):
    model = Mixture(8, 16, 6, 2)
    logits = np.zeros((VOCABULARY, 6))
    logits[::2] = value
    model.weights["logits"] = weight("logits", "f32", logits)
    cpu = CpuExecutor(model.program(), model.weights, 2)
    for step in steps(1, 9):
        plan = cpu.program.plan_of(step)
        cpu.run_ops(plan, step, 0, len(plan.ops))
    cpu.close()
