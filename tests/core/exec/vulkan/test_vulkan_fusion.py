"""Neighbouring ops in one dispatch: which, that they compute the same, where their scratch lies."""

import itertools
from collections import Counter

import numpy as np
import pytest

from llm_lite.core.exec.vulkan.fusion import groups_of, placed
from llm_lite.core.exec.vulkan.record import Hazards
from llm_lite.core.exec.vulkan.tuning import Tuning
from llm_lite.core.plan.plan import Kind, tensor_row_bytes
from llm_lite.core.quant.rows import SCALED
from tests.core.exec.vulkan.test_vulkan_attention import TOLERANCE
from tests.core.exec.vulkan.test_vulkan_model import program as model_of
from tests.core.exec.vulkan.vulkan_program import VECTORS, VOCABULARY, check, program, steps, weight
from tests.make_gguf import write_tiny_llama
from tests.pairs import tiered_pairs

pytestmark = pytest.mark.vulkan
HEADS, KV_HEADS, CONTEXT = 4, 2, 64
LANES, PLAIN = Tuning(subgroups=True), Tuning(subgroups=False, matvec_rows=2)
THREE = [steps(1, start=at) for at in range(3)]
WAYS = (VECTORS, LANES, PLAIN)


def layer(
    dtypes,
    *,
    width=64,
    head_dim=64,
    hidden=128,
    kv="f16",
    half_split=False,
    norm_twice=False,
    gate="silu_mul",
    biased=False,
    grown="",
):
    """Weights and ops of a decoder layer; `dtypes` of q, k, v, output, gate, up, down. `grown`:
    which of q and k grow with their positions."""
    q, kv_columns = HEADS * head_dim, KV_HEADS * head_dim
    rows = [q, kv_columns, kv_columns, width, hidden, hidden, width]
    columns = [width] * 3 + [q, width, width, hidden]
    names = ["q", "k", "v", "o", "gate", "up", "down"]
    tensors = [weight("table", (VOCABULARY, width)), weight("norm", (width,), seed=9)]
    for seed, (name, n, k, dtype) in enumerate(zip(names, rows, columns, dtypes, strict=True)):
        tensors.append(weight(name, (n, k), dtype, seed, k**-0.5))

    for name, n in zip("qkv", rows, strict=False):
        tensors.append(weight(f"{name} bias", (n,), seed=n))

    def ops(b, x):
        norm = b.weight("norm")

        def product(x, name):
            return b.matmul(x, b.weight(name), f"{name} product")

        h = b.rms_norm(x, norm, 1e-5, "attention norm")
        q, k, v = (product(h, name) for name in "qkv")
        if biased:
            q, k, v = (
                b.add_bias(y, b.weight(f"{name} bias"), f"{name} biased")
                for name, y in zip("qkv", (q, k, v), strict=True)
            )
        turn = {"head_dim": head_dim, "rotary_dim": head_dim, "theta": 1e4}
        growing = {"temperature": 0.4, "temperature_length": 2}
        grown_q, grown_k = (growing if name in grown else {} for name in "qk")
        q = b.rope(q, "q_rope", half_split=half_split, **turn, **grown_q)
        k = b.rope(k, "k_rope", half_split=half_split, **turn, **grown_k)
        block = head_dim if kv in SCALED else 0
        cache = (CONTEXT, kv_columns)
        keys, values = (b.state(name, kv, cache, block=block) for name in ("keys", "values"))
        ring = b.state("queries", "f16", (CONTEXT, HEADS * head_dim))
        b.store([(k, keys), (v, values), (q, ring)], "store")
        gains = b.state("head_gains", "f32", (1, HEADS), fill=1.0)
        shape = {"heads": HEADS, "kv_heads": KV_HEADS, "head_dim": head_dim}
        y = b.attention(q, keys, values, gains, "heads", layer=0, **shape)
        x = b.add(x, product(y, "o"), "residual")
        h = b.rms_norm(x, norm, 1e-5, "ffn norm")
        y = getattr(b, gate)(product(h, "gate"), product(h, "up"), "gated")
        x = b.add(product(y, "down"), h if norm_twice else x, "out")
        return b.output_rows(x, "rows")

    return tensors, ops


def names(executor, plan):
    return [" ".join(op.name for op in group.ops) for group in groups_of(plan, executor)]


@tiered_pairs(
    "dtype, half_split, tuning", ("f32", "q4_0", "q4_1", "int4", "int8"), (False, True), WAYS
)
def test_a_decoded_token_takes_six_dispatches_a_layer(make_vulkan, dtype, half_split, tuning):
    tensors, ops = layer([dtype] * 7, half_split=half_split)
    built = program(tensors, ops, tokens=1, context=CONTEXT)
    assert names(make_vulkan(*built), built[0].plans[0]) == [
        "embed",
        "rms_norm matmul matmul matmul",
        "rope rope store",
        "attention",
        "matmul add",
        "rms_norm matmul matmul silu_mul",
        "matmul add",
        "output_rows",
    ]
    check(make_vulkan, built, *THREE, tuning=tuning, tolerance=2e-3)


