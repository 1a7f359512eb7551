"""Every op on the software driver against the NumPy definition, at awkward sizes, validated."""

from dataclasses import replace

import numpy as np
import pytest

from core.errors import CancelledError, DeviceLostError, OutOfDeviceMemoryError
from core.exec.compare import compare
from core.exec.reference import NumpyExecutor
from core.exec.vulkan import VulkanExecutor
from core.exec.vulkan_tuning import Tuning
from core.formats.tensor import TensorData
from core.gpu.create import vk
from core.gpu.device import Device
from core.gpu.memory import Buffer
from core.plan.builder import Bucket, PlanBuilder
from core.plan.plan import Kind, Program
from core.plan.step import Step
from core.quant.registry import FORMATS

pytestmark = pytest.mark.vulkan
VOCABULARY = 37
CACHES = [("f16", "f16"), ("f32", "f32"), ("i8", "i8"), ("f16", "i8"), ("i8", "f32")]
BLOCKS = ("q4_0", "q4_1", "q8_0", "int4", "int8")


def weight(name, shape, dtype="f32", seed=0, scale=1.0):
    values = np.random.default_rng(seed).normal(0, scale, shape).astype(np.float32)
    return TensorData(name, dtype, shape, FORMATS[dtype].quantize(values))


def program(tensors, ops, *, tokens, outputs=1, integer=False, context=64):
    """`ops(builder, x)` adds ops after an embedding and returns the last tensor."""
    weights = {tensor.name: tensor for tensor in tensors}
    builder = PlanBuilder(weights, Bucket(tokens, outputs), integer_activations=integer)
    x = builder.embed(builder.weight("table"), "embed")
    last = ops(builder, x)
    return Program((builder.finish(last),), context, last.shape[1]), weights


def steps(count, outputs=1, start=0):
    tokens = np.random.default_rng(count).integers(0, VOCABULARY, count).astype(np.int32)
    return Step(tokens, start, outputs)


@pytest.fixture
def make(device):
    """VulkanExecutors on the shared device, closed when the test ends, however it ends."""
    made = []

    def executor(model, weights, **options):
        made.append(VulkanExecutor(device, model, weights, **options))
        return made[-1]

    yield executor
    for each in made:
        each.close()


def check(make, built, *all_steps, tuning=None, tolerance=2e-4):
    """Run the steps in lockstep on both executors, then at once; nothing may differ."""
    model, weights = built
    reference = NumpyExecutor(model, weights)
    executor = make(model, weights, tuning=tuning)
    for step in all_steps:
        assert compare(reference, executor, step) is None
        expected = reference.run(step)
        np.testing.assert_allclose(executor.run(step), expected, atol=tolerance, rtol=0)


@pytest.mark.parametrize("columns", [1, 13, 127, 576])
@pytest.mark.parametrize("tokens", [1, 13])
def test_float_ops(make, columns, tokens):
    tensors = [weight("table", (VOCABULARY, columns)), weight("norm", (columns,), seed=1)]

    def ops(b, x):
        y = b.rms_norm(x, b.weight("norm"), 1e-5, "normed")
        y = b.add(b.silu_mul(x, y, "silu"), x, "add")
        return b.output_rows(y, "rows")

    for outputs in {1, tokens}:
        built = program(tensors, ops, tokens=tokens, outputs=outputs)
        check(make, built, steps(tokens, outputs), steps(max(1, tokens - 2), 1))


# The ways to make a product: lanes as elements of vectors, lanes that share K, tiles
VECTORS = Tuning(vector_tokens=4)
LANES, TILES = (Tuning(matvec_tokens=tokens, subgroups=True) for tokens in (16, 0))
MATRIX_CASES = [
    *((dtype, k, n) for dtype in ("f32", "f16", "bf16") for k, n in [(1, 1), (13, 127), (127, 13)]),
    *((dtype, k, n) for dtype in ("f32", *BLOCKS) for k, n in [(32, 1), (96, 127)]),
    *((dtype, 64, 37) for dtype in ("f16", "bf16")),
]


