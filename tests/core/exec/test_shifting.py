"""What is left after a part of the cache was forgotten is what would have been there without it."""

import numpy as np
import pytest

from llm_lite.core.errors import UnsupportedError
from llm_lite.core.exec.cpu.executor import CpuExecutor
from llm_lite.core.exec.numpy_executor import NumpyExecutor
from llm_lite.core.exec.shifting import shift
from llm_lite.core.exec.vulkan.executor import VulkanExecutor
from llm_lite.core.plan.builder import Bucket, PlanBuilder
from llm_lite.core.plan.plan import Program
from llm_lite.core.plan.step import Step
from llm_lite.core.quant.registry import FORMATS
from llm_lite.core.quant.tensor import TensorData

VOCABULARY, HEAD_DIM, HEADS, CONTEXT = 32, 16, 2, 48
COLUMNS = HEADS * HEAD_DIM
TOLERANCE = {"f32": 2e-5, "f16": 4e-3, "i8": 0.06, "i4": 0.6}


def weight(name, values):
    return TensorData(name, "f32", values.shape, FORMATS["f32"].quantize(values))


@pytest.fixture
def weights():
    rng = np.random.default_rng(3)
    table = rng.normal(size=(VOCABULARY, COLUMNS)).astype(np.float32)
    factors = (1 + np.arange(4) / 7).astype(np.float32)
    return {"table": weight("table", table), "factors": weight("factors", factors)}


def program(weights, dtypes, rows=CONTEXT, window=0, half_split=False):
    builder = PlanBuilder(weights, Bucket(8, 8), integer_activations=False)
    x = builder.embed(builder.weight("table"), "embed")
    turn = {"head_dim": HEAD_DIM, "rotary_dim": 8, "theta": 1e4, "half_split": half_split}
    grown = {"temperature": 0.3, "temperature_length": 7}
    q = builder.rope(x, "q", factors=builder.weight("factors"), scale=0.5, **grown, **turn)
    k = builder.rope(x, "k", factors=builder.weight("factors"), scale=0.5, **turn)
    caches = [
        builder.state(name, dtype, (rows, COLUMNS), block=HEAD_DIM)
        for name, dtype in zip(("keys", "values"), dtypes, strict=True)
    ]
    ring = builder.state("ring", "f32", (12, COLUMNS))
    builder.store([(k, caches[0]), (x, caches[1]), (q, ring)], "store")
    sizes = {"heads": HEADS, "kv_heads": HEADS, "head_dim": HEAD_DIM, "window": window}
    gains = builder.state("gains", "f32", (1, HEADS), fill=1.0)
    y = builder.attention(q, *caches, gains, "y", layer=0, **sizes)
    return Program((builder.finish(builder.output_rows(y, "out")),), CONTEXT, COLUMNS)


def feed(executor, tokens, start=0):
    out = []
    for at in range(0, len(tokens), 8):
        part = tokens[at : at + 8]
        out.append(executor.run(Step(np.array(part, np.int32), start + at, len(part))))
    return np.concatenate(out)


@pytest.fixture(params=["numpy", "cpu", "vulkan"])
def make(request):
    made = []

    def executor(built, weights):
        if request.param == "numpy":
            made.append(NumpyExecutor(built, weights))
        elif request.param == "cpu":
            made.append(CpuExecutor(built, weights))
        else:
            device = request.getfixturevalue("device")
            made.append(VulkanExecutor(device, built, weights))
        return made[-1]

    yield executor
    for each in made:
        each.close()


@pytest.mark.vulkan
@pytest.mark.parametrize("half_split", [False, True])
@pytest.mark.parametrize(
    ("dtypes", "rows", "window"),
    [
        (("f32", "f32"), CONTEXT, 0),
        (("f16", "f16"), CONTEXT, 0),
        (("i8", "i8"), CONTEXT, 0),
        (("i4", "i4"), CONTEXT, 0),
        (("f32", "f16"), 17, 9),
    ],
)
def test_next_step_is_as_if_the_forgotten_had_never_been(
    make, weights, dtypes, rows, window, half_split
):
    """One layer: its keys depend on nothing but their own token, so a fresh run tells."""
    built = program(weights, dtypes, rows, window, half_split)
    tokens = np.random.default_rng(5).integers(0, VOCABULARY, 40).tolist()
    keep, drop = 4, 21
    shifted, fresh = make(built, weights), make(built, weights)
    feed(shifted, tokens)
    shift(shifted, weights, keep=keep, drop=drop, length=len(tokens))
    left = [*tokens[:keep], *tokens[keep + drop :]]
    feed(fresh, left)
    more = np.random.default_rng(6).integers(0, VOCABULARY, 8).tolist()
    found, expected = feed(shifted, more, len(left)), feed(fresh, more, len(left))
    tolerance = max(TOLERANCE[dtype] for dtype in dtypes)
    np.testing.assert_allclose(found, expected, atol=tolerance, rtol=0)
    plan, step = built.plans[0], Step(np.zeros(8, np.int32), len(left))
    for name in ("keys", "values", "ring"):
        tensor = next(t for t in plan.tensors if t.name == name)
        held = np.arange(max(keep, len(left) - tensor.shape[0] + drop), len(left) + 8)
        held = held[held >= len(left) + 8 - tensor.shape[0]] % tensor.shape[0]
        a, b = (each.read(plan, tensor, step)[held] for each in (shifted, fresh))
        np.testing.assert_allclose(a, b, atol=tolerance * 3, rtol=0)


