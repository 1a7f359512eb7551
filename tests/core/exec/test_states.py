"""Ops with a recurrent state: what a sequence leaves, the next step goes on from, on three
executors."""

import numpy as np
import pytest

from llm_lite.core.errors import RequestError
from llm_lite.core.exec.compare import compare
from llm_lite.core.exec.cpu.executor import CpuExecutor
from llm_lite.core.exec.numpy_executor import NumpyExecutor
from llm_lite.core.plan.builder import Bucket, PlanBuilder
from llm_lite.core.plan.plan import Program
from llm_lite.core.plan.step import NO_STATE, PAGE, PageShape, Segment, Step
from tests.core.exec.one_op import EVERY_ISA, weight

VOCABULARY, STATES, MOST = 40, 5, 90
PAGES = PageShape(pages=STATES, segments=4, context=PAGE, states=STATES)
VULKAN = pytest.mark.vulkan
# heads, key heads, key_dim, value_dim, taps, tiled
SHAPES = [(6, 2, 8, 12, 4, False), (6, 2, 8, 12, 4, True), (3, 3, 5, 37, 3, False)]
SHAPES += [(1, 1, 64, 16, 2, True), (2, 1, 128, 128, 4, False)]


class Recurrent:
    """A plan of both ops over embeddings, whose tokens say what comes in."""

    def __init__(self, shape, seed=0, scale=1.0):
        self.heads, self.key_heads, self.key_dim, self.value_dim, self.taps, self.tiled = shape
        self.columns = 2 * self.key_heads * self.key_dim + self.heads * self.value_dim
        self.rng = np.random.default_rng(seed)
        self.weights = {}
        self.add("x", VOCABULARY, self.columns, scale=scale)
        self.add("decay", VOCABULARY, self.heads, scale=3 * scale)
        self.add("beta", VOCABULARY, self.heads, scale=3 * scale)
        self.add("taps", self.columns * self.taps)
        rate = -np.exp(self.rng.normal(0, 1, self.heads))
        self.weights["rate"] = weight("rate", "f32", rate)
        self.add("bias", self.heads)

    def add(self, name, *shape, scale=1.0):
        self.weights[name] = weight(name, "f32", self.rng.normal(0, scale, shape))

    def plan(self, bucket, slots):
        b = PlanBuilder(self.weights, bucket, integer_activations=False)
        x, decay, beta = (b.embed(b.weight(n), f"{n}.rows") for n in ("x", "decay", "beta"))
        kept = b.state("conv", "f32", (slots * (self.taps - 1), self.columns))
        state = b.state("delta", "f32", (slots * self.heads * self.key_dim, self.value_dim))
        x = b.causal_conv(x, b.weight("taps"), kept, "conv.y")
        y = b.delta_rule(
            x,
            decay,
            beta,
            b.weight("rate"),
            b.weight("bias"),
            state,
            "delta.y",
            key_heads=self.key_heads,
            key_dim=self.key_dim,
            tiled=self.tiled,
        )
        return b.finish(b.output_rows(y, "rows"))

    def program(self, paged=True):
        slots = STATES if paged else 1
        plans = [self.plan(Bucket(n, n), slots) for n in (1, 9, MOST)]
        pages = PAGES if paged else None
        return Program(tuple(plans), PAGE, VOCABULARY, pages)


def executor_of(request, backend, model, **how):
    program = model.program(**how)
    if backend == "vulkan":
        return request.getfixturevalue("make_vulkan")(program, model.weights)
    executor = (
        NumpyExecutor(program, model.weights)
        if backend == "numpy"
        else CpuExecutor(program, model.weights, 2)
    )
    request.addfinalizer(executor.close)
    return executor


def step(*parts):
    """Of (tokens, start, states) each, all with outputs."""
    segments = tuple(
        Segment(start, len(tokens), len(tokens), np.array([i], np.int32), 0, states)
        for i, (tokens, start, states) in enumerate(parts)
    )
    tokens = np.concatenate([np.asarray(tokens) for tokens, *_ in parts]).astype(np.int32)
    return Step(tokens, 0, len(tokens), segments)


