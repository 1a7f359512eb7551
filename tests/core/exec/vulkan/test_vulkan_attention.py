"""Attention and its cache on the software driver, in every shape of its workgroups."""

import numpy as np
import pytest

from llm_lite.core.exec.compare import compare
from llm_lite.core.exec.numpy_executor import NumpyExecutor
from llm_lite.core.exec.vulkan.dispatch import Dispatch
from llm_lite.core.exec.vulkan.record import pieces
from llm_lite.core.exec.vulkan.tuning import Tuning
from llm_lite.core.plan.plan import Kind
from llm_lite.core.plan.step import Step
from llm_lite.core.quant.rows import SCALED
from llm_lite.core.quant.tensor import TensorData
from llm_lite.core.records import replace
from tests.core.exec.vulkan.vulkan_program import (
    VECTORS,
    VOCABULARY,
    are_whole_words,
    check,
    program,
    steps,
    weight,
)
from tests.pairs import tiered_pairs

pytestmark = pytest.mark.vulkan


TOLERANCE = {"f16": 2e-3, "f32": 2e-5, "i8": 2e-2, "i4": 0.2}
CACHES = [("f16", "f16"), ("f32", "f32"), ("i8", "i8"), ("f16", "i8"), ("i8", "f32")]
CACHES += [("i4", "i4"), ("i8", "i4"), ("i4", "f16")]


def check_gains(make_vulkan, built, heads):
    """A row of gains of its own for each layer, and the initial values before."""
    model, weights = built
    executor, reference = make_vulkan(model, weights), NumpyExecutor(model, weights)
    plan, step = model.plans[0], steps(13, 13)
    gains = next(t for t in plan.tensors if t.name == "gains")
    assert (executor.read(plan, gains, step) == 0.5).all()
    others = [t for t in plan.tensors if t.kind is Kind.STATE and t.name != "gains"]
    assert not any(executor.read(plan, t, step).any() for t in others)
    values = np.random.default_rng(4).normal(0, 1, (3, heads)).astype(np.float32)
    for each in (executor, reference):
        each.write(plan, gains, step, values)
    assert compare(reference, executor, step) is None


ATTENTIONS = {
    "own": Tuning(attention_lanes=16, share_heads=False, subgroups=False),
    "own-sub": Tuning(attention_lanes=16, share_heads=False, subgroups=True),
    "shared": Tuning(attention_lanes=16, share_heads=True, subgroups=False),
    "shared-sub": Tuning(attention_lanes=16, share_heads=True, subgroups=True),
    "vec": VECTORS,
}
SHAPES = (  # heads, heads of keys, columns of a head, window, rows of the ring
    *((1, 1, 4, 0, 64), (9, 3, 64, 0, 64), (4, 2, 26, 5, 64), (6, 3, 28, 5, 19), (6, 3, 24, 5, 19)),
)


CAPS = ((0.0, None), (0.7, None), (50.0, 1.0), (5.0, 1e30))  # cap and scale of scores


SINKS = (None, 2.0, 200.0)  # the deviation of sinks


