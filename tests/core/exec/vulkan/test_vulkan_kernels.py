"""Every op but attention on the software driver against NumPy, at awkward sizes, validated."""

import numpy as np
import pytest

from llm_lite.core.exec.compare import compare
from llm_lite.core.exec.numpy_executor import NumpyExecutor
from llm_lite.core.exec.op_cases import COLUMN_CASES
from llm_lite.core.exec.vulkan.tuning import Tuning, largest_matrix
from llm_lite.core.plan.step import Step
from llm_lite.core.quant.tensor import TensorData
from llm_lite.core.records import replace
from tests.core.exec.vulkan.vulkan_program import (
    BLOCKS,
    VECTORS,
    VOCABULARY,
    check,
    program,
    steps,
    weight,
)
from tests.pairs import tiered_pairs
from tests.weight_blocks import width

pytestmark = pytest.mark.vulkan


@pytest.mark.parametrize("columns", [1, 13, 127, 576])
@pytest.mark.parametrize("tokens", [1, 13])
def test_float_ops(make_vulkan, columns, tokens):
    tensors = [weight("table", (VOCABULARY, columns)), weight("norm", (columns,), seed=1)]

    def ops(b, x):
        y = b.rms_norm(x, b.weight("norm"), 1e-5, "normed")
        y = b.add(b.silu_mul(x, y, "silu"), x, "add")
        return b.output_rows(y, "rows")

    for outputs in {1, tokens}:
        built = program(tensors, ops, tokens=tokens, outputs=outputs)
        check(make_vulkan, built, steps(tokens, outputs), steps(max(1, tokens - 2), 1))


# The other ways to make a product: lanes that share K, tiles
LANES, TILES = (Tuning(matvec_tokens=tokens, subgroups=True) for tokens in (16, 0))
# As for hardware: lanes beside each other in tiles of weights, larger tiles of outputs
ROWS = Tuning(matvec_tokens=16, tile_lanes=16, subgroups=True)
LARGE = Tuning(matvec_tokens=0, tile=8)
WAYS = {
    **{f"vectors {count}": (count, VECTORS) for count in (1, 3, 13)},
    **{f"lanes {count}": (count, LANES) for count in (1, 13)},
    **{f"rows {count}": (count, ROWS) for count in (1, 13)},
    **{f"tiles {count}": (count, TILES) for count in (13, 45)},
    "large 45": (45, LARGE),
}
INTEGER_WAYS = {
    **{f"vectors {count}": (count, VECTORS) for count in (1, 13)},
    **{f"lanes {count}": (count, LANES) for count in (1, 13)},
    **{f"rows {count}": (count, ROWS) for count in (1, 13)},
    **{f"lanes {count} dot": (count, replace(LANES, integer_dot=True)) for count in (1, 3)},
    **{f"rows {count} dot": (count, replace(ROWS, integer_dot=True)) for count in (1, 3)},
    **{f"tiles {count}": (count, TILES) for count in (13, 45)},
    **{f"tiles {count} dot": (count, replace(TILES, integer_dot=True)) for count in (13, 45)},
    "large 60": (60, LARGE),
    "large 60 dot": (60, replace(LARGE, integer_dot=True)),
}


@tiered_pairs(
    "dtype, shape, way",
    ("f32", "f16", "bf16"),
    ((1, 1), (13, 127), (127, 13), (64, 37)),  # 64 and 32: whole words and vectors of them
    tuple(WAYS),
)
def test_embed_and_matmul_of_floats(make_vulkan, dtype, shape, way):
    check_product(make_vulkan, dtype, shape, way)


@tiered_pairs("dtype, shape, way", BLOCKS, ((1, 1), (3, 127)), tuple(WAYS))
def test_embed_and_matmul_of_blocks(make_vulkan, dtype, shape, way):
    blocks, rows = shape
    check_product(make_vulkan, dtype, (width(dtype, blocks), rows), way)