@pytest.mark.vulkan
@pytest.mark.parametrize("dtype", ["f16", "f32", "i8", "i4"])
def test_rows_are_the_same_bytes_everywhere(make, weights, dtype):
    built = program(weights, (dtype, dtype))
    tokens = np.random.default_rng(7).integers(0, VOCABULARY, 20).tolist()
    reference, executor = NumpyExecutor(built, weights), make(built, weights)
    feed(reference, tokens)
    for name in ("keys", "values"):
        rows = reference.read_state(name, 0, 20)
        executor.write_state(name, 0, rows)
        assert np.array_equal(executor.read_state(name, 0, 20), rows)
        assert np.array_equal(executor.read_state(name, 3, 5), rows[3:8])
    other = [5, 9, 11]
    np.testing.assert_allclose(
        feed(executor, other, 20), feed(reference, other, 20), atol=2e-2 if dtype != "i4" else 0.2
    )


def biased_program(weights, *, fixed="", cross=False):
    """Positions by a bias alone, or `fixed`: in the embedding, or as an encoder's."""
    builder = PlanBuilder(weights, Bucket(8, 8), integer_activations=False)
    x = builder.embed(builder.weight("table"), "embed")
    if fixed == "embedding":
        x = builder.add(x, builder.position_rows(builder.weight("table"), "at"), "placed")
    caches = [builder.state(name, "f32", (CONTEXT, COLUMNS)) for name in ("keys", "values")]
    builder.store([(x, cache) for cache in caches], "store")
    sizes = {"heads": HEADS, "kv_heads": HEADS, "head_dim": HEAD_DIM}
    gains = builder.state("gains", "f32", (2, HEADS), fill=1.0)
    far = {"bias": builder.weight("bias"), "bias_before": 6, "bidirectional": fixed == "encoder"}
    y = builder.attention(x, *caches, gains, "y", layer=0, **far, **sizes)
    if cross:
        sources = [builder.state(f"cross_{n}.0", "f32", (5, COLUMNS)) for n in "kv"]
        y = builder.attention(y, *sources, gains, "z", layer=1, cross=True, **sizes)
    plan = builder.finish(builder.output_rows(y, "out"))
    return Program((plan,), CONTEXT, COLUMNS, source=5 if cross else 0)


@pytest.fixture
def biased(weights):
    values = np.random.default_rng(9).normal(size=(HEADS, 7)).astype(np.float32)
    return {**weights, "bias": weight("bias", values)}


@pytest.mark.vulkan
@pytest.mark.parametrize("cross", [False, True])
def test_positions_that_a_bias_says_move_too(make, biased, cross):
    """And what an encoder left stays where it is."""
    built = biased_program(biased, cross=cross)
    tokens = np.random.default_rng(5).integers(0, VOCABULARY, 40).tolist()
    left = [*tokens[:4], *tokens[25:]]
    found = []
    for executor, text in ((make(built, biased), tokens), (make(built, biased), left)):
        for name in ("cross_k.0", "cross_v.0") if cross else ():
            values = np.random.default_rng(8).normal(size=(5, COLUMNS)).astype(np.float32)
            executor.write_state(name, 0, values.view(np.uint8))

        def run(part, start, executor=executor):
            words = np.array(part, np.int32)
            return executor.run(Step(words, start, len(part), source=5 if cross else 0))

        for at in range(0, len(text), 8):
            run(text[at : at + 8], at)
        if text is tokens:
            shift(executor, biased, keep=4, drop=21, length=40)
        found.append(run([1, 2, 3], len(left)))
    np.testing.assert_allclose(*found, atol=2e-5)


@pytest.mark.parametrize(
    ("fixed", "why"), [("embedding", "positions are"), ("encoder", "has seen")]
)
def test_positions_that_cannot_move_are_a_sentence(biased, fixed, why):
    executor = NumpyExecutor(biased_program(biased, fixed=fixed), biased)
    feed(executor, [1, 2, 3, 4, 5])
    before = executor.read_state("keys", 0, 5)
    with pytest.raises(UnsupportedError, match=f"nothing can be forgotten .*{why}"):
        shift(executor, biased, keep=1, drop=2, length=5)
    assert np.array_equal(executor.read_state("keys", 0, 5), before)