APART = [  # formats, options of `layer`, the groups that are found
    # v is kept in more bits: the norm is made twice, in the same two dispatches
    (["int4", "int4", "int8", *["int4"] * 4], {}, ["rms_norm matmul matmul", "matmul"]),
    (["int4", "f32", "int4", *["int4"] * 4], {}, ["rms_norm matmul", "matmul", "matmul"]),
    # 40 columns of keys and values: their rows would not begin where buffers can be bound
    (["f32"] * 7, {"head_dim": 20, "hidden": 52}, ["rms_norm matmul", "matmul", "matmul"]),
    (["q4_0", "q4_0", "f32", *["q4_0"] * 4], {"width": 32}, ["rms_norm matmul matmul"]),
    (["f32"] * 7, {"kv": "i8"}, ["rope", "rope", "store"]),
    (["f32"] * 7, {"kv": "i4"}, ["rope", "rope", "store"]),
    (["f32"] * 7, {"grown": "q"}, ["rope rope store"]),
    (["f32"] * 7, {"grown": "qk"}, ["rope", "rope", "store"]),
    (["f32"] * 7, {"norm_twice": True}, ["rms_norm", "matmul matmul silu_mul", "matmul add"]),
    (
        ["f32"] * 7,
        {"biased": True},
        ["rms_norm matmul matmul matmul", *["add_bias"] * 3, "rope rope store"],
    ),
    (["f32"] * 7, {"hidden": 37}, ["rms_norm matmul", "matmul", "silu_mul", "matmul add"]),
]


# Each way makes the other gate by a kernel of its own.
GELU = ["int8"] * 7, {"gate": "gelu_mul"}, ["rms_norm matmul matmul gelu_mul", "matmul add"]


@pytest.mark.parametrize(
    ("case", "tuning"), [*zip(APART, itertools.cycle(WAYS)), *((GELU, way) for way in WAYS)]
)
def test_what_does_not_fit_together_stays_apart(make_vulkan, case, tuning):
    dtypes, options, expected = case
    tensors, ops = layer(dtypes, **options)
    built = program(tensors, ops, tokens=1, context=CONTEXT)
    found = names(make_vulkan(*built), built[0].plans[0])
    runs = [found[at : at + len(expected)] for at in range(len(found))]
    assert expected in runs, found
    tolerance = TOLERANCE[options.get("kv", "f16")]
    check(make_vulkan, built, *THREE, tuning=tuning, tolerance=tolerance)


@tiered_pairs("tokens, half_split, tuning", (3, 13), (False, True), WAYS)
def test_several_tokens(make_vulkan, tokens, half_split, tuning):
    tensors, ops = layer(["q4_1"] * 7, half_split=half_split)
    built = program(tensors, ops, tokens=tokens, outputs=tokens, context=CONTEXT)
    found = Counter(names(make_vulkan(*built), built[0].plans[0]))
    assert found["matmul add"] == 2 and found["rope rope store"] == 1 and found["rms_norm"] == 2
    small = steps(tokens - 2, start=tokens)
    check(make_vulkan, built, steps(tokens, tokens), small, tuning=tuning, tolerance=2e-3)


def normed_products(width, *, weighted=True, read_twice=False):
    """Weights and ops of a norm and a product of its rows in int8."""
    tensors = [weight("table", (VOCABULARY, width)), weight("norm", (width,), seed=9)]
    tensors.append(weight("w", (width, width), "q8_0", 1, 0.1))

    def ops(b, x):
        h = b.rms_norm(x, b.weight("norm") if weighted else None, 1e-5, "normed")
        y = b.matmul(h, b.weight("w"), "product")
        return b.add(y, h, "sum") if read_twice else y

    return tensors, ops


QUANTIZING = (*WAYS, Tuning(block_lanes=2, reduce_lanes=32), Tuning(block_lanes=1, subgroups=True))


@tiered_pairs("width, tokens, tuning", (32, 96, 576, 1056), (1, 3, 13), QUANTIZING)
def test_rows_are_quantized_with_their_norm(make_vulkan, width, tokens, tuning):
    """The same bits as by two dispatches."""
    built = program(*normed_products(width), tokens=tokens, outputs=tokens, integer=True)
    executor = make_vulkan(*built, tuning=tuning)
    assert names(executor, built[0].plans[0]) == ["embed", "rms_norm quantize", "matmul"]
    found = executor.run(steps(tokens, tokens))
    plan, step = built[0].plans[0], steps(tokens, tokens)
    executor.run_ops(plan, step, 0, len(plan.ops))  # op by op
    np.testing.assert_array_equal(executor.read(plan, plan.tensors[plan.logits], step), found)
    check(make_vulkan, built, step, tuning=tuning)


@pytest.mark.parametrize("options", [{"weighted": False}, {"read_twice": True}])
def test_a_norm_that_others_read_is_made_by_itself(make_vulkan, options):
    built = program(*normed_products(64, **options), tokens=3, integer=True)
    found = names(make_vulkan(*built), built[0].plans[0])
    assert found[1:3] == ["rms_norm", "quantize"], found
    check(make_vulkan, built, steps(3))