def tokens_of(count, seed=1):
    return np.random.default_rng(seed).integers(0, VOCABULARY, count)


@pytest.mark.parametrize("backend", ["cpu", pytest.param("vulkan", marks=VULKAN)])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_executors_agree(request, shape, backend):
    model = Recurrent(shape)
    numpy, other = (executor_of(request, one, model) for one in ("numpy", backend))
    a, b, c = (tokens_of(n, n) for n in (70, 21, 33))
    for one in (
        step((a[:50], 0, (NO_STATE, 0)), (b[:1], 0, (NO_STATE, 3))),
        step((b[1:9], 1, (3, 3)), (c, 0, (NO_STATE, 4)), (a[50:51], 50, (0, 1))),
        step((a[51:], 51, (1, 2)), (b[9:20], 9, (3, 0))),
        step((b[20:], 20, (0, 0)), (a[:1], 0, (NO_STATE, 1)), (a[1:2], 1, (1, 2))),
    ):
        assert compare(numpy, other, one) is None


@EVERY_ISA
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_every_build_agrees_in_plain_steps(request, shape, isa):
    model = Recurrent(shape)
    numpy = executor_of(request, "numpy", model, paged=False)
    cpu = CpuExecutor(model.program(paged=False), model.weights, 2, isa=isa)
    tokens, done = tokens_of(80), 0
    for count in (1, 1, 5, 60, 13):
        one = Step(tokens[done : done + count].astype(np.int32), done, count)
        assert compare(numpy, cpu, one) is None
        done += count
    cpu.close()


@pytest.mark.parametrize("backend", ["cpu", "numpy", pytest.param("vulkan", marks=VULKAN)])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_a_token_has_the_same_bits_however_the_text_is_cut(request, shape, backend):
    model, tokens = Recurrent(shape), tokens_of(MOST)
    executor = executor_of(request, backend, model)
    whole = executor.run(step((tokens, 0, (NO_STATE, 0))))
    left = [executor.read_state(name, 0, n).copy() for name, n in (("conv", 1), ("delta", 3))]
    for cuts in ((1, 7, 64, 18), (3, 87), (45, 1, 44)):
        done, rows, slots = 0, [], (NO_STATE, 1)
        for count in cuts:
            rows.append(executor.run(step((tokens[done : done + count], done, slots))))
            done, slots = done + count, (slots[1], 1 + slots[1] % 2)
        found = np.concatenate(rows)
        if backend == "numpy":  # whose sums are the definition's, by einsum
            assert np.allclose(found, whole, atol=1e-5)
        else:
            np.testing.assert_array_equal(found, whole)
    # A chain in one step, as drafted tokens are: each goes on from what the one before has left.
    chain = [((tokens[:1], 0, (NO_STATE, 1))), (tokens[1:2], 1, (1, 2)), (tokens[2:3], 2, (2, 3))]
    found = executor.run(step(*chain))
    assert np.allclose(found, whole[:3], atol=1e-5)
    again = executor.run(step((tokens[2:3], 2, (2, 4))))
    np.testing.assert_array_equal(again[0], found[2], "the state before it stayed")
    kept = [executor.read_state(name, 0, n) for name, n in (("conv", 1), ("delta", 3))]
    for before, now in zip(left, kept, strict=True):
        np.testing.assert_array_equal(before, now)


def test_slots_that_are_not_there_are_refused(request):
    executor = executor_of(request, "cpu", Recurrent(SHAPES[0]))
    for states in ((NO_STATE, STATES), (STATES, 0), (-2, 0), (0, -1)):
        with pytest.raises(RequestError, match=f"of slots {states[0]} and {states[1]} of {STATES}"):
            executor.run(step(([5], 0, states)))
