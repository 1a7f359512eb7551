"""Builds that have other products of many tokens only: the bits of the build that they share all
other ops with, in every format.

Products by AMX's tile registers are emulated or real, those by Arm's SMMLA run where the processor
has it (`tools/cross/aarch64.py` emulates one). What is emulated is what the instructions are
documented to do; all else of the kernel is compiled as for a processor that has them.
"""

from __future__ import annotations

import numpy as np
import pytest

from llm_lite.core.exec.cpu.executor import CpuExecutor
from llm_lite.core.plan.builder import Bucket, PlanBuilder
from llm_lite.core.plan.plan import Program
from llm_lite.core.plan.step import Segment, Step, chat_pages
from llm_lite.core.processor import available_isas, emulated_isas
from tests.core.exec.cpu.test_cpu_matmul import extreme_inputs
from tests.core.exec.one_op import BLOCKS, CONTEXT, TILES, VOCABULARY, OneOp, check, weight
from tests.pairs import each_pair
from tests.weight_blocks import width

BASES = {"amx": "avx512vnni", "amxemulated": "avx512vnni", "i8mm": "neondot"}
BUILDS = [isa for isa in (*emulated_isas(), *available_isas()) if isa in BASES]
# From the fewest that panels take, over a register of AMX of them, less, to some with a rest
TOKENS = (6, 7, 15, 16, 17, 32, 127)
MANY = max(TOKENS)

pytestmark = pytest.mark.skipif(not BUILDS, reason="no such build runs on this processor")


def rows_of_product(case: OneOp, isa: str, part: tuple[int, int] | None = None) -> list[np.ndarray]:
    """What each token gets, for as many tokens as TOKENS says. part: of the weight, see matmul."""
    builder = PlanBuilder(case.weights, Bucket(MANY, MANY), integer_activations=True)
    x = builder.embed(builder.weight("x"), "x.rows")
    y = builder.matmul(x, builder.weight("w"), "y", cut=part)
    program = Program((builder.finish(builder.output_rows(y, "rows")),), CONTEXT, VOCABULARY)
    cpu = CpuExecutor(program, case.weights, 2, isa=isa)
    ids = np.arange(MANY, dtype=np.int32) % VOCABULARY
    found = [cpu.run(Step(ids[:count], 0, count)) for count in TOKENS]
    cpu.close()
    return found


def test_emulated_builds_are_asked_for_by_name_only() -> None:
    assert not set(emulated_isas()) & set(available_isas())
    assert "amxemulated" in BUILDS or "avx512vnni" not in available_isas()


@each_pair("isa, dtype, blocks, rows", BUILDS, BLOCKS + TILES, (1, 3, 9, 33), (1, 13, 33, 127))
def test_products_have_the_bits_of_the_panels(isa: str, dtype: str, blocks: int, rows: int) -> None:
    case = OneOp()
    case.inputs(width(dtype, blocks), "x")
    case.weights["x"] = weight("x", "f32", case.weights["x"].dequantize() + 0.7)  # zero points
    case.random("w", rows, width(dtype, blocks), dtype=dtype)
    for found, expected in zip(
        rows_of_product(case, isa), rows_of_product(case, BASES[isa]), strict=True
    ):
        assert np.isfinite(expected).all()
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("dtype", TILES)
@pytest.mark.parametrize("isa", BUILDS)
def test_products_of_first_rows_and_columns(isa: str, dtype: str) -> None:
    case = OneOp()
    case.inputs(width(dtype, 9), "x")
    case.random("w", 127, width(dtype, 11), dtype=dtype)
    part = 33, width(dtype, 9)
    for found, expected in zip(
        rows_of_product(case, isa, part), rows_of_product(case, BASES[isa], part), strict=True
    ):
        assert found.shape[1] == 33
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("dtype", BLOCKS + TILES)
@pytest.mark.parametrize("isa", BUILDS)
def test_extreme_activations_have_the_bits_of_the_panels(isa: str, dtype: str) -> None:
    """Activations and zero points at either end, levels of every size."""
    case = OneOp()
    columns = width(dtype, 2)
    case.weights["x"] = extreme_inputs(columns)
    case.random("w", 47, columns, dtype=dtype, scale=100.0)
    for found, expected in zip(
        rows_of_product(case, isa), rows_of_product(case, BASES[isa]), strict=True
    ):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("dtype", TILES)
@pytest.mark.parametrize("isa", BUILDS)
def test_products_of_drafts_have_the_bits_of_one_token(isa: str, dtype: str) -> None:
    """Of tokens that are segments each, and fill a register."""
    case = OneOp()
    case.inputs(width(dtype, 9), "x")
    case.random("w", 127, width(dtype, 9), dtype=dtype)
    plans = []
    for bucket in (Bucket(1, 1), Bucket(32, 32)):
        builder = PlanBuilder(case.weights, bucket, integer_activations=True)
        x = builder.embed(builder.weight("x"), "x.rows")
        y = builder.matmul(x, builder.weight("w"), "y")
        plans.append(builder.finish(builder.output_rows(y, "rows")))
    program = Program(tuple(plans), CONTEXT, VOCABULARY, chat_pages(CONTEXT, 32, segments=32))
    cpu = CpuExecutor(program, case.weights, 2, isa=isa)
    table = np.arange(program.pages.table, dtype=np.int32)
    for count in (15, 16, 32):
        ids = np.arange(count, dtype=np.int32) % VOCABULARY
        parts = tuple(Segment(i, 1, 1, table) for i in range(count))
        found = cpu.run(Step(ids, 0, count, parts))
        singles = [Step(ids[i : i + 1], 0, 1, parts[i : i + 1]) for i in range(count)]
        expected = np.concatenate([cpu.run(single) for single in singles])
        np.testing.assert_array_equal(found, expected)
    cpu.close()


@pytest.mark.parametrize("dtype", TILES)
@pytest.mark.parametrize("isa", BUILDS)
def test_products_are_those_of_the_definition(isa: str, dtype: str) -> None:
    case = OneOp()
    case.inputs(96, "x")
    case.random("w", 127, 96, dtype=dtype)
    case.build = lambda b: b.matmul(case.input(b, "x"), b.weight("w"), "y")
    check(case, isa, 5e-5, a8=True)
