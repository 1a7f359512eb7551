"""Every op of the C++ executor against NumPy, at awkward sizes, in every build of the kernels."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product

import numpy as np
import pytest
from numpy.typing import NDArray

from core.exec.cpu import CpuExecutor, available_isas
from core.exec.reference import NumpyExecutor
from core.formats.tensor import TensorData
from core.plan.builder import Bucket, PlanBuilder
from core.plan.plan import Kind, Program, Tensor
from core.plan.step import Step
from core.quant.registry import FORMATS

TOKENS = (1, 2, 3, 5, 17)
CONTEXT = 200
VOCABULARY = 40
FLOATS = ("f32", "f16", "bf16")
BLOCKS = ("q4_0", "q4_1", "q8_0")
TILES = ("int4", "int8")

Weights = dict[str, TensorData]


def weight(name: str, dtype: str, values: NDArray[np.floating]) -> TensorData:
    data = FORMATS[dtype].quantize(np.asarray(values, np.float32))
    return TensorData(name, dtype, values.shape, data)


class OneOp:
    """A plan of embeddings, which supply any inputs, and the op under test."""

    def __init__(self, seed: int = 0) -> None:
        self.rng = np.random.default_rng(seed)
        self.weights: Weights = {}
        self.build: Callable[[PlanBuilder], Tensor] = lambda b: self.input(b, "x")

    def random(self, name: str, *shape: int, dtype: str = "f32", scale: float = 1.0) -> None:
        self.weights[name] = weight(name, dtype, self.rng.normal(0, scale, shape))

    def inputs(self, columns: int, *names: str, scale: float = 1.0) -> None:
        for name in names:
            self.random(name, VOCABULARY, columns, scale=scale)

    @staticmethod
    def input(b: PlanBuilder, name: str) -> Tensor:
        return b.embed(b.weight(name), f"{name}.rows")

    def program(self, *, a8: bool = False, outputs: int = 1) -> Program:
        buckets = [Bucket(1, 1), Bucket(max(TOKENS), outputs)]
        plans = []
        for bucket in buckets:
            builder = PlanBuilder(self.weights, bucket, integer_activations=a8)
            plans.append(builder.finish(self.build(builder)))
        return Program(tuple(plans), CONTEXT, VOCABULARY)


def max_error(
    program: Program, weights: Weights, step: Step, cpu: CpuExecutor, reference: NumpyExecutor
) -> float:
    """Op by op, relative to the larger of 1 and the largest value; NaN counts as infinite."""
    plan = program.plan_for(step.count, step.outputs)
    worst = 0.0
    for index, op in enumerate(plan.ops):
        reference.run_ops(plan, step, index, index + 1)
        cpu.run_ops(plan, step, index, index + 1)
        for output in (plan.tensors[i] for i in op.outputs):
            expected = reference.read(plan, output, step)
            found = cpu.read(plan, output, step)
            assert found.shape == expected.shape
            scale = max(1.0, float(np.abs(expected).max()))
            error = np.nan_to_num(np.abs(found - expected) / scale, nan=np.inf)
            worst = max(worst, float(error.max()))
            if output.dtype != "a8":
                cpu.write(plan, output, step, expected)
    return worst


def steps(rng: np.random.Generator, starts: tuple[int, ...] = (0,)) -> Iterator[Step]:
    for tokens, start in product(TOKENS, starts):
        yield Step(rng.integers(0, VOCABULARY, tokens).astype(np.int32), start)


def check(case: OneOp, isa: str, tolerance: float, *, a8: bool = False, threads: int = 2) -> None:
    program = case.program(a8=a8)
    cpu = CpuExecutor(program, case.weights, threads, isa=isa)
    reference = NumpyExecutor(program, case.weights)
    for step in steps(case.rng, (0, 41)):
        error = max_error(program, case.weights, step, cpu, reference)
        assert error <= tolerance, f"{step.count} tokens at {step.start}: {error:.3g}"
    cpu.close()


@pytest.fixture(params=available_isas())
def isa(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.mark.parametrize("dtype", FLOATS + BLOCKS + TILES)
def test_embed(isa: str, dtype: str) -> None:
    for columns in (1, 13, 521) if dtype in FLOATS else (32, 96, 640):
        case = OneOp()
        case.random("x", VOCABULARY, columns, dtype=dtype)
        check(case, isa, 1e-6)


@pytest.mark.parametrize("columns", [1, 13, 127, 576])
def test_rms_norm(isa: str, columns: int) -> None:
    case = OneOp()
    case.inputs(columns, "x", scale=100)
    case.random("w", columns)
    case.build = lambda b: b.rms_norm(case.input(b, "x"), b.weight("w"), 1e-5, "y")
    check(case, isa, 5e-6)


@pytest.mark.parametrize("rows", [1, 13, 127])
@pytest.mark.parametrize("columns", [1, 13, 127])
@pytest.mark.parametrize("dtype", FLOATS)
def test_matmul_of_floats(isa: str, dtype: str, columns: int, rows: int) -> None:
    case = OneOp()
    case.inputs(columns, "x")
    case.random("w", rows, columns, dtype=dtype)
    case.build = lambda b: b.matmul(case.input(b, "x"), b.weight("w"), "y")
    check(case, isa, 5e-6)


@pytest.mark.parametrize("a8", [False, True], ids=["a32", "a8"])
@pytest.mark.parametrize("columns", [32, 96, 1056])
@pytest.mark.parametrize("dtype", BLOCKS + TILES)
def test_matmul_of_blocks(isa: str, dtype: str, columns: int, a8: bool) -> None:
    for rows in (1, 13, 127):
        case = OneOp()
        case.inputs(columns, "x")
        case.random("w", rows, columns, dtype=dtype)
        case.build = lambda b, c=case: b.matmul(c.input(b, "x"), b.weight("w"), "y")
        check(case, isa, 5e-5, a8=a8)  # minima and levels may cancel


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


@pytest.mark.parametrize("tokens", [1, 2, 3, 5, 13])
@pytest.mark.parametrize("dtype", FLOATS + BLOCKS + TILES)
def test_products_with_one_hot_rows_are_the_weights(isa: str, dtype: str, tokens: int) -> None:
    """Every path decodes alike: 1 times a weight is that weight, bit for bit."""
    case = OneOp()
    case.weights["x"] = weight("x", "f32", np.eye(VOCABULARY, 576, 530, np.float32))
    case.random("w", 37, 576, dtype=dtype)
    case.build = lambda b: b.matmul(case.input(b, "x"), b.weight("w"), "y")
    program = case.program(outputs=17)
    cpu = CpuExecutor(program, case.weights, isa=isa)
    step = Step(np.arange(tokens, dtype=np.int32), 0, tokens)
    expected = case.weights["w"].dequantize()[:, 530 : 530 + tokens].T
    found = cpu.run(step)
    if dtype == "q4_1" and tokens < 3:  # d * level and m are added in another order
        np.testing.assert_allclose(found, expected, atol=1e-6)
    else:
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("size", [1e-25, 1.0, 1e30])
@pytest.mark.parametrize("dtype", TILES)
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


def extreme_inputs() -> TensorData:
    """Rows whose int8 and zero points are at either end: all high, all low, and 31 against 1."""
    values = np.full((VOCABULARY, 64), 127.0)
    values[1::4] *= -1
    values[2::4, ::32] = -127
    values[3::4, 1::32] = -127
    values[3::4] *= -1
    return weight("x", "f32", values)


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


@pytest.mark.parametrize("a8", [False, True], ids=["a32", "a8"])
@pytest.mark.parametrize("dtype", BLOCKS)
def test_matmul_of_extreme_levels(isa: str, dtype: str, a8: bool) -> None:
    """The largest levels everywhere, -128 too, which our own quantizer never writes."""
    case = OneOp()
    case.weights["x"] = extreme_inputs()
    bytes_ = FORMATS[dtype].block_bytes
    for name, fill in (("high", {"q8_0": 0x7F}.get(dtype, 0xFF)), ("low", 0x80)):
        blocks = np.full((19, 2, bytes_), fill, np.uint8)
        halves = 2 if dtype == "q4_1" else 1
        blocks[:, :, : 2 * halves] = np.array([1.0] * halves, np.float16).view(np.uint8)
        case.weights[name] = TensorData(name, dtype, (19, 64), blocks.reshape(-1))

    def build(b: PlanBuilder) -> Tensor:
        x = case.input(b, "x")
        return b.add(b.matmul(x, b.weight("high"), "y"), b.matmul(x, b.weight("low"), "z"), "sum")

    case.build = build
    check(case, isa, 1e-6, a8=a8)


def quantize_case(values: NDArray[np.float32]) -> OneOp:
    case = OneOp()
    case.weights["x"] = weight("x", "f32", values)
    case.random("w", 1, values.shape[1], dtype="q8_0")
    case.build = lambda b: b.matmul(case.input(b, "x"), b.weight("w"), "y")
    return case


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


@pytest.mark.parametrize("half_split", [False, True])
@pytest.mark.parametrize(("head_dim", "rotary_dim"), [(2, 2), (14, 14), (200, 200), (26, 10)])
def test_rope(isa: str, head_dim: int, rotary_dim: int, half_split: bool) -> None:
    case = OneOp()
    case.inputs(3 * head_dim, "x")
    case.weights["factors"] = weight("factors", "f32", 1 + np.arange(rotary_dim // 2) / 7)

    def build(b: PlanBuilder) -> Tensor:
        sizes = {"head_dim": head_dim, "rotary_dim": rotary_dim, "half_split": half_split}
        x = b.rope(case.input(b, "x"), "plain", theta=1e4, **sizes)
        return b.rope(x, "y", theta=1e6, scale=0.25, factors=b.weight("factors"), **sizes)

    case.build = build
    check(case, isa, 1e-6)


HEADS = [(1, 1, 1), (4, 2, 13), (9, 3, 64), (2, 1, 127), (8, 8, 64), (32, 4, 8), (36, 4, 6)]
CACHES = [("f16", "f16"), ("f32", "f32"), ("i8", "i8"), ("f16", "i8"), ("i8", "f32")]


@pytest.mark.parametrize("cache", CACHES, ids="-".join)
@pytest.mark.parametrize(("heads", "kv_heads", "head_dim"), HEADS)
@pytest.mark.parametrize(("window", "ring"), [(0, CONTEXT), (7, CONTEXT), (70, CONTEXT), (70, 89)])
def test_attention(
    isa: str,
    heads: int,
    kv_heads: int,
    head_dim: int,
    window: int,
    ring: int,
    cache: tuple[str, str],
) -> None:
    """With store: steps at 0.. fill the cache, those at 41.. and 150.. look far back."""
    case = OneOp()
    case.inputs(heads * head_dim, "q", scale=2)
    case.inputs(kv_heads * head_dim, "k", "v")

    def build(b: PlanBuilder) -> Tensor:
        q, k, v = (case.input(b, name) for name in "qkv")
        shape = (ring, kv_heads * head_dim)
        caches = [
            b.state(name, dtype, shape, block=head_dim)
            for name, dtype in zip(("k_cache", "v_cache"), cache, strict=True)
        ]
        queries = b.state("ring", "f16", (19, heads * head_dim))
        b.store([(k, caches[0]), (v, caches[1]), (q, queries)], "store")
        sizes = {"heads": heads, "kv_heads": kv_heads, "head_dim": head_dim}
        gains = b.state("gains", "f32", (3, heads), fill=0.5)
        return b.attention(q, *caches, gains, "y", layer=1, window=window, **sizes)

    case.build = build
    if "i8" in cache and head_dim % 4:
        with pytest.raises(ValueError, match="blocks of"):
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


@pytest.mark.parametrize("columns", [1, 13, 127, 1536])
def test_silu_mul_and_add(isa: str, columns: int) -> None:
    case = OneOp()
    case.inputs(columns, "a", "b", scale=10)
    case.weights["a"].data.view(np.float32)[:6] = [0, 88, -88, 200, -200, -1e-30][
        : min(6, VOCABULARY * columns)
    ]

    def build(b: PlanBuilder) -> Tensor:
        x, y = case.input(b, "a"), case.input(b, "b")
        return b.add(b.silu_mul(x, y, "silu"), y, "sum")

    case.build = build
    check(case, isa, 1e-6)


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


@pytest.mark.parametrize("columns", [13, 700])
@pytest.mark.parametrize("outputs", [0, 1, 3, 17])
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


COLUMNWISE: dict[str, Callable[[PlanBuilder, Tensor, Tensor], Tensor]] = {
    "gelu_mul": lambda b, x, y: b.gelu_mul(x, y, "out"),
    "scale": lambda b, x, y: b.scale(x, "out", factor=0.3),
    "weighted scale": lambda b, x, y: b.scale(x, "out", factor=0.3, weight=b.weight("w")),
    "softcap": lambda b, x, y: b.softcap(x, "out", scale=0.1, cap=30.0),
    "sparsify": lambda b, x, y: b.sparsify(y, "out", deviations=0.7),
    "sparsify below the mean": lambda b, x, y: b.sparsify(x, "out", deviations=-0.5),
    "match_rms": lambda b, x, y: b.match_rms(y, x, 1e-5, "out"),
    "match_rms of little": lambda b, x, y: b.match_rms(
        b.scale(y, "little", factor=1e-8), x, 1e-5, "out"
    ),
    "concat": lambda b, x, y: b.concat(x, b.concat(y, x, "inner"), "out"),
    "first column": lambda b, x, y: b.columns(x, "out", first=0, count=1),
    "last columns": lambda b, x, y: b.columns(
        x, "out", first=x.shape[1] // 2, count=x.shape[1] - x.shape[1] // 2
    ),
    "add_streams": lambda b, x, y: b.add_streams(b.concat(x, y, "both"), x, "out", first=1),
    "altup_correct": lambda b, x, y: b.altup_correct(
        b.concat(x, y, "both"),
        y,
        b.columns(b.concat(x, y, "c"), "two", first=0, count=2),
        "out",
        active=1,
    ),
}


@pytest.mark.parametrize("columns", [1, 13, 127, 600])
@pytest.mark.parametrize("op", COLUMNWISE)
def test_columnwise(isa: str, op: str, columns: int) -> None:
    check(pair_case(columns, COLUMNWISE[op]), isa, 5e-6)


@pytest.mark.parametrize("width", [1, 13, 127])
@pytest.mark.parametrize("streams", [1, 2, 3, 4])
def test_altup_predict(isa: str, streams: int, width: int) -> None:
    case = OneOp()
    case.inputs(streams * width, "x")
    case.inputs(streams**2, "coefs")
    case.build = lambda b: b.altup_predict(case.input(b, "x"), case.input(b, "coefs"), "y")
    check(case, isa, 5e-6)


@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize(("width", "groups"), [(1, 5), (13, 3), (64, 2), (127, 2)])
def test_rms_norm_of_groups(isa: str, width: int, groups: int, weighted: bool) -> None:
    case = OneOp()
    case.inputs(width * groups, "x", scale=100)
    case.random("w", width)
    case.build = lambda b: b.rms_norm(
        case.input(b, "x"), b.weight("w") if weighted else None, 1e-5, "y", width=width
    )
    check(case, isa, 5e-6)


@pytest.mark.parametrize("dtype", FLOATS + BLOCKS + TILES)
def test_table_rows(isa: str, dtype: str) -> None:
    """The table has fewer rows than there are tokens: those beyond it read row 0."""
    case = OneOp()
    case.inputs(3, "x")
    case.random("table", VOCABULARY - 11, 96, dtype=dtype)

    def build(b: PlanBuilder) -> Tensor:
        return b.concat(case.input(b, "x"), b.table_rows(b.table("table"), "rows"), "y")

    case.build = build
    check(case, isa, 1e-6)
