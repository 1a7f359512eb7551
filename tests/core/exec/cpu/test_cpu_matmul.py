"""Products of the C++ executor and what goes into them, at awkward sizes, in every build.

A kernel is a build, a format and a kind of activations: each is run. Sizes go around by pairs.
"""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from llm_lite.core.exec.cpu.executor import CpuExecutor
from llm_lite.core.exec.numpy_executor import NumpyExecutor
from llm_lite.core.models.description.slices import first_columns
from llm_lite.core.plan.builder import Bucket, PlanBuilder
from llm_lite.core.plan.plan import Program, Tensor
from llm_lite.core.plan.step import Step
from llm_lite.core.quant.registry import FORMATS
from llm_lite.core.quant.tensor import TensorData
from tests.core.exec.one_op import (
    BLOCKS,
    CONTEXT,
    EVERY_ISA,
    FLOATS,
    ISAS,
    TILES,
    VOCABULARY,
    OneOp,
    check,
    max_error,
    steps,
    weight,
)
from tests.pairs import each_pair
from tests.weight_blocks import layout, width

KINDS = [(dtype, a8) for dtype in BLOCKS + TILES for a8 in (False, True)]


@each_pair("isa, dtype, columns, rows", ISAS, FLOATS, (1, 13, 127), (1, 13, 127))
def test_matmul_of_floats(isa: str, dtype: str, columns: int, rows: int) -> None:
    case = OneOp()
    case.inputs(columns, "x")
    case.random("w", rows, columns, dtype=dtype)
    case.build = lambda b: b.matmul(case.input(b, "x"), b.weight("w"), "y")
    check(case, isa, 5e-6)


@each_pair("isa, dtype, columns, rows", ISAS, (*FLOATS, *TILES), (1, 13, 127), (1, 13, 127))
def test_matmul_in_an_encoder(isa: str, dtype: str, columns: int, rows: int) -> None:
    """Where attention is bidirectional, few and many tokens are multiplied in ways of their own."""
    columns = columns if dtype in FLOATS else width(dtype, columns)
    case = OneOp()
    case.inputs(columns, "x")
    case.random("w", rows, columns, dtype=dtype)

    def build(b: PlanBuilder) -> Tensor:
        x = case.input(b, "x")
        cache = b.state("cache", "f32", (CONTEXT, columns))
        b.store([(x, cache)], "store")
        sizes = {"layer": 0, "heads": 1, "kv_heads": 1, "head_dim": columns}
        gains = b.state("gains", "f32", (1, 1), fill=1.0)
        x = b.attention(x, cache, cache, gains, "heads", bidirectional=True, **sizes)
        return b.matmul(x, b.weight("w"), "y")

    builder = PlanBuilder(case.weights, Bucket(40, 1), integer_activations=False)
    program = Program((builder.finish(build(builder)),), CONTEXT, VOCABULARY)
    cpu = CpuExecutor(program, case.weights, 2, isa=isa)
    reference = NumpyExecutor(program, case.weights)
    for count in (1, 2, 3, 13, 31, 40):
        step = Step(case.rng.integers(0, VOCABULARY, count).astype(np.int32), 0)
        assert max_error(program, case.weights, step, cpu, reference) <= 5e-5
    cpu.close()


@each_pair("isa, kind, blocks, rows", ISAS, KINDS, (1, 3, 33), (1, 13, 127))
def test_matmul_of_blocks(isa: str, kind: tuple[str, bool], blocks: int, rows: int) -> None:
    dtype, a8 = kind
    columns = width(dtype, blocks)
    case = OneOp()
    case.inputs(columns, "x")
    case.random("w", rows, columns, dtype=dtype)
    case.build = lambda b: b.matmul(case.input(b, "x"), b.weight("w"), "y")
    check(case, isa, 5e-5, a8=a8)  # minima and levels may cancel


PARTS = ((1, 1), (13, 2), (33, 3), (127, 3))  # rows, and columns by blocks, of 127 and 5


@each_pair("isa, kind, part", ISAS, [*((name, False) for name in FLOATS), *KINDS], PARTS)
def test_matmul_of_first_rows_and_columns(
    isa: str, kind: tuple[str, bool], part: tuple[int, int]
) -> None:
    """Of a larger matrix: the bits of a matrix that has no others."""
    (dtype, a8), (rows, blocks) = kind, part
    columns = blocks * 13 if dtype in FLOATS else width(dtype, blocks)
    case = OneOp()
    case.inputs(columns, "x")
    whole = 5 * 13 if dtype in FLOATS else width(dtype, 5)
    case.random("w", 127, whole, dtype=dtype)
    case.build = lambda b: b.matmul(case.input(b, "x"), b.weight("w"), "y", cut=(rows, columns))
    check(case, isa, 5e-5, a8=a8)
    step = Step(case.rng.integers(0, VOCABULARY, 3).astype(np.int32), 0, 3)
    found = CpuExecutor(case.program(a8=a8, outputs=3), case.weights, 2, isa=isa).run(step)
    case.weights["w"] = first_columns(case.weights["w"], "w", columns).whole()
    case.build = lambda b: b.matmul(case.input(b, "x"), b.weight("w"), "y")
    expected = CpuExecutor(case.program(a8=a8, outputs=3), case.weights, 2, isa=isa).run(step)
    np.testing.assert_array_equal(found, expected[:, :rows])