@pytest.mark.parametrize(("dtype", "k", "n"), MATRIX_CASES)
@pytest.mark.parametrize(
    ("tokens", "how"),
    [(1, VECTORS), (3, VECTORS), (13, VECTORS), (1, LANES), (13, LANES), (13, TILES), (45, TILES)],
)
def test_embed_and_matmul_of_each_format(make, dtype, k, n, tokens, how):
    tensors = [weight("table", (VOCABULARY, k), dtype), weight("w", (n, k), dtype, 1, k**-0.5)]
    built = program(tensors, lambda b, x: b.matmul(x, b.weight("w"), "product"), tokens=tokens)
    model, weights = built
    reference = NumpyExecutor(model, weights)
    executor = make(model, weights, tuning=how)
    for count in {tokens, max(1, tokens - 7)}:
        assert compare(reference, executor, steps(count)) is None


@pytest.mark.parametrize("dtype", BLOCKS)
@pytest.mark.parametrize(
    ("tokens", "how"), [(1, VECTORS), (13, VECTORS), (1, LANES), (13, LANES), (13, TILES)]
)
def test_matmul_of_int8_activations(make, dtype, tokens, how):
    tensors = [weight("table", (VOCABULARY, 96)), weight("w", (127, 96), dtype, 1, 0.1)]
    built = program(
        tensors, lambda b, x: b.matmul(x, b.weight("w"), "product"), tokens=tokens, integer=True
    )
    assert any(op.name == "quantize" for op in built[0].plans[0].ops)
    model, weights = built
    reference, executor = NumpyExecutor(model, weights), make(model, weights, tuning=how)
    assert compare(reference, executor, steps(tokens)) is None


@pytest.mark.parametrize("value", [0.0, 1e-42, np.nan, np.inf])
def test_quantize_of_values_without_a_scale(make, value):
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
    reference, executor = NumpyExecutor(model, weights), make(model, weights)
    plan, step = model.plans[0], steps(3)
    quantized = next(plan.tensors[op.outputs[0]] for op in plan.ops if op.name == "quantize")
    for each in (reference, executor):
        each.run_ops(plan, step, 0, 2)
    np.testing.assert_allclose(
        executor.read(plan, quantized, step), reference.read(plan, quantized, step), rtol=1e-2
    )


