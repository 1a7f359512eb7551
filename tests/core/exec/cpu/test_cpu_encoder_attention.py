"""Attention of the C++ executor that is not causal, sees a source or is biased by distance, alone
and in steps that several sequences share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import pytest
from numpy.typing import NDArray

from llm_lite.core.exec.cpu.executor import CpuExecutor
from llm_lite.core.exec.numpy_executor import NumpyExecutor
from llm_lite.core.plan.builder import Bucket, PlanBuilder
from llm_lite.core.plan.checks import WHOLE_WORDS
from llm_lite.core.plan.plan import Kind, Plan, Program, Tensor
from llm_lite.core.plan.step import PAGE, PageShape, Segment, Step
from llm_lite.core.records import replace
from tests.core.exec.one_op import ISAS, VOCABULARY, OneOp, max_error, weight
from tests.pairs import each_pair

SOURCE = 500  # positions of a source at most
PAGES = PageShape(pages=18, segments=6, context=3 * PAGE)
ROWS = PAGES.pages * PAGE
TOLERANCE = 5e-6


@dataclass(frozen=True)
class Way:
    """What tokens see, and the columns of their bias with that of a distance of 0."""

    bidirectional: bool = False
    cross: bool = False
    bias: tuple[int, int] | None = None


WAYS = (
    Way(bidirectional=True),
    Way(cross=True),
    Way(bias=(1, 0)),
    Way(bias=(13, 12)),  # as ALiBi: up to the own position
    Way(bias=(ROWS, ROWS - 1)),
    Way(bidirectional=True, bias=(127, 63)),  # as T5
    Way(bidirectional=True, bias=(13, 0)),
)
HEADS = [(1, 1, 1), (4, 2, 13), (9, 3, 64), (12, 12, 32), (36, 4, 8), (50, 1, 4)]
CACHES = [("f32", "f32"), ("f16", "f16"), ("i8", "f16"), ("f32", "i8"), ("i4", "i4")]
CAPS_AND_SINKS = [(0.0, False), (0.7, False), (0.0, True), (5.0, True)]


class Attention:
    """A program of one attention op whose caches are full of random keys and values."""

    def __init__(
        self,
        way: Way,
        heads: tuple[int, int, int] = (4, 2, 13),
        cache: tuple[str, str] = ("f32", "f32"),
        cap_and_sinks: tuple[float, bool] = (0.0, False),
        *,
        shared: bool = False,
    ) -> None:
        self.way, (self.heads, self.kv_heads, self.head_dim) = way, heads
        self.head_dim += -self.head_dim % max(WHOLE_WORDS.get(dtype, 1) for dtype in cache)
        self.cache, (self.softcap, self.sinks) = cache, cap_and_sinks
        self.case = OneOp()
        self.case.inputs(self.heads * self.head_dim, "q", scale=2)
        self.case.inputs(self.kv_heads * self.head_dim, "k", "v")
        if self.sinks:
            self.case.random("sinks", self.heads, scale=2)
        if way.bias:
            self.case.random("bias", self.heads, way.bias[0], scale=2)
        builder = PlanBuilder(self.case.weights, Bucket(256, 1), integer_activations=False)
        self.plan = builder.finish(self._build(builder))
        pages = PAGES if shared else None
        source = SOURCE if way.cross else 0
        self.program = Program((self.plan,), PAGES.context, VOCABULARY, pages, source)

    def _build(self, b: PlanBuilder) -> Tensor:
        q, k, v = (self.case.input(b, name) for name in "qkv")
        shape = (SOURCE if self.way.cross else ROWS), self.kv_heads * self.head_dim
        caches = [
            b.state(name, dtype, shape, block=self.head_dim)
            for name, dtype in zip(("k_cache", "v_cache"), self.cache, strict=True)
        ]
        if not self.way.cross:
            b.store([(k, caches[0]), (v, caches[1])], "store")
        gains = b.state("gains", "f32", (3, self.heads), fill=0.5)
        return b.attention(
            q,
            *caches,
            gains,
            "y",
            layer=1,
            heads=self.heads,
            kv_heads=self.kv_heads,
            head_dim=self.head_dim,
            softcap=self.softcap,
            sinks=b.weight("sinks") if self.sinks else None,
            bias=b.weight("bias") if self.way.bias else None,
            bias_before=self.way.bias[1] if self.way.bias else 0,
            bidirectional=self.way.bidirectional,
            cross=self.way.cross,
        )

    def executors(self, isa: str, threads: int = 2) -> tuple[CpuExecutor, NumpyExecutor]:
        cpu = CpuExecutor(self.program, self.case.weights, threads, isa=isa)
        reference = NumpyExecutor(self.program, self.case.weights)
        for tensor in self.plan.tensors:
            if tensor.kind is Kind.STATE and tensor.name != "gains":
                past = self.case.rng.normal(0, 1, tensor.shape).astype(np.float32)
                for executor in (cpu, reference):
                    executor.write(self.plan, tensor, Step(np.zeros(1, np.int32), 0), past)
        return cpu, reference

    def tokens(self, count: int) -> NDArray[np.int32]:
        return self.case.rng.integers(0, VOCABULARY, count).astype(np.int32)

    def shared_step(self, spans: tuple[tuple[int, int], ...], source: int) -> Step:
        """Segments of (start, tokens), in pages by chance."""
        pages = self.case.rng.permutation(PAGES.pages).astype(np.int32).reshape(-1, 3)
        segments = tuple(Segment(*span, 0, pages[i]) for i, span in enumerate(spans))
        return Step(self.tokens(sum(s.count for s in segments)), 0, 0, segments, source)


@each_pair("isa, way, heads, cache, cap_and_sinks", ISAS, WAYS, HEADS, CACHES, CAPS_AND_SINKS)
def test_one_sequence(
    isa: str,
    way: Way,
    heads: tuple[int, int, int],
    cache: tuple[str, str],
    cap_and_sinks: tuple[float, bool],
) -> None:
    """Few tokens over many positions are split, one is attended to by rows, more by blocks."""
    attention = Attention(way, heads, cache, cap_and_sinks)
    cpu, reference = attention.executors(isa)
    for count, start, source in (
        (1, 0, 1),
        (1, 300, 500),
        (3, 290, 127),
        (13, 0, 13),
        (127, 41, 1),
    ):
        step = Step(attention.tokens(count), start, source=source if way.cross else 0)
        error = max_error(attention.program, attention.case.weights, step, cpu, reference)
        assert error <= TOLERANCE, f"{count} tokens at {start}: {error:.3g}"
    cpu.close()


SPANS = (((0, 1), (0, 13), (0, 127), (0, 40)), ((128, 1), (250, 100), (0, 3)), ((300, 1),))


@each_pair("isa, way, heads, cache, cap_and_sinks", ISAS, WAYS, HEADS, CACHES, CAPS_AND_SINKS)
def test_sequences_that_share_a_step(
    isa: str,
    way: Way,
    heads: tuple[int, int, int],
    cache: tuple[str, str],
    cap_and_sinks: tuple[float, bool],
) -> None:
    attention = Attention(way, heads, cache, cap_and_sinks, shared=True)
    cpu, reference = attention.executors(isa)
    for spans, source in zip(SPANS, (13, 127, 500), strict=True):
        step = attention.shared_step(spans, source if way.cross else 0)
        error = max_error(attention.program, attention.case.weights, step, cpu, reference)
        assert error <= TOLERANCE, f"{spans}: {error:.3g}"
    cpu.close()


@each_pair("isa, way, heads, threads", ISAS, WAYS, HEADS, (1, 2, 3))
def test_a_sequence_gets_the_same_bits_alone_and_beside_others(
    isa: str, way: Way, heads: tuple[int, int, int], threads: int
) -> None:
    attention = Attention(way, heads, ("f16", "f16"), shared=True)
    cpu, _ = attention.executors(isa, threads)
    spans = (0, 1), (0, 13), (5, 127), (0, 2), (300, 1), (0, 17)
    step = attention.shared_step(spans, 140 if way.cross else 0)
    together = _attended(cpu, attention.plan, step)
    for (first, end), segment in zip(step.bounds, step.segments, strict=True):
        alone = Step(step.tokens[first:end], 0, 0, (segment,), step.source)
        np.testing.assert_array_equal(_attended(cpu, attention.plan, alone), together[first:end])
    cpu.close()


def _attended(executor: CpuExecutor, plan: Plan, step: Step) -> NDArray[np.float32]:
    executor.run_ops(plan, step, 0, len(plan.ops))
    return executor.read(plan, plan.tensors[plan.logits], step).copy()


def _with_params(plan: Plan, **params: float) -> Plan:
    """The plan with other parameters of its attention."""
    *before, attention = plan.ops
    changed = MappingProxyType({**attention.params, **params})
    return replace(plan, ops=(*before, replace(attention, params=changed)))


BIASED = Way(bias=(13, 2))
WRONG: list[tuple[str, Way, Callable[[Program], Program]]] = [
    ("a source that is longer than its caches", Way(cross=True), lambda p: replace(p, source=501)),
    ("a source that no step has", Way(cross=True), lambda p: replace(p, source=0)),
    ("no column for a distance of 0", BIASED, lambda p: _changed(p, bias_before=13)),
    ("a column before the first", BIASED, lambda p: _changed(p, bias_before=-1)),
    ("a window to both sides", Way(bidirectional=True), lambda p: _changed(p, window=3)),
    ("distances to a source", BIASED, lambda p: _changed(replace(p, source=9), cross=1)),
]


def _changed(program: Program, **params: float) -> Program:
    return replace(program, plans=(_with_params(program.plans[0], **params),))


@pytest.mark.parametrize("what, way, change", WRONG, ids=[what for what, _, _ in WRONG])
def test_a_plan_that_leads_outside_is_refused(
    what: str, way: Way, change: Callable[[Program], Program]
) -> None:
    attention = Attention(way)
    with pytest.raises(ValueError, match=r"do not fit together|lacks the source"):
        CpuExecutor(change(attention.program), attention.case.weights, 1)


def test_a_bias_of_other_heads_is_refused() -> None:
    attention = Attention(BIASED)
    plan = attention.plan
    narrow = weight("bias", "f32", np.zeros((3, 13)))
    tensors = tuple(replace(t, shape=(3, 13)) if t.name == "bias" else t for t in plan.tensors)
    program = replace(attention.program, plans=(replace(plan, tensors=tensors),))
    with pytest.raises(ValueError, match="do not fit together"):
        CpuExecutor(program, {**attention.case.weights, "bias": narrow}, 1)