@tiered_pairs(
    "way, types, shape, caps, sinks",
    *(tuple(ATTENTIONS), CACHES, SHAPES, CAPS, SINKS),
    possible=lambda way, types, shape, *_: are_whole_words(types, shape[2]),
)
def test_attention(make_vulkan, way, types, shape, caps, sinks):
    (heads, kv_heads, head_dim, window, rows), (softcap, scale) = shape, caps
    columns = heads * head_dim
    tensors = [
        weight("table", (VOCABULARY, columns)),
        weight("k", (kv_heads * head_dim, columns), seed=1, scale=columns**-0.5),
        weight("v", (kv_heads * head_dim, columns), seed=2, scale=columns**-0.5),
        weight("sinks", (heads,), seed=3, scale=sinks or 1.0),
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
        own = b.weight("sinks") if sinks else None
        scores = {"scale": scale, "softcap": softcap, "sinks": own}
        return b.attention(x, *caches, gains, "attention", layer=2, **scores, **sizes)

    chunks = [steps(13, 13), steps(1, 1, 13), steps(5, 5, 14), steps(13, 13, 19)]
    # A value on the edge between two numbers of the cache may fall to either side. With so large a
    # scale a score is its sign alone, which such a key may turn: then only ops are compared.
    turns = scale == 1e30 and types[0] in SCALED
    tolerance = 1e3 if turns else max(TOLERANCE[dtype] for dtype in types)
    built = program(tensors, ops, tokens=13, outputs=13)
    check_gains(make_vulkan, built, heads)
    check(make_vulkan, built, *chunks, tuning=ATTENTIONS[way], tolerance=tolerance)


@tiered_pairs(
    "types, shape, shared, softcap, sinks",
    *(CACHES, ((9, 3, 0, 96), (4, 2, 70, 80)), (False, True), (0.0, 0.7), (False, True)),
)
def test_workgroups_share_the_positions_of_a_token(
    make_vulkan, types, shape, shared, softcap, sinks
):
    """From one position to more than fill a share of each; over rings too, and again and again."""
    (heads, kv_heads, window, rows), head_dim = shape, 64
    columns = heads * head_dim
    tensors = [
        weight("table", (VOCABULARY, columns)),
        weight("k", (kv_heads * head_dim, columns), seed=1, scale=columns**-0.5),
        *(weight(name, (heads,), seed=seed) for seed, name in enumerate(("first", "second"))),
    ]

    def ops(b, x):
        shape = (rows, kv_heads * head_dim)
        caches = [
            b.state(name, dtype, shape, block=head_dim)
            for name, dtype in zip(("kc", "vc"), types, strict=True)
        ]
        k = b.matmul(x, b.weight("k"), "k_rows")
        b.store([(k, cache) for cache in caches], "store")
        sizes = {"heads": heads, "kv_heads": kv_heads, "head_dim": head_dim, "window": window}
        gains = b.state("gains", "f32", (2, heads), fill=0.5)
        for layer, name in enumerate(("first", "second")):  # each with its own sinks
            own = {"softcap": softcap, "sinks": b.weight(name) if sinks else None}
            x = b.attention(x, *caches, gains, f"{name} y", layer=layer, **own, **sizes)
        return x

    model, weights = program(tensors, ops, tokens=1, context=96)
    how = Tuning(
        attention_lanes=16, attention_splits=3, attention_share=20, share_heads=shared,
        subgroups=True, segment_work=1000,
    )  # fmt: skip
    executor, reference = make_vulkan(model, weights, tuning=how), NumpyExecutor(model, weights)
    attention = [
        d for call in executor._calls(model.plans[0]) for d in call if "SPLITS" in d.constants
    ]
    assert len(attention) == 2 and all(dispatch.whole for dispatch in attention)
    tolerance = max(TOLERANCE[dtype] for dtype in types)
    for position in range(96):
        step = steps(1, 1, position)
        error = np.abs(executor.run(step) - reference.run(step)).max()
        assert error <= tolerance, position


@pytest.mark.parametrize("way", ATTENTIONS)
def test_a_cap_hides_no_query_that_is_no_number(make_vulkan, way):
    table = weight("table", (VOCABULARY, 32))
    values = table.dequantize()
    values[3, 5] = np.nan
    table = TensorData("table", "f32", values.shape, values.reshape(-1).view(np.uint8))
    tensors = [table, weight("keys", (VOCABULARY, 32), seed=1)]

    def ops(b, x):
        cache = b.state("cache", "f32", (64, 32))
        b.store([(b.embed(b.weight("keys"), "k"), cache)], "store")
        gains = b.state("gains", "f32", (1, 2), fill=1.0)
        sizes = {"layer": 0, "heads": 2, "kv_heads": 2, "head_dim": 16}
        y = b.attention(x, cache, cache, gains, "heads", softcap=2.0, **sizes)
        return b.output_rows(y, "rows")

    model, weights = program(tensors, ops, tokens=5, outputs=5)
    executor = make_vulkan(model, weights, tuning=ATTENTIONS[way])
    found = executor.run(Step(np.array([1, 3, 2, 5, 6], np.int32), 0, 5)).reshape(5, 2, 16)
    assert np.isnan(found[1, 0]).all() and np.isfinite(found[1, 1]).all()
    assert np.isfinite(found[[0, 2, 3, 4]]).all()


def test_workgroups_that_count_each_other_are_of_one_submit():
    cut = Dispatch("attention", {}, {}, (9, 16), 1 << 20)
    assert len(pieces(cut, 1000, least=1)) > 1
    assert len(pieces(replace(cut, whole=True), 1000, least=1)) == 1


@pytest.mark.parametrize(("least", "count"), [(1, 16), (72, 2), (73, 1), (144, 1), (1000, 1)])
def test_no_piece_leaves_a_device_idle(least, count):
    """A dispatch of 144 workgroups in pieces of no fewer than `least`, all of it once."""
    found = pieces(Dispatch("matmul", {}, {}, (9, 16), 1 << 20), 1000, least)
    assert len(found) == count
    assert sum(x * y for _, _, (x, y) in found) == 144


def test_the_cache_rounds_to_nearest_even(make_vulkan):
    values = np.random.default_rng(0).normal(0, 1, (VOCABULARY, 128)).astype(np.float32)
    values[0, :4] = [1 + 2**-11, 1 + 3 * 2**-11, 65504, 1e-7]
    table = TensorData("table", "f32", values.shape, values.reshape(-1).view(np.uint8))

    def ops(b, x):
        caches = [b.state(n, "f16", (64, 128)) for n in ("kc", "vc")]
        b.store([(x, cache) for cache in caches], "store")
        return b.add(x, x, "end")

    model, weights = program([table], ops, tokens=VOCABULARY)
    executor = make_vulkan(model, weights)
    plan, step = model.plans[0], Step(np.arange(VOCABULARY, dtype=np.int32), 3)
    executor.run(step)
    cache = next(t for t in plan.tensors if t.name == "vc")
    stored = executor.read(plan, cache, step)[3 : step.kv_length]
    np.testing.assert_array_equal(stored, values.astype(np.float16).astype(np.float32))
