"""Attention that sees nothing before a position: as if the sequence began there, on three
executors."""

import numpy as np
import pytest

from llm_lite.core.exec.compare import compare
from llm_lite.core.exec.cpu.executor import CpuExecutor
from llm_lite.core.exec.numpy_executor import NumpyExecutor
from llm_lite.core.plan.builder import Bucket, PlanBuilder
from llm_lite.core.plan.plan import Program
from llm_lite.core.plan.step import Step
from tests.core.exec.one_op import EVERY_ISA, weight

VOCABULARY, CONTEXT, HEADS, KV_HEADS, HEAD_DIM = 40, 512, 4, 2, 16
COUNTS = (60, 1, 9, 90, 1, 1, 200, 1)  # tokens of steps, one behind the other
FIRST = (1, 5, 70)


def weights():
    rng = np.random.default_rng(2)
    sizes = {"q": HEADS, "k": KV_HEADS, "v": KV_HEADS}
    return {
        name: weight(name, "f32", rng.normal(0, 1, (VOCABULARY, heads * HEAD_DIM)))
        for name, heads in sizes.items()
    }


def program(known, first):
    plans = []
    for count in (1, 9, 200):
        b = PlanBuilder(known, Bucket(count, count), integer_activations=False)
        q, k, v = (b.embed(b.weight(name), f"{name}.rows") for name in "qkv")
        caches = [b.state(name, "f16", (CONTEXT, KV_HEADS * HEAD_DIM)) for name in ("ks", "vs")]
        b.store(list(zip((k, v), caches, strict=True)), "store")
        gains = b.state("gains", "f32", (1, HEADS), fill=1.0)
        sizes = {"heads": HEADS, "kv_heads": KV_HEADS, "head_dim": HEAD_DIM}
        y = b.attention(q, *caches, gains, "y", layer=0, first=first, **sizes)
        plans.append(b.finish(b.output_rows(y, "rows")))
    return Program(tuple(plans), CONTEXT, VOCABULARY)


def steps(first):
    rng, start = np.random.default_rng(3), first
    for count in COUNTS:
        yield Step(rng.integers(0, VOCABULARY, count).astype(np.int32), start, count)
        start += count


@pytest.mark.parametrize("first", FIRST)
def test_what_lies_before_is_as_if_it_were_not_there(first):
    known = weights()
    one, other = (NumpyExecutor(program(known, place), known) for place in (first, 0))
    for own, plain in zip(steps(first), steps(0), strict=True):
        np.testing.assert_allclose(one.run(own), other.run(plain), atol=1e-6)


@EVERY_ISA
@pytest.mark.parametrize("first", FIRST)
def test_every_build_agrees(first, isa):
    known = weights()
    numpy = NumpyExecutor(program(known, first), known)
    cpu = CpuExecutor(program(known, first), known, 2, isa=isa)
    for step in steps(first):
        assert compare(numpy, cpu, step) is None
    cpu.close()


@pytest.mark.vulkan
@pytest.mark.parametrize("first", FIRST)
def test_vulkan_agrees(first, make_vulkan):
    known = weights()
    numpy = NumpyExecutor(program(known, first), known)
    vulkan = make_vulkan(program(known, first), known)
    for step in steps(first):
        assert compare(numpy, vulkan, step) is None
