"""Attention of the C++ executor, and what it is made of: positions and the cache."""

from __future__ import annotations

import numpy as np
import pytest

from llm_lite.core.errors import UnsupportedError
from llm_lite.core.exec.cpu.executor import CpuExecutor
from llm_lite.core.exec.numpy_executor import NumpyExecutor
from llm_lite.core.plan.builder import PlanBuilder
from llm_lite.core.plan.checks import WHOLE_WORDS
from llm_lite.core.plan.plan import Kind, Tensor
from llm_lite.core.plan.step import Step
from tests.core.exec.one_op import (
    CONTEXT,
    EVERY_ISA,
    ISAS,
    VOCABULARY,
    OneOp,
    check,
    max_error,
    steps,
    weight,
)
from tests.pairs import each_pair


@each_pair("isa, widths, half_split", ISAS, ((2, 2), (14, 14), (200, 200), (26, 10)), (False, True))
def test_rope(isa: str, widths: tuple[int, int], half_split: bool) -> None:
    head_dim, rotary_dim = widths
    case = OneOp()
    case.inputs(3 * head_dim, "x")
    case.weights["factors"] = weight("factors", "f32", 1 + np.arange(rotary_dim // 2) / 7)

    def build(b: PlanBuilder) -> Tensor:
        sizes = {"head_dim": head_dim, "rotary_dim": rotary_dim, "half_split": half_split}
        x = b.rope(case.input(b, "x"), "plain", theta=1e4, **sizes)
        x = b.rope(x, "grown", theta=1e4, temperature=0.3, temperature_length=3, **sizes)
        return b.rope(x, "y", theta=1e6, scale=0.25, factors=b.weight("factors"), **sizes)

    case.build = build
    check(case, isa, 1e-6)


HEADS = [
    (1, 1, 1),
    (4, 2, 13),
    (9, 3, 64),
    (2, 1, 127),
    (8, 8, 64),
    (32, 4, 8),
    (36, 4, 6),
    (4, 2, 80),
]
CACHES = [("f16", "f16"), ("f32", "f32"), ("i8", "i8"), ("f16", "i8"), ("i8", "f32")]
CACHES += [("i4", "i4"), ("i8", "i4"), ("i4", "f16")]
CAPS = [(0.0, None), (0.7, None), (50.0, 1.0), (5.0, 1e30)]  # cap and scale of scores
RINGS = [(0, CONTEXT), (7, CONTEXT), (70, CONTEXT), (70, 89)]  # window, rows of the ring


SINKS = (None, 2.0, 200.0)  # the deviation of sinks


@each_pair("isa, shape, rings, cache, caps, sinks", ISAS, HEADS, RINGS, CACHES, CAPS, SINKS)
def test_attention(
    isa: str,
    shape: tuple[int, int, int],
    rings: tuple[int, int],
    cache: tuple[str, str],
    caps: tuple[float, float | None],
    sinks: float | None,
) -> None:
    """With store: steps at 0.. fill the cache, those at 41.. and 150.. look far back."""
    (heads, kv_heads, head_dim), (window, ring), (softcap, scale) = shape, rings, caps
    case = OneOp()
    case.inputs(heads * head_dim, "q", scale=2)
    case.inputs(kv_heads * head_dim, "k", "v")
    if sinks:
        case.weights["sinks"] = weight("sinks", "f32", case.rng.normal(0, sinks, heads))

    def build(b: PlanBuilder) -> Tensor:
        q, k, v = (case.input(b, name) for name in "qkv")
        caches = [
            b.state(name, dtype, (ring, kv_heads * head_dim), block=head_dim)
            for name, dtype in zip(("k_cache", "v_cache"), cache, strict=True)
        ]
        queries = b.state("ring", "f16", (19, heads * head_dim))
        b.store([(k, caches[0]), (v, caches[1]), (q, queries)], "store")
        sizes = {"heads": heads, "kv_heads": kv_heads, "head_dim": head_dim}
        gains = b.state("gains", "f32", (3, heads), fill=0.5)
        own = b.weight("sinks") if sinks else None
        scores = {"window": window, "scale": scale, "softcap": softcap, "sinks": own}
        return b.attention(q, *caches, gains, "y", layer=1, **scores, **sizes)

    case.build = build
    if head_dim % max(WHOLE_WORDS.get(dtype, 1) for dtype in cache):
        with pytest.raises(UnsupportedError, match=f"and this model's have {head_dim}"):
            case.program()
        return
    program = case.program()
    cpu = CpuExecutor(program, case.weights, 2, isa=isa)
    reference = NumpyExecutor(program, case.weights)
    for tensor in program.plans[0].tensors:
        if tensor.kind is Kind.STATE and tensor.name != "ring":
            past = case.rng.normal(0, 1, tensor.shape).astype(np.float32)
            for executor in (cpu, reference):
                before = executor.read(program.plans[0], tensor, Step(np.zeros(1, np.int32), 0))
                assert (before == tensor.fill).all()
                executor.write(program.plans[0], tensor, Step(np.zeros(1, np.int32), 0), past)
    for step in steps(case.rng, (0, 41, 150)):
        assert max_error(program, case.weights, step, cpu, reference) <= 5e-6


@EVERY_ISA
@pytest.mark.parametrize("tokens", [(3,), (1, 3, 2, 5, 6)], ids=["rows", "blocks"])
def test_a_cap_hides_no_query_that_is_no_number(isa: str, tokens: tuple[int, ...]) -> None:
    case = OneOp()
    case.inputs(2 * 13, "q", "k")
    case.weights["q"].data.view(np.float32).reshape(VOCABULARY, -1)[3, 5] = np.nan

    def build(b: PlanBuilder) -> Tensor:
        q, k = case.input(b, "q"), case.input(b, "k")
        cache = b.state("cache", "f32", (CONTEXT, 2 * 13))
        b.store([(k, cache)], "store")
        gains = b.state("gains", "f32", (1, 2), fill=1.0)
        sizes = {"layer": 0, "heads": 2, "kv_heads": 2, "head_dim": 13}
        y = b.attention(q, cache, cache, gains, "heads", softcap=2.0, **sizes)
        return b.output_rows(y, "rows")

    case.build = build
    cpu = CpuExecutor(case.program(outputs=5), case.weights, isa=isa)
    found = cpu.run(Step(np.array(tokens, np.int32), 0, len(tokens))).reshape(-1, 2, 13)
    of_nan = np.array(tokens) == 3
    assert np.isnan(found[of_nan, 0]).all() and np.isfinite(found[of_nan, 1]).all()
    assert np.isfinite(found[~of_nan]).all()


@EVERY_ISA
def test_store_rounds_to_half_as_numpy(isa: str) -> None:
    bits = np.random.default_rng(1).integers(0, 1 << 32, (VOCABULARY, 64), np.uint64)
    values = bits.astype(np.uint32).view(np.float32)
    values[0, :8] = [0, -0.0, 65504, 65519.99, 65520, 1e-8, 5.96e-8, 2.98e-8]
    values[1:3] = np.random.default_rng(2).normal(0, 1e-5, (2, 64))  # subnormal halves
    values[np.isnan(values)] = 1
    case = OneOp()
    case.weights["x"] = weight("x", "f32", values)

    def build(b: PlanBuilder) -> Tensor:
        x = case.input(b, "x")
        b.store([(x, b.state("k", "f16", (CONTEXT, 64)))], "store")
        return x

    case.build = build
    program = case.program()
    cpu = CpuExecutor(program, case.weights, isa=isa)
    with np.errstate(over="ignore"):
        halves = values.astype(np.float16).astype(np.float32)
    for start in (0, 16, VOCABULARY - 17):
        cpu.run(Step(np.arange(start, start + 17, dtype=np.int32) % VOCABULARY, start))
    plan = program.plans[0]
    for tensor in (t for t in plan.tensors if t.kind is Kind.STATE):
        stored = cpu.read(plan, tensor, Step(np.zeros(1, np.int32), 0))
        np.testing.assert_array_equal(stored[:VOCABULARY], halves[: len(stored)])
