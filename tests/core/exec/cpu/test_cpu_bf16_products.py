"""Products of floats as BF16 digits by AMX's tile registers: as exact as sums of float32 are.

The registers are emulated or real. What is emulated is what TDPBF16PS is documented to do: it takes
subnormal numbers for 0, so what lies there must be multiplied in another way.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from llm_lite_kernels import _cpp
from numpy.typing import NDArray

from llm_lite.core.exec.cpu.executor import CpuExecutor
from llm_lite.core.exec.numpy_executor import NumpyExecutor
from llm_lite.core.plan.builder import Bucket, PlanBuilder
from llm_lite.core.plan.plan import Program
from llm_lite.core.plan.step import PAGE, PageShape, Segment, Step, chat_pages
from llm_lite.core.processor import available_isas, cpu_features, emulated_isas
from llm_lite.core.quant.tensor import TensorData
from llm_lite.core.records import replace
from tests.core.exec.cpu.test_cpu_shared import PAGES, Tiny, alone, together
from tests.core.exec.one_op import CONTEXT, FLOATS, VOCABULARY, OneOp, check, weight
from tests.pairs import each_pair

BASE = "avx512vnni"
BUILDS = [isa for isa in (*emulated_isas(), *available_isas()) if isa.startswith("amxbf16")]
# Less than a register, one, one and a rest, two, and more with a rest
TOKENS = (15, 16, 17, 32, 33, 75)
MANY = max(TOKENS)
UNIT = 2.0**-24  # what rounding to float32 changes, of a value
PANEL = 32  # rows of weights

pytestmark = pytest.mark.skipif(not BUILDS, reason="no such build runs on this processor")
every_float = pytest.mark.parametrize("dtype", FLOATS)
every_build = pytest.mark.parametrize("isa", BUILDS)


def assert_same(found: NDArray[np.float32], expected: NDArray[np.float32]) -> None:
    np.testing.assert_array_equal(found, expected)


def product(
    case: OneOp, isa: str, counts: tuple[int, ...] = TOKENS, cut: tuple[int, int] | None = None
) -> list[NDArray[np.float32]]:
    """x . w^T of the first tokens, for each count of them."""
    builder = PlanBuilder(case.weights, Bucket(MANY, MANY), integer_activations=False)
    x = builder.embed(builder.weight("x"), "x.rows")
    y = builder.matmul(x, builder.weight("w"), "y", cut=cut)
    program = Program((builder.finish(builder.output_rows(y, "rows")),), CONTEXT, MANY)
    cpu = CpuExecutor(program, case.weights, 2, isa=isa)
    found = [cpu.run(Step(np.arange(n, dtype=np.int32), 0, n)) for n in counts]
    cpu.close()
    return found


def case_of(dtype: str, columns: int, rows: int, seed: int = 0) -> OneOp:
    case = OneOp(seed)
    case.random("x", MANY, columns)
    case.random("w", rows, columns, dtype=dtype)
    return case


def values(tensor: TensorData) -> NDArray[np.float64]:
    return tensor.dequantize().astype(np.float64)


def assert_exact(case: OneOp, found: NDArray[np.float32], units: float) -> None:
    """Errors in units of rounding, of the sum of all products without their signs."""
    x, w = values(case.weights["x"])[: len(found)], values(case.weights["w"])
    assert (np.abs(found - x @ w.T) <= units * UNIT * (np.abs(x) @ np.abs(w).T)).all()


@pytest.mark.skipif("scalar" not in _cpp.available_isas(), reason="not all builds are compiled")
def test_tiles_of_bytes_alone_give_the_build_below() -> None:
    has, builds = cpu_features(), _cpp.available_isas()
    tiles = has["amxtile"] and has["amxint8"] and BASE in builds
    assert ("amx" in builds) == tiles
    assert ("amxbf16" in builds) == (tiles and has["amxbf16"])


@each_pair(
    "isa, dtype, columns, rows", BUILDS, FLOATS, (1, 13, 33, 512, 1100), (1, 13, 32, 33, 127)
)
def test_products_are_as_exact_as_sums_of_floats(
    isa: str, dtype: str, columns: int, rows: int
) -> None:
    """Of float32, the products of last digits that are left out are two units, where a product is
    all that there is; and each of some sums rounds."""
    case = case_of(dtype, columns, rows)
    for found in product(case, isa):
        assert_exact(case, found, 5 if dtype == "f32" else 4)


@each_pair("isa, dtype, rows", BUILDS, FLOATS, (13, 127))
def test_products_are_those_of_the_definition(isa: str, dtype: str, rows: int) -> None:
    case = OneOp()
    case.inputs(130, "x")
    case.random("w", rows, 130, dtype=dtype)
    case.build = lambda b: b.matmul(case.input(b, "x"), b.weight("w"), "y")
    check(case, isa, 2e-6)


@every_float
@every_build
def test_each_product_keeps_the_last_bits_of_both(isa: str, dtype: str) -> None:
    """A column alone: no other product hides what a digit that is left out would change."""
    case = case_of(dtype, 40, 64)
    for name in "xw":
        own = np.asarray(case.weights[name].dequantize())
        alone_there = np.where(np.arange(40) == 37, own, 0)
        case.weights[name] = weight(name, case.weights[name].dtype, alone_there)
    (found,) = product(case, isa, (MANY,))
    assert_exact(case, found, {"bf16": 2, "f16": 3, "f32": 4}[dtype])


@every_float
@every_build
def test_products_with_one_hot_rows_are_the_weights(isa: str, dtype: str) -> None:
    """Digits of weights add up to them, bit for bit."""
    case = case_of(dtype, 600, 70)
    case.weights["x"] = weight("x", "f32", np.eye(MANY, 600, 520, np.float32))
    (found,) = product(case, isa, (MANY,))
    assert_same(found, case.weights["w"].dequantize()[:, 520 : 520 + MANY].T)


@every_float
@every_build
def test_products_of_first_rows_and_columns(isa: str, dtype: str) -> None:
    case = case_of(dtype, 70, 127)
    case.random("x", MANY, 45)
    cut = product(case, isa, cut=(41, 45))
    case.weights["w"] = weight("w", dtype, values(case.weights["w"])[:41, :45])
    for found, expected in zip(cut, product(case, isa), strict=True):
        assert_same(found, expected)


BITS = {"bf16": np.uint16, "f16": np.uint16, "f32": np.uint32}
BAD = {  # the bits of a value
    "infinite": {"bf16": 0x7F80, "f16": 0x7C00, "f32": 0x7F800000},
    "minus infinite": {"bf16": 0xFF80, "f16": 0xFC00, "f32": 0xFF800000},
    "no number": {"bf16": 0x7FC0, "f16": 0x7E00, "f32": 0x7FC00000},
    "no number, all bits": {"bf16": 0x7FFF, "f16": 0x7FFF, "f32": 0x7FFFFFFF},
    "no number, one bit": {"bf16": 0xFF81, "f16": 0xFC01, "f32": 0xFF800001},
    "huge": {"bf16": 0x7F7F, "f16": 0x7BFF, "f32": 0x7F7FFFFF},
}
SIZES = {"tiny": 1e-30, "subnormal": 1e-40, "large": 1e30}


def put(case: OneOp, name: str, bits: int, *places: tuple[int, int]) -> None:
    tensor = case.weights[name]
    data = np.array(tensor.data)
    for place in places:
        data.view(BITS[tensor.dtype]).reshape(tensor.shape)[place] = bits
    case.weights[name] = replace(tensor, data=data)


def rows_apart(case: OneOp, isa: str, bad: list[int]) -> None:
    """Of tokens `bad` the bits of the build that multiplies floats; of others what they were."""
    (found,), (expected,) = product(case, isa, (MANY,)), product(case, BASE, (MANY,))
    assert_same(found[bad], expected[bad])
    x = np.array(case.weights["x"].dequantize())
    x[bad] = 0
    case.weights["x"] = weight("x", "f32", x)
    (others,) = product(case, isa, (MANY,))
    good = np.setdiff1d(np.arange(MANY), bad)
    assert_same(found[good], others[good])


@each_pair("isa, dtype, bad", BUILDS, FLOATS, tuple(BAD))
def test_tokens_that_are_no_numbers_are_as_in_other_builds(isa: str, dtype: str, bad: str) -> None:
    case = case_of(dtype, 1100, 40)
    put(case, "x", BAD[bad]["f32"], (3, 1090), (20, 5))
    rows_apart(case, isa, [3, 20])


@each_pair("isa, dtype, size", BUILDS, FLOATS, tuple(SIZES))
def test_tokens_of_any_size_are_as_in_other_builds(isa: str, dtype: str, size: str) -> None:
    case = case_of(dtype, 60, 40)
    x = np.array(case.weights["x"].dequantize())
    x[[0, 40]] *= SIZES[size]
    case.weights["x"] = weight("x", "f32", x)
    rows_apart(case, isa, [0, 40])


@every_float
@every_build
def test_values_that_are_next_to_nothing_beside_others(isa: str, dtype: str) -> None:
    """Frequent behind a SiLU: their lower digits are subnormal, or they are."""
    case = case_of(dtype, 64, 40)
    x = np.array(case.weights["x"].dequantize())
    x[:, ::2] *= np.float32(1e-37)
    x[:, 1::8] *= np.float32(1e-42)
    case.weights["x"] = weight("x", "f32", x)
    for found in product(case, isa):
        assert_exact(case, found, 4)


@each_pair("isa, dtype, bad", BUILDS, FLOATS, tuple(BAD))
def test_weights_that_are_no_numbers_are_as_in_other_builds(isa: str, dtype: str, bad: str) -> None:
    case = case_of(dtype, 530, 100)
    (before,) = product(case, isa, (MANY,))
    put(case, "w", BAD[bad][dtype], (35, 7), (35, 521))
    (found,), (expected,) = product(case, isa, (MANY,)), product(case, BASE, (MANY,))
    others = np.r_[:PANEL, 2 * PANEL : 100]
    assert_same(found[:, others], before[:, others])
    if (dtype, bad) == ("f16", "huge"):  # none is too large for digits
        assert_exact(case, found, 10)
    else:
        assert_same(found[:, PANEL : 2 * PANEL], expected[:, PANEL : 2 * PANEL])


@pytest.mark.parametrize("size", [1e-39, 1e-30, 1e30])
@pytest.mark.parametrize("dtype", ["bf16", "f32"])
@every_build
def test_weights_of_any_size_are_as_in_other_builds(isa: str, dtype: str, size: float) -> None:
    case = case_of(dtype, 64, 70)
    rows = values(case.weights["w"])
    rows[33] *= size
    case.weights["w"] = weight("w", dtype, rows)
    (found,), (expected,) = product(case, isa, (MANY,)), product(case, BASE, (MANY,))
    assert np.abs(expected[:, 33]).max() > 0
    assert_same(found[:, PANEL : 2 * PANEL], expected[:, PANEL : 2 * PANEL])


@every_float
@every_build
def test_products_of_drafts_have_the_bits_of_one_token(isa: str, dtype: str) -> None:
    """Of tokens that are segments each, and fill a register."""
    case = OneOp()
    case.inputs(96, "x")
    case.random("w", 127, 96, dtype=dtype)
    plans = []
    for bucket in (Bucket(1, 1), Bucket(32, 32)):
        builder = PlanBuilder(case.weights, bucket, integer_activations=False)
        x = builder.embed(builder.weight("x"), "x.rows")
        y = builder.matmul(x, builder.weight("w"), "y")
        plans.append(builder.finish(builder.output_rows(y, "rows")))
    program = Program(tuple(plans), CONTEXT, VOCABULARY, chat_pages(CONTEXT, 32, segments=32))
    cpu = CpuExecutor(program, case.weights, 2, isa=isa)
    table = np.arange(program.pages.table, dtype=np.int32)
    for count in (16, 32):
        ids = np.arange(count, dtype=np.int32) % VOCABULARY
        parts = tuple(Segment(i, 1, 1, table) for i in range(count))
        found = cpu.run(Step(ids, 0, count, parts))
        singles = [Step(ids[i : i + 1], 0, 1, parts[i : i + 1]) for i in range(count)]
        expected = np.concatenate([cpu.run(single) for single in singles])
        assert_same(found, expected)
    cpu.close()


@every_float
@every_build
def test_a_sequence_gets_the_same_bits_alone_and_together(
    tmp_path: Path, isa: str, dtype: str
) -> None:
    file = Tiny(tmp_path, dtype, width=64, ffn=96, heads=4, kv_heads=2, layers=1)
    executor = CpuExecutor(file.program(kv="f16"), file.tensors, 2, isa=isa)
    expected = alone(executor, 5)
    for i, rows in together(executor, 5, 1).items():
        assert_same(rows, expected[i])
    executor.close()


@every_build
def test_integers_have_the_bits_of_the_build_below(isa: str) -> None:
    case = OneOp()
    case.inputs(96, "x")
    case.random("w", 47, 96, dtype="int8")
    case.build = lambda b: b.matmul(case.input(b, "x"), b.weight("w"), "y")
    program = case.program(a8=True, outputs=17)
    step = Step(np.arange(17, dtype=np.int32), 0, 17)
    found, expected = (CpuExecutor(program, case.weights, 2, isa=i).run(step) for i in (isa, BASE))
    assert_same(found, expected)


@pytest.mark.parametrize("shared", [False, True])
@every_float
@every_build
def test_products_of_one_input_and_then_of_another(isa: str, dtype: str, shared: bool) -> None:
    """What a worker keeps of an input is for its phase only, and beside what others keep of it."""
    case = OneOp()
    case.random("x", MANY, 640)  # digits of which are more than the floats before those of int4
    case.random("other", MANY, 640)
    for name, form in (("a", dtype), ("b", "int4"), ("c", dtype), ("d", dtype)):
        case.random(name, 127, 640, dtype=form)
    builder = PlanBuilder(case.weights, Bucket(33, 33), integer_activations=False)
    x, other = case.input(builder, "x"), case.input(builder, "other")
    total, *others = [
        builder.matmul(values, builder.weight(name), f"{name}.y")
        for name, values in {"a": x, "b": x, "c": x, "d": other}.items()
    ]
    for y in others:
        total = builder.add(total, y, f"{y.name}.sum")
    plan = builder.finish(builder.output_rows(total, "rows"))
    program = Program((plan,), PAGES.context, MANY, PAGES if shared else None)
    cpu = CpuExecutor(program, case.weights, 1, isa=isa)
    for first in (0, 7):
        ids = np.arange(first, first + 33, dtype=np.int32)
        part = Segment(0, 33, 33, np.arange(1, dtype=np.int32))
        step = Step(ids, 0, 33, (part,) if shared else ())
        expected = NumpyExecutor(program, case.weights).run(step)
        np.testing.assert_allclose(cpu.run(step), expected, atol=3e-6 * np.abs(expected).max())
    cpu.close()


@every_build
def test_what_others_left_in_scratch_is_not_taken_for_digits(isa: str) -> None:
    """Digits of int4's activations lie where those of another product's are looked for; numbers
    among them say by chance how often that had changed, so that old ones seem to be right."""
    first, *others = (_beside_a_wide_product(isa, number) for number in range(20))
    for found in others:
        assert_same(found, first)


def _beside_a_wide_product(isa: str, number: int) -> NDArray[np.float32]:
    """x . w^T of a shared step, behind a product whose first token has the number as a digit."""
    case, most = OneOp(), 16
    case.random("x", most, 32)
    case.random("w", 32, 32, dtype="f16")
    case.random("wide.w", 32, 256, dtype="int4")
    wide = np.zeros((most, 256))
    wide[0, [64, 90]] = number, 2.0**21  # of a block; the larger one has 22 bits
    case.weights["wide.x"] = weight("wide.x", "f32", wide)
    builder = PlanBuilder(case.weights, Bucket(most, most), integer_activations=False)
    given = [builder.embed(builder.weight(name), f"{name}.rows") for name in ("wide.x", "x")]
    before = builder.matmul(given[0], builder.weight("wide.w"), "before")
    y = builder.matmul(given[1], builder.weight("w"), "y")
    plan = builder.finish(builder.output_rows(builder.add(before, y, "sum"), "rows"))
    program = Program((plan,), PAGE, most, PageShape(pages=1, segments=1, context=PAGE))
    cpu = CpuExecutor(program, case.weights, 1, isa=isa)
    whole = Segment(0, most, most, np.zeros(1, np.int32))
    step = Step(np.arange(most, dtype=np.int32), 0, most, (whole,))
    products = [i for i, op in enumerate(plan.ops) if op.name == "matmul"]
    cpu.run_ops(plan, step, 0, products[-1] + 1)
    found = cpu.read(plan, plan.tensors[plan.ops[products[-1]].outputs[0]], step).copy()
    cpu.close()
    return found