@EVERY_ISA
@pytest.mark.parametrize("dtype", FLOATS + BLOCKS + TILES)
def test_products_with_one_hot_rows_are_the_weights(isa: str, dtype: str) -> None:
    """Every path decodes alike: 1 times a weight is that weight, bit for bit."""
    case = OneOp()
    case.weights["x"] = weight("x", "f32", np.eye(VOCABULARY, 768, 700, np.float32))
    case.random("w", 37, 768, dtype=dtype)
    case.build = lambda b: b.matmul(case.input(b, "x"), b.weight("w"), "y")
    program = case.program(outputs=17)
    cpu = CpuExecutor(program, case.weights, isa=isa)
    weights = case.weights["w"].dequantize()
    for tokens in (1, 2, 3, 5, 13):
        found = cpu.run(Step(np.arange(tokens, dtype=np.int32), 0, tokens))
        # d * level and m are added in another order for few tokens, and of super-blocks at once
        both = {"q4_1": 1e-6, "q5_1": 1e-6}.get(dtype, 0.0) if tokens < 3 else 0.0
        slack = 2e-6 if dtype in ("q2_k", "q4_k", "q5_k") else both
        expected = weights[:, 700 : 700 + tokens].T
        np.testing.assert_allclose(found, expected, rtol=0, atol=slack, err_msg=f"{tokens} tokens")


@each_pair("isa, dtype, size", ISAS, TILES, (1e-25, 1.0, 1e30))
def test_products_of_floats_of_any_size(isa: str, dtype: str, size: float) -> None:
    """As exact as sums of float32; what is no number stays none, in its own row."""
    rng = np.random.default_rng(1)
    x = (rng.normal(0, size, (VOCABULARY, 96)) ** 3 / size**2).astype(np.float32)
    case = OneOp()
    case.weights["x"] = weight("x", "f32", x)
    case.random("w", 37, 96, dtype=dtype)
    case.build = lambda b: b.matmul(case.input(b, "x"), b.weight("w"), "y")
    cpu = CpuExecutor(case.program(outputs=17), case.weights, isa=isa)
    levels = case.weights["w"].dequantize().astype(np.float64)
    found = cpu.run(Step(np.arange(2, dtype=np.int32), 0, 2))
    most = (np.abs(x[:2].astype(np.float64)) @ np.abs(levels).T).max()
    np.testing.assert_allclose(found, x[:2] @ levels.T, atol=1e-6 * most)
    for bad in (np.nan, np.inf, -np.inf):
        x[0, 50] = bad
        case.weights["x"] = weight("x", "f32", x)
        cpu = CpuExecutor(case.program(outputs=17), case.weights, isa=isa)
        again = cpu.run(Step(np.arange(2, dtype=np.int32), 0, 2))
        assert not np.isfinite(again[0]).any()
        np.testing.assert_array_equal(again[1], found[1])


@EVERY_ISA
@pytest.mark.parametrize("dtype", TILES)
def test_products_of_one_input_and_then_of_another(isa: str, dtype: str) -> None:
    """What workers keep of an input is for its phase only: two products share it, two do not."""
    case = OneOp()
    case.inputs(96, "x", "other")
    for name in ("a", "b", "c"):
        case.random(name, 127, 96, dtype=dtype)

    def build(b: PlanBuilder) -> Tensor:
        x, other = case.input(b, "x"), case.input(b, "other")
        both = b.add(b.matmul(x, b.weight("a"), "y"), b.matmul(x, b.weight("b"), "z"), "both")
        return b.add(both, b.matmul(other, b.weight("c"), "w"), "sum")

    case.build = build
    check(case, isa, 5e-5, a8=True)


@EVERY_ISA
def test_formats_that_keep_different_things_share_an_input(isa: str) -> None:
    """Pairs and offsets of half blocks are made for the first of a phase's products with a need."""
    case, formats = OneOp(), ("q4_0", "q6_k", "iq4_nl", "q2_k", "q8_0", "q3_k")
    case.inputs(256, "x")
    for dtype in formats:
        case.random(dtype, 33, 256, dtype=dtype, scale=0.1)

    def build(b: PlanBuilder) -> Tensor:
        x = case.input(b, "x")
        total, *others = (b.matmul(x, b.weight(dtype), f"y.{dtype}") for dtype in formats)
        for other in others:
            total = b.add(total, other, f"sum.{other.name}")
        return total

    case.build = build
    program = case.program(a8=True)
    cpu = CpuExecutor(program, case.weights, 2, isa=isa)
    reference = NumpyExecutor(program, case.weights)
    for step in steps(case.rng):
        plan = program.plan_for(step.count, step.outputs)
        for executor in (cpu, reference):
            executor.run_ops(plan, step, 0, len(plan.ops))
        found, expected = (e.read(plan, plan.tensors[plan.logits], step) for e in (cpu, reference))
        np.testing.assert_allclose(found, expected, rtol=0, atol=5e-5 * np.abs(expected).max())
    cpu.close()


