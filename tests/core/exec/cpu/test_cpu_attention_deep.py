"""Attention far into a context: the cache as one stream, cut along its positions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from llm_lite.core.exec.cpu.executor import CpuExecutor
from llm_lite.core.exec.numpy_executor import NumpyExecutor
from llm_lite.core.plan.builder import PlanBuilder
from llm_lite.core.plan.checks import WHOLE_WORDS
from llm_lite.core.plan.plan import Kind, Program, Tensor
from llm_lite.core.plan.step import Step
from llm_lite.core.records import replace
from tests.children import run_child
from tests.core.exec.one_op import EVERY_ISA, ISAS, VOCABULARY, OneOp, max_error, weight
from tests.pairs import tiered_pairs

CONTEXT = 4500  # above it parts are no longer
# heads, heads of keys, values of a head: alone, in groups, more than a task has, odd
SHAPES = [(9, 3, 64), (8, 1, 32), (14, 2, 16), (64, 8, 16), (6, 6, 12), (4, 1, 127), (2, 1, 160)]
SHAPES += [(12, 2, 128), (2, 2, 64)]
CACHES = [("f16", "f16"), ("f32", "f32"), ("i8", "i8"), ("f16", "i8"), ("i8", "f32")]
CACHES += [("i4", "i4"), ("f16", "i4"), ("i4", "i8")]
STARTS = (2047, 2100, 4096, 4477)
RINGS = [(0, CONTEXT), (2300, CONTEXT), (2300, 2400), (100, CONTEXT)]  # window, rows of the ring


@dataclass
class Attention:
    """A plan of keys and values that are stored, and of attention to them."""

    shape: tuple[int, int, int]
    cache: tuple[str, str] = ("f16", "f16")
    rings: tuple[int, int] = (0, CONTEXT)
    softcap: float = 0.0
    sinks: bool = False

    def __post_init__(self) -> None:
        heads, kv_heads, head_dim = self.shape
        self.case = OneOp()
        self.case.inputs(heads * head_dim, "q", scale=2)
        self.case.inputs(kv_heads * head_dim, "k", "v")
        self.case.weights["sinks"] = weight("sinks", "f32", self.case.rng.normal(0, 2, heads))
        self.case.build = self._build

    def program(self) -> Program:
        return replace(self.case.program(), context=CONTEXT)

    def _build(self, b: PlanBuilder) -> Tensor:
        (heads, kv_heads, head_dim), (window, ring) = self.shape, self.rings
        q, k, v = (self.case.input(b, name) for name in "qkv")
        caches = [
            b.state(name, dtype, (ring, kv_heads * head_dim), block=head_dim)
            for name, dtype in zip(("k_cache", "v_cache"), self.cache, strict=True)
        ]
        b.store([(k, caches[0]), (v, caches[1])], "store")
        sizes = {"heads": heads, "kv_heads": kv_heads, "head_dim": head_dim}
        gains = b.state("gains", "f32", (1, heads), fill=0.5)
        own = b.weight("sinks") if self.sinks else None
        scores = {"window": window, "softcap": self.softcap, "sinks": own}
        return b.attention(q, *caches, gains, "y", layer=0, **scores, **sizes)


@tiered_pairs(
    "isa, shape, cache, start, rings, softcap, sinks",
    ISAS,
    SHAPES,
    CACHES,
    STARTS,
    RINGS,
    (0.0, 5.0),
    (False, True),
)
def test_a_token_behind_thousands(
    isa: str,
    shape: tuple[int, int, int],
    cache: tuple[str, str],
    start: int,
    rings: tuple[int, int],
    softcap: float,
    sinks: bool,
) -> None:
    if shape[2] % max(WHOLE_WORDS.get(dtype, 1) for dtype in cache):
        return  # no such blocks
    attention = Attention(shape, cache, rings, softcap, sinks)
    program, weights = attention.program(), attention.case.weights
    cpu = CpuExecutor(program, weights, 2, isa=isa)
    reference = NumpyExecutor(program, weights)
    fill(program, attention.case.rng, cpu, reference)
    for count in (1, 3):
        tokens = attention.case.rng.integers(0, VOCABULARY, count).astype(np.int32)
        assert max_error(program, weights, Step(tokens, start), cpu, reference) <= 5e-6


def fill(program: Program, rng: np.random.Generator, *executors: CpuExecutor) -> None:
    for tensor in program.plans[0].tensors:
        if tensor.kind is Kind.STATE and tensor.name != "gains":
            past = rng.normal(0, 1, tensor.shape).astype(np.float32)
            for executor in executors:
                executor.write(program.plans[0], tensor, Step(np.zeros(1, np.int32), 0), past)


@EVERY_ISA
@pytest.mark.parametrize("keys", ["i8", "i4"])
def test_any_number_of_threads_gives_the_same_bits(isa: str, keys: str) -> None:
    attention = Attention((9, 3, 64), (keys, "f16"))
    program, found = attention.program(), []
    for threads in (1, 2, 5):
        cpu = CpuExecutor(program, attention.case.weights, threads, isa=isa)
        fill(program, np.random.default_rng(1), cpu)
        step = Step(np.array([3], np.int32), 4400)
        plan = program.plan_for(1, 1)
        cpu.run(step)
        y = next(t for t in plan.tensors if t.name == "y")
        found.append(cpu.read(plan, y, step).tobytes())
    assert len(set(found)) == 1


@pytest.mark.parametrize("rows", [(1, 0, 4000), (1, 2300, 4000), (1, 100, 1000), (17, 100, 1000)])
def test_rows_that_no_query_sees_are_not_read(rows: tuple[int, int, int]) -> None:
    """In a child, which would end at the first byte that is read of them."""
    done = run_child("tests.core.exec.cpu.window_child", *rows)
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("read\n")
    done = run_child("tests.core.exec.cpu.window_child", *rows, "one-too-many")
    assert done.returncode < 0
