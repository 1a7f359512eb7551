"""The other ops of the C++ executor against NumPy, at awkward sizes, in every build."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest

from llm_lite.core.exec.cpu.executor import CpuExecutor
from llm_lite.core.exec.op_cases import COLUMN_CASES
from llm_lite.core.plan.builder import PlanBuilder
from llm_lite.core.plan.plan import Tensor
from llm_lite.core.plan.step import Step
from llm_lite.core.quant.registry import FORMATS
from llm_lite.core.quant.tensor import TensorData
from tests.core.exec.one_op import (
    BLOCKS,
    EVERY_ISA,
    FLOATS,
    ISAS,
    TILES,
    VOCABULARY,
    OneOp,
    check,
    weight,
)
from tests.pairs import each_pair
from tests.weight_blocks import width


@EVERY_ISA
@pytest.mark.parametrize("dtype", FLOATS + BLOCKS + TILES)
def test_embed(isa: str, dtype: str) -> None:
    blocks = (1, 3, 20)
    for columns in (1, 13, 521) if dtype in FLOATS else (width(dtype, n) for n in blocks):
        case = OneOp()
        case.random("x", VOCABULARY, columns, dtype=dtype)
        check(case, isa, 1e-6)


@EVERY_ISA
@pytest.mark.parametrize("columns", [1, 13, 127, 576])
def test_rms_norm(isa: str, columns: int) -> None:
    case = OneOp()
    case.inputs(columns, "x", scale=100)
    case.random("w", columns)
    case.build = lambda b: b.rms_norm(case.input(b, "x"), b.weight("w"), 1e-5, "y")
    check(case, isa, 5e-6)


@EVERY_ISA
@pytest.mark.parametrize("dtype", TILES)
def test_tiles_of_any_bytes_decode_exactly(isa: str, dtype: str) -> None:
    """All headers but those that are no numbers, subnormal and largest scales among them."""
    form, shape = FORMATS[dtype], (VOCABULARY, 96)
    rng = np.random.default_rng(3)
    data = rng.integers(0, 256, form.nbytes(shape), np.uint8)
    tiles = data.reshape(-1, form.block_bytes * 16)
    headers = tiles[:, :32].view(np.uint16)
    headers &= 0x7BFF if dtype == "int8" else 0xF7FF  # no exponent of 31
    headers[0, :6] = [0, 0x3F, 0x7F, 0xF7FF if dtype == "int4" else 0x7BFF, 1, 0x40]
    table = TensorData("x", dtype, shape, data)
    expected = table.dequantize()
    case = OneOp()
    case.weights["x"] = table
    cpu = CpuExecutor(case.program(), case.weights, isa=isa)
    for first in range(0, VOCABULARY, 10):
        tokens = np.arange(first, first + 10, dtype=np.int32)
        plan, step = cpu.program.plans[-1], Step(tokens, 0)
        cpu.run_ops(plan, step, 0, 1)
        found = cpu.read(plan, plan.tensors[plan.ops[0].outputs[0]], step)
        np.testing.assert_array_equal(found, expected[tokens])


@EVERY_ISA
def test_silu_of_every_magnitude(isa: str) -> None:
    """Relative to each value, not only to the largest."""
    gate = np.linspace(-80, 80, VOCABULARY * 513, dtype=np.float32).reshape(VOCABULARY, 513)
    case = OneOp()
    case.weights["a"] = weight("a", "f32", gate)
    case.weights["b"] = weight("b", "f32", np.ones_like(gate))
    case.build = lambda b: b.silu_mul(case.input(b, "a"), case.input(b, "b"), "y")
    program = case.program(outputs=17)
    cpu = CpuExecutor(program, case.weights, isa=isa)
    plan, step = program.plans[-1], Step(np.arange(17, dtype=np.int32), 0)
    exact = gate[:17].astype(np.float64) / (1 + np.exp(-gate[:17].astype(np.float64)))
    cpu.run_ops(plan, step, 0, 3)
    found = cpu.read(plan, plan.tensors[plan.logits], step)
    np.testing.assert_allclose(found, exact, rtol=1e-6)


@each_pair("isa, outputs, columns", ISAS, (0, 1, 3, 17), (13, 700))
def test_output_rows(isa: str, outputs: int, columns: int) -> None:
    case = OneOp()
    case.inputs(columns, "x")
    case.build = lambda b: b.output_rows(case.input(b, "x"), "y")
    program = case.program(outputs=17)
    cpu = CpuExecutor(program, case.weights, isa=isa)
    tokens = case.rng.integers(0, VOCABULARY, 17).astype(np.int32)
    rows = case.weights["x"].dequantize()[tokens]
    np.testing.assert_array_equal(cpu.run(Step(tokens, 0, outputs)), rows[17 - outputs :])


def pair_case(columns: int, build: Callable[[PlanBuilder, Tensor, Tensor], Tensor]) -> OneOp:
    """An op of two inputs, with values of every size in the first."""
    case = OneOp()
    case.inputs(columns, "a", "b", scale=10)
    case.weights["a"].data.view(np.float32)[:6] = [0, 88, -88, 200, -200, -1e-30][
        : min(6, VOCABULARY * columns)
    ]
    case.random("w", columns)
    case.build = lambda b: build(b, case.input(b, "a"), case.input(b, "b"))
    return case


@each_pair("isa, op, columns", ISAS, tuple(COLUMN_CASES), (1, 13, 127, 600))
def test_columnwise(isa: str, op: str, columns: int) -> None:
    check(pair_case(columns, COLUMN_CASES[op]), isa, 5e-6)


@each_pair("isa, streams, width", ISAS, (1, 2, 3, 4), (1, 13, 127))
def test_altup_predict(isa: str, streams: int, width: int) -> None:
    case = OneOp()
    case.inputs(streams * width, "x")
    case.inputs(streams**2, "coefs")
    case.build = lambda b: b.altup_predict(case.input(b, "x"), case.input(b, "coefs"), "y")
    check(case, isa, 5e-6)


@each_pair("isa, shape, weighted", ISAS, ((1, 5), (13, 3), (64, 2), (127, 2)), (True, False))
def test_rms_norm_of_groups(isa: str, shape: tuple[int, int], weighted: bool) -> None:
    width, groups = shape
    case = OneOp()
    case.inputs(width * groups, "x", scale=100)
    case.random("w", width)
    case.build = lambda b: b.rms_norm(
        case.input(b, "x"), b.weight("w") if weighted else None, 1e-5, "y", width=width
    )
    check(case, isa, 5e-6)


@EVERY_ISA
@pytest.mark.parametrize("large", [1e30, np.inf, np.nan])
def test_a_layer_norm_that_overflows_is_nan(isa: str, large: float) -> None:
    case = OneOp()
    case.inputs(127, "x")
    case.weights["x"].data.view(np.float32).reshape(VOCABULARY, 127)[3, 5] = large
    case.random("w", 127)
    case.build = lambda b: b.layer_norm(case.input(b, "x"), b.weight("w"), b.weight("w"), 1e-5, "y")
    program = case.program(outputs=5)
    cpu = CpuExecutor(program, case.weights, isa=isa)
    plan, step = program.plans[-1], Step(np.arange(5, dtype=np.int32), 0)
    cpu.run_ops(plan, step, 0, len(plan.ops))
    found = cpu.read(plan, plan.tensors[plan.logits], step)
    assert np.isnan(found[3]).all() and np.isfinite(np.delete(found, 3, axis=0)).all()


@EVERY_ISA
@pytest.mark.parametrize("dtype", FLOATS + BLOCKS + TILES)
def test_table_rows(isa: str, dtype: str) -> None:
    """The table has fewer rows than there are tokens: those beyond it read row 0."""
    case = OneOp()
    case.inputs(3, "x")
    columns = 96 if dtype in FLOATS else width(dtype, 3)
    case.random("table", VOCABULARY - 11, columns, dtype=dtype)

    def build(b: PlanBuilder) -> Tensor:
        return b.concat(case.input(b, "x"), b.table_rows(b.table("table"), "rows"), "y")

    case.build = build
    check(case, isa, 1e-6)


@EVERY_ISA
@pytest.mark.parametrize("dtype", FLOATS + BLOCKS + TILES)
def test_position_rows(isa: str, dtype: str) -> None:
    """Steps begin at 0 and at 41: of 50 rows, the last is read again by positions beyond it."""
    blocks = (1, 3)
    for columns in (1, 13, 127) if dtype in FLOATS else (width(dtype, n) for n in blocks):
        case = OneOp()
        case.inputs(3, "x")
        case.random("positions", 50, columns, dtype=dtype)
        case.build = partial(_beside_positions, case)
        check(case, isa, 1e-6)


def _beside_types(case: OneOp, b: PlanBuilder) -> Tensor:
    return b.concat(case.input(b, "x"), b.type_rows(b.weight("types"), "rows", separator=2), "y")


@EVERY_ISA
@pytest.mark.parametrize(("rows", "dtype"), [(1, "f32"), (2, "f16"), (3, "int8")])
def test_type_rows(isa: str, rows: int, dtype: str) -> None:
    case = OneOp()
    case.inputs(3, "x")
    case.random("types", rows, 64, dtype=dtype)
    case.build = partial(_beside_types, case)
    check(case, isa, 1e-6)


def _beside_positions(case: OneOp, b: PlanBuilder) -> Tensor:
    rows = b.position_rows(b.weight("positions"), "rows")
    return b.concat(case.input(b, "x"), rows, "y")