@pytest.mark.parametrize("order", ["xy", "yx", "yy", "y twice"])
def test_additions(make_vulkan, order):
    tensors = [weight("table", (VOCABULARY, 32)), weight("w", (32, 32), seed=1, scale=0.2)]

    def ops(b, x):
        y = b.matmul(x, b.weight("w"), "y")
        if order == "y twice":
            return b.add(b.add(x, y, "once"), y, "twice")
        return b.add(*({"x": x, "y": y}[name] for name in order), "sum")

    built = program(tensors, ops, tokens=1)
    fused = "matmul add" in names(make_vulkan(*built), built[0].plans[0])
    assert fused == (order in ("xy", "yx"))
    check(make_vulkan, built, steps(1))


def test_a_large_norm_is_made_once(make_vulkan, monkeypatch):
    tensors, ops = layer(["f32"] * 7)
    built = program(tensors, ops, tokens=1, context=CONTEXT)
    monkeypatch.setattr("llm_lite.core.exec.vulkan.fusion.MOST_NORMED", 2 * 128 * 64)
    found = names(make_vulkan(*built), built[0].plans[0])
    assert found[1:3] == ["rms_norm", "matmul matmul matmul"]
    assert "rms_norm matmul matmul silu_mul" in found
    check(make_vulkan, built, steps(1), steps(1, start=1), tolerance=2e-3)


@pytest.mark.parametrize("dtype", ["f32", "q4_0", "q8_0", "layer"])
def test_what_a_group_reads_and_writes_never_shares_memory(make_vulkan, tmp_path, dtype):
    if dtype == "layer":
        tensors, ops = layer(["int4"] * 7)
        built = program(tensors, ops, tokens=1, context=CONTEXT)
    else:
        built = model_of(write_tiny_llama(tmp_path / "tiny.gguf", dtype=dtype))
    executor = make_vulkan(*built)
    before = 0
    for plan in built[0].plans:
        groups = groups_of(plan, executor)
        assert [op for group in groups for op in group.ops] == list(plan.ops)
        assert not _shared(placed(plan, groups), groups)
        before += len(_shared(plan, groups))
    assert before, "the plan's own places would do"
    if dtype == "layer":
        fused = placed(plan, groups)
        runs = [[_span(fused.tensors[i]) for i in group.stacked] for group in groups]
        pairs = [pair for run in runs for pair in itertools.pairwise(run)]
        assert len(pairs) == 2  # q and k, k and v
        assert all(upper[1] + upper[2] == lower[1] for upper, lower in pairs)


def _shared(plan, groups):
    """Pairs of scratch tensors of a group that overlap."""
    found = []
    for group in groups:
        ops = (group.norm, *group.ops) if group.norm else group.ops
        used = {i for op in ops for i in op.inputs + op.outputs}
        spans = [_span(plan.tensors[i]) for i in used if plan.tensors[i].kind is Kind.SCRATCH]
        for a, b in itertools.combinations(spans, 2):
            hazards = Hazards()
            hazards.add([], [a])
            found += [(a, b)] if hazards.conflict([b], []) else []
    return found


def _span(tensor):
    return None, tensor.offset, tensor.shape[0] * tensor_row_bytes(tensor)


def test_the_time_of_a_dispatch_is_shared_by_its_ops(make_vulkan):
    tensors, ops = layer(["int8"] * 7)
    model, weights = program(tensors, ops, tokens=1, context=CONTEXT)
    executor, plan = make_vulkan(model, weights), model.plans[0]
    whole, taken = executor.measure(plan, steps(1), times=3)
    by_label = {op.label: seconds for op, seconds in zip(plan.ops, taken, strict=True)}
    assert whole > 0 and min(taken) >= 0
    assert by_label["gate product"] == by_label["up product"] > by_label["gated"] == 0
    assert by_label["q_rope"] == by_label["k_rope"] == by_label["store"] > 0
    assert by_label["down product"] > 0 and by_label["out"] == 0


def test_dispatches_and_barriers_of_a_token(make_vulkan):
    tensors, ops = layer(["int4"] * 7)
    built, weights = program(tensors, ops, tokens=1, context=CONTEXT)
    executor = make_vulkan(built, weights)
    executor.run(steps(1))
    assert executor.dispatches == 6 + 2  # of the layer; embedding and last rows
    assert executor.barriers == executor.dispatches - 1


def test_tensors_of_other_plans_lie_where_these_say(make_vulkan):
    """Ops run one by one use the plan's own places, whatever a replay does with its scratch."""
    tensors, ops = layer(["q4_0"] * 7)
    model, weights = program(tensors, ops, tokens=1, context=CONTEXT)
    executor, plan = make_vulkan(model, weights), model.plans[0]
    expected = executor.run(steps(1))
    executor.run_ops(plan, steps(1), 0, len(plan.ops), ("store",))
    found = executor.read(plan, plan.tensors[plan.logits], steps(1))
    np.testing.assert_allclose(found, expected, atol=1e-4)