@pytest.mark.parametrize("half_split", [False, True])
@pytest.mark.parametrize(("head_dim", "rotary_dim"), [(2, 2), (64, 64), (26, 12)])
@pytest.mark.parametrize("start", [0, 5, 100_003])
def test_rope(make, half_split, head_dim, rotary_dim, start):
    factors = weight("factors", (rotary_dim // 2,), seed=3)
    factors = TensorData(
        "factors", "f32", factors.shape, (np.abs(factors.dequantize()) + 0.5).view(np.uint8)
    )
    tensors = [weight("table", (VOCABULARY, 3 * head_dim)), factors]

    def ops(b, x):
        shape = {"head_dim": head_dim, "rotary_dim": rotary_dim, "half_split": half_split}
        x = b.rope(x, "plain", theta=1e4, **shape)
        return b.rope(x, "scaled", theta=5e5, scale=0.25, factors=b.weight("factors"), **shape)

    built = program(tensors, ops, tokens=13, outputs=13, context=1 << 20)
    check(make, built, steps(13, 13, start))


def check_gains(make, built, heads):
    """A row of gains of its own for each layer, and the initial values before."""
    model, weights = built
    executor, reference = make(model, weights), NumpyExecutor(model, weights)
    plan, step = model.plans[0], steps(13, 13)
    gains = next(t for t in plan.tensors if t.name == "gains")
    assert (executor.read(plan, gains, step) == 0.5).all()
    others = [t for t in plan.tensors if t.kind is Kind.STATE and t.name != "gains"]
    assert not any(executor.read(plan, t, step).any() for t in others)
    values = np.random.default_rng(4).normal(0, 1, (3, heads)).astype(np.float32)
    for each in (executor, reference):
        each.write(plan, gains, step, values)
    assert compare(reference, executor, step) is None


def test_vectors_are_for_software_devices_whose_subgroups_can_shuffle(device):
    software, usual = replace(device.info, kind="software"), Tuning()
    assert Tuning.of(software).vector_tokens
    narrow = replace(software, subgroup_size=4)
    mute = replace(software, features={**software.features, "subgroup_shuffle": False})
    for info in (narrow, mute, replace(software, kind="discrete")):
        assert Tuning.of(info).vector_tokens == usual.vector_tokens == 0


ATTENTIONS = [
    *(
        Tuning(attention_lanes=16, share_heads=shared, subgroups=subgroups)
        for shared in (False, True)
        for subgroups in (False, True)
    ),
    VECTORS,
]


@pytest.mark.parametrize(
    "tuning", ATTENTIONS, ids=["own", "own-sub", "shared", "shared-sub", "vec"]
)
@pytest.mark.parametrize("types", CACHES, ids="-".join)
@pytest.mark.parametrize(
    ("heads", "kv_heads", "head_dim", "window", "rows"),
    [(1, 1, 4, 0, 64), (9, 3, 64, 0, 64), (4, 2, 26, 5, 64), (6, 3, 28, 5, 19), (6, 3, 24, 5, 19)],
)
def test_attention(make, tuning, types, heads, kv_heads, head_dim, window, rows):
    if "i8" in types and head_dim % 4:
        pytest.skip("int8 comes in words")
    columns = heads * head_dim
    tensors = [
        weight("table", (VOCABULARY, columns)),
        weight("k", (kv_heads * head_dim, columns), seed=1, scale=columns**-0.5),
        weight("v", (kv_heads * head_dim, columns), seed=2, scale=columns**-0.5),
    ]

    def ops(b, x):
        caches = [
            b.state(name, dtype, (rows, kv_heads * head_dim), block=head_dim)
            for name, dtype in zip(("kc", "vc"), types, strict=True)
        ]
        k, v = (b.matmul(x, b.weight(name), f"{name}_rows") for name in ("k", "v"))
        queries = b.state("ring", "f32" if types[0] == "f32" else "f16", (17, columns))
        b.store([(k, caches[0]), (v, caches[1]), (x, queries)], "store")
        sizes = {"heads": heads, "kv_heads": kv_heads, "head_dim": head_dim, "window": window}
        gains = b.state("gains", "f32", (3, heads), fill=0.5)
        return b.attention(x, *caches, gains, "attention", layer=2, **sizes)

    chunks = [steps(13, 13), steps(1, 1, 13), steps(5, 5, 14), steps(13, 13, 19)]
    # A value on the edge between two numbers of the cache may fall to either side.
    tolerance = max({"f16": 2e-3, "f32": 2e-5, "i8": 2e-2}[dtype] for dtype in types)
    built = program(tensors, ops, tokens=13, outputs=13)
    check_gains(make, built, heads)
    check(make, built, *chunks, tuning=tuning, tolerance=tolerance)


def test_the_cache_rounds_to_nearest_even(make):
    values = np.random.default_rng(0).normal(0, 1, (VOCABULARY, 128)).astype(np.float32)
    values[0, :4] = [1 + 2**-11, 1 + 3 * 2**-11, 65504, 1e-7]
    table = TensorData("table", "f32", values.shape, values.reshape(-1).view(np.uint8))

    def ops(b, x):
        caches = [b.state(n, "f16", (64, 128)) for n in ("kc", "vc")]
        b.store([(x, cache) for cache in caches], "store")
        return b.add(x, x, "end")

    model, weights = program([table], ops, tokens=VOCABULARY)
    executor = make(model, weights)
    plan, step = model.plans[0], Step(np.arange(VOCABULARY, dtype=np.int32), 3)
    executor.run(step)
    cache = next(t for t in plan.tensors if t.name == "vc")
    stored = executor.read(plan, cache, step)[3 : step.kv_length]
    np.testing.assert_array_equal(stored, values.astype(np.float16).astype(np.float32))


def test_large_tensors_are_bound_in_parts(device, make, monkeypatch):
    info = type(device.info)(**{**vars(device.info), "max_storage_buffer_range": 2048})
    monkeypatch.setattr(device, "info", info)
    tensors = [weight("table", (VOCABULARY, 96), "q8_0"), weight("w", (127, 96), "q4_1", 1)]
    built = program(tensors, lambda b, x: b.matmul(x, b.weight("w"), "product"), tokens=3)
    model, weights = built
    executor = make(model, weights)
    assert len(executor.matrix("table")) > 1 and len(executor.matrix("w")) > 1
    tokens = np.array([0, 20, VOCABULARY - 1], np.int32)
    assert compare(NumpyExecutor(model, weights), executor, Step(tokens, 0)) is None


def test_stop_between_submits_and_go_on(make, monkeypatch):
    monkeypatch.setattr("core.exec.vulkan_pacing.TARGET_S", 0.0)  # a submit a segment
    tensors = [weight("table", (VOCABULARY, 32)), weight("norm", (32,), seed=1)]

    def ops(b, x):
        for i in range(40):
            x = b.rms_norm(x, b.weight("norm"), 1e-5, f"norm{i}")
        return x

    model, weights = program(tensors, ops, tokens=1)
    executor = make(model, weights, tuning=Tuning(segment_work=1000))
    expected = executor.run(steps(1))
    answers = iter([False, False, True])
    with pytest.raises(CancelledError):
        executor.run(steps(1), lambda: next(answers, True))
    np.testing.assert_array_equal(executor.run(steps(1)), expected)

    def interrupt():
        if next(answers, True):
            raise KeyboardInterrupt
        return False

    answers = iter([False, False, True])
    with pytest.raises(KeyboardInterrupt):  # what is in flight ends before the next step begins
        executor.run(steps(1), interrupt)
    np.testing.assert_array_equal(executor.run(steps(1)), expected)


def test_positions_beyond_the_cache_are_refused(make):
    model, weights = program(
        [weight("table", (VOCABULARY, 32))], lambda b, x: b.add(x, x, "end"), tokens=2, context=8
    )
    executor = make(model, weights)
    executor.run(steps(2, start=6))
    with pytest.raises(ValueError, match="beyond 8"):
        executor.run(steps(2, start=7))


def test_a_planted_error_is_found_by_name(make):
    tensors = [weight("table", (VOCABULARY, 32)), weight("norm", (32,), seed=1)]

    def ops(b, x):
        x = b.rms_norm(x, b.weight("norm"), 1e-5, "first")
        return b.rms_norm(x, b.weight("norm"), 1e-5, "second")

    model, weights = program(tensors, ops, tokens=2)
    executor = make(model, weights)
    buffer, offset, size = executor.vector("norm")
    buffer.upload(np.full(size // 4, 3, np.float32), offset)
    found = compare(NumpyExecutor(model, weights), executor, steps(2))
    assert found is not None and (found.op, found.label) == ("rms_norm", "first")


def test_a_missing_barrier_would_be_reported(monkeypatch):
    """That every other test is silent means something only if this one is not."""
    monkeypatch.setattr("core.exec.vulkan_record.Hazards.conflict", lambda *_: False)
    tensors = [weight("table", (VOCABULARY, 32)), weight("norm", (32,), seed=1)]
    model, weights = program(
        tensors, lambda b, x: b.rms_norm(x, b.weight("norm"), 1e-5, "normed"), tokens=2
    )
    with Device.open(validation=True) as device:
        executor = VulkanExecutor(device, model, weights)
        executor.run(steps(2))
        executor.close()
    assert any("SYNC-HAZARD-READ-AFTER-WRITE" in m for m in device.validation_messages)


def test_a_lost_device_is_told_and_closed(monkeypatch):
    tensors = [weight("table", (VOCABULARY, 32)), weight("norm", (32,), seed=1)]
    model, weights = program(
        tensors, lambda b, x: b.rms_norm(x, b.weight("norm"), 1e-5, "normed"), tokens=2
    )
    device = Device.open(validation=True)
    executor = VulkanExecutor(device, model, weights)
    executor.run(steps(2))

    def lost(*_):
        raise vk.VkErrorDeviceLost

    device.wait_idle()
    with monkeypatch.context() as patch:
        patch.setattr(vk, "vkWaitSemaphores", lost)
        with pytest.raises(DeviceLostError):
            executor.run(steps(2))
    device.wait_idle()  # the real device is well, and may only be freed when it is idle
    monkeypatch.setattr(vk, "vkQueueWaitIdle", lost)
    executor.close()
    device.close()
    assert device.validation_messages == []


@pytest.mark.parametrize("allocations", [0, 1, 2, 3])
def test_memory_that_runs_out_leaves_nothing_behind(monkeypatch, allocations):
    tensors = [weight("table", (VOCABULARY, 32)), weight("norm", (32,), seed=1)]
    model, weights = program(
        tensors, lambda b, x: b.rms_norm(x, b.weight("norm"), 1e-5, "normed"), tokens=2
    )
    allocate, left = vk.vkAllocateMemory, allocations

    def limited(*arguments):
        nonlocal left
        left -= 1
        if left < 0:
            raise vk.VkErrorOutOfDeviceMemory
        return allocate(*arguments)

    with Device.open(validation=True) as own:
        own.staging.read(scratch := Buffer(own, 4, 0, host=False), 0, 4)
        scratch.close()
        with monkeypatch.context() as patch:
            patch.setattr(vk, "vkAllocateMemory", limited)
            with pytest.raises(OutOfDeviceMemoryError):
                VulkanExecutor(own, model, weights)
    assert own.validation_messages == []


COLUMNWISE = {
    "gelu_mul": lambda b, x, y: b.gelu_mul(x, y, "out"),
    "scale": lambda b, x, y: b.scale(x, "out", factor=0.3, weight=b.weight("norm")),
    "softcap": lambda b, x, y: b.softcap(b.scale(x, "big", factor=200.0), "o", scale=0.5, cap=9.0),
    "sparsify": lambda b, x, y: b.sparsify(x, "out", deviations=0.7),
    "match_rms": lambda b, x, y: b.match_rms(x, y, 1e-5, "out"),
    "match_rms of little": lambda b, x, y: b.match_rms(
        b.scale(x, "little", factor=1e-8), y, 1e-5, "out"
    ),
    "concat": lambda b, x, y: b.concat(x, b.concat(y, x, "inner"), "out"),
    "columns": lambda b, x, y: b.columns(
        x, "out", first=x.shape[1] // 2, count=x.shape[1] - x.shape[1] // 2
    ),
    "add_streams": lambda b, x, y: b.add_streams(b.concat(x, y, "both"), x, "out", first=1),
    "altup": lambda b, x, y: b.altup_correct(
        b.altup_predict(
            b.concat(x, y, "both"),
            b.columns(
                b.concat(b.concat(x, y, "f"), b.concat(y, x, "g"), "h"), "4", first=0, count=4
            ),
            "predicted",
        ),
        y,
        b.columns(b.concat(x, y, "c"), "2", first=0, count=2),
        "out",
        active=1,
    ),
}


@pytest.mark.parametrize("columns", [1, 13, 127, 576])
@pytest.mark.parametrize("tokens", [1, 13])
@pytest.mark.parametrize("op", COLUMNWISE)
def test_columnwise_ops(make, op, columns, tokens):
    tensors = [weight("table", (VOCABULARY, columns)), weight("norm", (columns,), seed=1)]

    def ops(b, x):
        y = b.rms_norm(x, b.weight("norm"), 1e-5, "normed")
        return COLUMNWISE[op](b, b.scale(x, "scaled", factor=3.0), y)

    for subgroups in (True, False):
        built = program(tensors, ops, tokens=tokens)
        model, weights = built
        executor = make(model, weights, tuning=Tuning(subgroups=subgroups))
        for count in {tokens, max(1, tokens - 2)}:
            assert compare(NumpyExecutor(model, weights), executor, steps(count)) is None


@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize(("width", "groups"), [(1, 5), (13, 3), (64, 2), (127, 2)])
def test_rms_norm_of_groups(make, width, groups, weighted):
    tensors = [weight("table", (VOCABULARY, width * groups)), weight("norm", (width,), seed=1)]

    def ops(b, x):
        norm = b.weight("norm") if weighted else None
        return b.output_rows(b.rms_norm(x, norm, 1e-5, "normed", width=width), "last")

    check(make, program(tensors, ops, tokens=13), steps(13), steps(5))


@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16", *BLOCKS])
def test_table_rows(make, dtype):
    """Only the rows of the step's tokens reach the device; tokens beyond the table read row 0."""
    tensors = [weight("table", (VOCABULARY, 3)), weight("disk", (VOCABULARY - 11, 96), dtype, 2)]

    def ops(b, x):
        return b.output_rows(b.concat(x, b.table_rows(b.table("disk"), "rows"), "y"), "last")

    built = program(tensors, ops, tokens=13)
    check(make, built, steps(13), steps(5), steps(1))
    assert make(*built).weight_bytes < 4 * 32 * VOCABULARY + 1