def extreme_inputs(columns: int = 64) -> TensorData:
    """Rows whose int8 and zero points are at either end: all high, all low, and 31 against 1."""
    values = np.full((VOCABULARY, columns), 127.0)
    values[1::4] *= -1
    values[2::4, ::32] = -127
    values[3::4, 1::32] = -127
    values[3::4] *= -1
    return weight("x", "f32", values)


@EVERY_ISA
@pytest.mark.parametrize("a8", [False, True], ids=["a32", "a8"])
@pytest.mark.parametrize("dtype", TILES)
def test_matmul_of_extreme_tiles(isa: str, dtype: str, a8: bool) -> None:
    """The largest levels everywhere, and zero points beyond them."""
    case = OneOp()
    case.weights["x"] = extreme_inputs()
    form, shape = FORMATS[dtype], (19, 64)
    headers = {"int4": (0x7800, 0x783F), "int8": (0x3C00, 0x3C00)}[dtype]  # d = 1
    most = 0xFF if dtype == "int4" else 0x7F
    for name, header, fill in (("high", headers[0], most), ("low", headers[1], 0x80)):
        tiles = np.full((4, form.block_bytes * 16), fill, np.uint8)
        tiles[:, :32].view(np.uint16)[:] = header
        case.weights[name] = TensorData(name, dtype, shape, tiles.reshape(-1))

    def build(b: PlanBuilder) -> Tensor:
        x = case.input(b, "x")
        return b.add(b.matmul(x, b.weight("high"), "y"), b.matmul(x, b.weight("low"), "z"), "sum")

    case.build = build
    check(case, isa, 1e-6, a8=a8)


@EVERY_ISA
@pytest.mark.parametrize("a8", [False, True], ids=["a32", "a8"])
@pytest.mark.parametrize("dtype", BLOCKS)
def test_matmul_of_extreme_levels(isa: str, dtype: str, a8: bool) -> None:
    """The largest levels everywhere, -128 too, which our own quantizer never writes."""
    case = OneOp()
    columns = width(dtype, 2)
    case.weights["x"] = extreme_inputs(columns)
    for name, fill in (("high", {"q8_0": 0x7F}.get(dtype, 0xFF)), ("low", 0x80)):
        data = np.full(FORMATS[dtype].nbytes((19, columns)), fill, np.uint8)
        blocks = data.view(layout(dtype))
        for field in {"d", "m", "dmin", "e"} & set(blocks.dtype.names or ()):
            blocks[field] = 128 if field == "e" else 1
        case.weights[name] = TensorData(name, dtype, (19, columns), data)

    def build(b: PlanBuilder) -> Tensor:
        x = case.input(b, "x")
        return b.add(b.matmul(x, b.weight("high"), "y"), b.matmul(x, b.weight("low"), "z"), "sum")

    case.build = build
    check(case, isa, 1e-6 * columns / 64, a8=a8)  # the sums that cancel are as much larger


def quantize_case(values: NDArray[np.float32]) -> OneOp:
    case = OneOp()
    case.weights["x"] = weight("x", "f32", values)
    case.random("w", 1, values.shape[1], dtype="q8_0")
    case.build = lambda b: b.matmul(case.input(b, "x"), b.weight("w"), "y")
    return case


@EVERY_ISA
@pytest.mark.parametrize("columns", [32, 96, 1056])
def test_quantize_is_exactly_its_definition(isa: str, columns: int) -> None:
    rng = np.random.default_rng(0)
    values = rng.normal(0, 1, (VOCABULARY, columns)).astype(np.float32)
    values[:5] *= np.array([[1e-30], [1e30], [0], [1e-40], [127]], np.float32)
    values[5] = np.round(values[5] * 20) / 2  # many ties
    values[5, ::32] = 127
    values[6:9] += np.array([[5], [-5], [0]], np.float32)  # to one side of 0
    values[8, 0] = -3e38
    case = quantize_case(values)
    program = case.program(a8=True)
    cpu, reference = (
        CpuExecutor(program, case.weights, isa=isa),
        NumpyExecutor(program, case.weights),
    )
    for first in range(0, VOCABULARY, 17):
        step = Step(np.arange(first, min(first + 17, VOCABULARY), dtype=np.int32), 0)
        plan = program.plan_for(step.count, 1)
        tensor = next(t for t in plan.tensors if t.dtype == "a8")
        cpu.run_ops(plan, step, 0, 2)
        reference.run_ops(plan, step, 0, 2)
        np.testing.assert_array_equal(
            cpu.read(plan, tensor, step), reference.read(plan, tensor, step)
        )


@EVERY_ISA
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_value_that_is_no_number_stays_visible_in_int8(isa: str, bad: float) -> None:
    values = np.ones((VOCABULARY, 96), np.float32)
    values[:, 40] = bad
    case = quantize_case(values)
    program = case.program(a8=True)
    cpu = CpuExecutor(program, case.weights, isa=isa)
    for count in (1, 17):
        step = Step(np.zeros(count, np.int32), 0)
        assert not np.isfinite(cpu.run(step)).any()