def check_product(make_vulkan, dtype, shape, way):
    (k, n), (tokens, how) = shape, WAYS[way]
    tensors = [weight("table", (VOCABULARY, k), dtype), weight("w", (n, k), dtype, 1, k**-0.5)]
    built = program(tensors, lambda b, x: b.matmul(x, b.weight("w"), "product"), tokens=tokens)
    model, weights = built
    reference = NumpyExecutor(model, weights)
    executor = make_vulkan(model, weights, tuning=how)
    for count in {tokens, max(1, tokens - 7)}:
        assert compare(reference, executor, steps(count)) is None


@tiered_pairs("dtype, way, blocks", BLOCKS, tuple(INTEGER_WAYS), (3, 33))
def test_matmul_of_int8_activations(make_vulkan, dtype, way, blocks):
    inputs = width(dtype, blocks)
    tokens, how = INTEGER_WAYS[way]
    tensors = [weight("table", (VOCABULARY, inputs)), weight("w", (127, inputs), dtype, 1, 0.1)]
    built = program(
        tensors, lambda b, x: b.matmul(x, b.weight("w"), "product"), tokens=tokens, integer=True
    )
    assert any(op.name == "quantize" for op in built[0].plans[0].ops)
    model, weights = built
    reference, executor = NumpyExecutor(model, weights), make_vulkan(model, weights, tuning=how)
    assert compare(reference, executor, steps(tokens)) is None


PARTS = {"f16": (13, 1), "int4": (37, 2), "q4_k": (127, 3)}


@pytest.mark.parametrize("way", ["vectors 1", "lanes 1", "rows 1", "tiles 13"])
@pytest.mark.parametrize(("dtype", "integer"), [("f16", False), ("int4", True), ("q4_k", False)])
def test_matmul_of_first_rows_and_columns(make_vulkan, dtype, way, integer):
    """Of a larger matrix, whose other columns lie between its rows."""
    (rows, blocks), (tokens, how) = PARTS[dtype], WAYS[way]
    columns, whole = width(dtype, blocks), width(dtype, 5)
    tensors = [weight("table", (VOCABULARY, columns)), weight("w", (127, whole), dtype, 1, 0.1)]
    built = program(
        tensors,
        lambda b, x: b.matmul(x, b.weight("w"), "product", cut=(rows, columns)),
        tokens=tokens,
        integer=integer,
    )
    model, weights = built
    reference, executor = NumpyExecutor(model, weights), make_vulkan(model, weights, tuning=how)
    assert compare(reference, executor, steps(tokens)) is None


@pytest.mark.parametrize("dtype", BLOCKS)
@pytest.mark.parametrize(("tokens", "size"), [(60, 1.0), (40, 1e6), (40, 1e-6)])
def test_matmul_by_cooperative_matrices(device, make_vulkan, dtype, tokens, size):
    """Their factors are halves: as exact as these, however large or small x is."""
    if not device.info.matrices:
        pytest.skip("the device has no cooperative matrices")
    inputs = width(dtype, 33)
    table = weight("table", (VOCABULARY, inputs), scale=size)
    tensors = [table, weight("w", (127, inputs), dtype, 1)]
    built = program(
        tensors,
        lambda b, x: b.output_rows(b.matmul(x, b.weight("w"), "y"), "rows"),
        tokens=tokens,
        outputs=tokens,
        integer=True,
    )
    model, weights = built
    side = largest_matrix(device.info)
    how = Tuning(matvec_tokens=0, matrix=side, subgroup_size=device.info.subgroup_size)
    found = make_vulkan(model, weights, tuning=how).run(steps(tokens, tokens))
    expected = NumpyExecutor(model, weights).run(steps(tokens, tokens))
    np.testing.assert_allclose(found, expected, atol=2**-9 * np.std(expected), rtol=0)


@pytest.mark.parametrize("value", [0.0, 1e-42, np.nan, np.inf])
def test_quantize_of_values_without_a_scale(make_vulkan, value):
    table = weight("table", (VOCABULARY, 64))
    values = table.dequantize()
    values[:, 5] = value
    if value == 0 or value == 1e-42:
        values[:, :32] = value
    table = TensorData("table", "f32", table.shape, values.reshape(-1).view(np.uint8))
    tensors = [table, weight("w", (5, 64), "q8_0", 1)]
    model, weights = program(
        tensors, lambda b, x: b.matmul(x, b.weight("w"), "product"), tokens=3, integer=True
    )
    reference, executor = NumpyExecutor(model, weights), make_vulkan(model, weights)
    plan, step = model.plans[0], steps(3)
    quantized = next(plan.tensors[op.outputs[0]] for op in plan.ops if op.name == "quantize")
    for each in (reference, executor):
        each.run_ops(plan, step, 0, 2)
    np.testing.assert_allclose(
        executor.read(plan, quantized, step), reference.read(plan, quantized, step), rtol=1e-2
    )


@tiered_pairs(
    "half_split, widths, start", (False, True), ((2, 2), (64, 64), (26, 12)), (0, 5, 100_003)
)
def test_rope(make_vulkan, half_split, widths, start):
    head_dim, rotary_dim = widths
    factors = weight("factors", (rotary_dim // 2,), seed=3)
    factors = TensorData(
        "factors", "f32", factors.shape, (np.abs(factors.dequantize()) + 0.5).view(np.uint8)
    )
    tensors = [weight("table", (VOCABULARY, 3 * head_dim)), factors]

    def ops(b, x):
        shape = {"head_dim": head_dim, "rotary_dim": rotary_dim, "half_split": half_split}
        x = b.rope(x, "plain", theta=1e4, **shape)
        x = b.rope(x, "grown", theta=1e4, temperature=0.3, temperature_length=3, **shape)
        return b.rope(x, "scaled", theta=5e5, scale=0.25, factors=b.weight("factors"), **shape)

    built = program(tensors, ops, tokens=13, outputs=13, context=1 << 20)
    check(make_vulkan, built, steps(13, 13, start))


@tiered_pairs("op, columns, tokens", tuple(COLUMN_CASES), (1, 13, 127, 576), (1, 13))
def test_columnwise_ops(make_vulkan, op, columns, tokens):
    tensors = [weight("table", (VOCABULARY, columns)), weight("w", (columns,), seed=1)]

    def ops(b, x):
        y = b.rms_norm(x, b.weight("w"), 1e-5, "normed")
        return COLUMN_CASES[op](b, b.scale(x, "scaled", factor=3.0), y)

    for subgroups in (True, False):
        built = program(tensors, ops, tokens=tokens)
        model, weights = built
        executor = make_vulkan(model, weights, tuning=Tuning(subgroups=subgroups))
        for count in {tokens, max(1, tokens - 2)}:
            assert compare(NumpyExecutor(model, weights), executor, steps(count)) is None


@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize(("width", "groups"), [(1, 5), (13, 3), (64, 2), (127, 2)])
def test_rms_norm_of_groups(make_vulkan, width, groups, weighted):
    tensors = [weight("table", (VOCABULARY, width * groups)), weight("norm", (width,), seed=1)]

    def ops(b, x):
        norm = b.weight("norm") if weighted else None
        return b.output_rows(b.rms_norm(x, norm, 1e-5, "normed", width=width), "last")

    check(make_vulkan, program(tensors, ops, tokens=13), steps(13), steps(5))


@pytest.mark.parametrize("large", [1e30, np.inf, np.nan])
@pytest.mark.parametrize("subgroups", [True, False])
def test_a_layer_norm_that_overflows_is_nan(make_vulkan, large, subgroups):
    table = weight("table", (VOCABULARY, 127))
    step = steps(5, 5)
    values = table.dequantize()
    values[step.tokens[3], 5] = large
    table = TensorData("table", "f32", table.shape, values.reshape(-1).view(np.uint8))
    w = weight("w", (127,), seed=1)

    def ops(b, x):
        y = b.layer_norm(x, b.weight("w"), b.weight("w"), 1e-5, "normed")
        return b.output_rows(y, "rows")

    model, weights = program([table, w], ops, tokens=5, outputs=5)
    found = make_vulkan(model, weights, tuning=Tuning(subgroups=subgroups)).run(step)
    wrong = step.tokens == step.tokens[3]
    assert np.isnan(found[wrong]).all() and np.isfinite(found[~wrong]).all() and not wrong.all()


@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16", *BLOCKS])
def test_table_rows(make_vulkan, dtype):
    """Only the rows of the step's tokens reach the device; tokens beyond the table read row 0."""
    columns = width(dtype, 3)
    disk = weight("disk", (VOCABULARY - 11, columns), dtype, 2)
    tensors = [weight("table", (VOCABULARY, 3)), disk]

    def ops(b, x):
        return b.output_rows(b.concat(x, b.table_rows(b.table("disk"), "rows"), "y"), "last")

    built = program(tensors, ops, tokens=13)
    check(make_vulkan, built, steps(13), steps(5), steps(1))
    assert make_vulkan(*built).weight_bytes < 4 * 32 * VOCABULARY + 1


@tiered_pairs("dtype, blocks, tokens", ("f32", "f16", "bf16", *BLOCKS), (1, 3), (1, 13))
def test_position_rows(make_vulkan, dtype, blocks, tokens):
    """Positions within the table's 20 rows, across its end and beyond."""
    columns = width(dtype, blocks) if dtype in BLOCKS else {1: 13, 3: 127}[blocks]
    tensors = [weight("table", (VOCABULARY, columns)), weight("rows", (20, columns), dtype, 2)]

    def ops(b, x):
        x = b.add(x, b.position_rows(b.weight("rows"), "at"), "sum")
        padded = b.position_rows(b.weight("rows"), "behind padding", first=2)
        return b.output_rows(b.add(x, padded, "both"), "last")

    built = program(tensors, ops, tokens=tokens, outputs=tokens)
    check(make_vulkan, built, *(steps(tokens, tokens, start) for start in (0, 15, 40)))


def test_position_rows_of_a_table_in_parts(device, make_vulkan, monkeypatch):
    info = replace(device.info, max_storage_buffer_range=2048)
    monkeypatch.setattr(device, "info", info)
    tensors = [weight("table", (VOCABULARY, 32)), weight("rows", (50, 32), "q8_0", 1)]

    def ops(b, x):
        return b.output_rows(b.add(x, b.position_rows(b.weight("rows"), "at"), "sum"), "last")

    built = program(tensors, ops, tokens=13, outputs=13)
    assert len(make_vulkan(*built).matrix("rows")) > 1
    check(make_vulkan, built, *(steps(13, 13, start) for start in (0, 10, 28, 40)))


@tiered_pairs("dtype, columns, types, tokens", ("f32", "f16", "q8_0"), (32, 96), (1, 2, 3), (1, 13))
def test_type_rows(make_vulkan, dtype, columns, types, tokens):
    """Of sequences with no separator, with one, with more than there are types."""
    tensors = [weight("table", (VOCABULARY, columns)), weight("rows", (types, columns), dtype, 2)]

    def ops(b, x):
        rows = b.type_rows(b.weight("rows"), "types", separator=5)
        return b.output_rows(b.add(x, rows, "sum"), "last")

    built = program(tensors, ops, tokens=tokens, outputs=tokens)
    cases = np.full((4, tokens), 7, np.int32)
    cases[1, tokens // 2] = cases[2, ::3] = cases[3] = 5
    check(make_vulkan, built, *(Step(case, 0, tokens) for case in cases))
