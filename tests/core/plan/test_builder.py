import dataclasses
import inspect
import math

import pytest

from llm_lite.core.exec import reference
from llm_lite.core.plan.builder import Bucket, PlanBuilder
from llm_lite.core.plan.ops import OPS
from llm_lite.core.plan.plan import Kind, Program, row_bytes
from llm_lite.core.plan.step import HEADER_WORDS, Step


@dataclasses.dataclass(frozen=True)
class Weight:
    name: str
    dtype: str
    shape: tuple[int, ...]


WEIGHTS = {
    w.name: w
    for w in (
        Weight("table", "q8_0", (40, 64)),
        Weight("norm", "f32", (64,)),
        Weight("short norm", "f32", (63,)),
        Weight("q", "q4_1", (64, 64)),
        Weight("k", "q8_0", (32, 64)),
        Weight("v", "q4_0", (32, 64)),
        Weight("float", "f16", (32, 64)),
        Weight("narrow", "f32", (64, 48)),
        Weight("narrow integers", "q8_0", (64, 48)),
        Weight("factors", "f32", (8,)),
    )
}


def builder(*, integer=False, tokens=4, outputs=2):
    return PlanBuilder(WEIGHTS, Bucket(tokens, outputs), integer_activations=integer)


@pytest.mark.parametrize("name", OPS)
def test_an_op_has_one_name_everywhere(name):
    assert name == OPS[name].name
    assert callable(getattr(reference, name))
    method = "_activations" if name == "quantize" else name  # matmul quantizes by itself
    assert callable(getattr(PlanBuilder, method))


@pytest.mark.parametrize("name", sorted(set(OPS) - {"quantize"}))
def test_a_builder_method_takes_the_inputs_of_the_table(name):
    taken = set(inspect.signature(getattr(PlanBuilder, name)).parameters)
    assert {operand.rstrip("?") for operand in OPS[name].inputs} <= taken


def _norm(b, x):
    return b.rms_norm(x, b.weight("short norm"), 1e-5, "y")


def _rope(b, x, **changes):
    return b.rope(x, "y", **{"head_dim": 16, "rotary_dim": 16, "theta": 1e4} | changes)


def _attention(b, x, heads=4, kv_heads=2, head_dim=16, k=32, v=32, rows=8, **scores):
    caches = b.state("k_cache", "f16", (8, k)), b.state("v_cache", "f16", (rows, v))
    sizes = {"heads": heads, "kv_heads": kv_heads, "head_dim": head_dim}
    sizes |= {"layer": 0, **scores}
    return b.attention(x, *caches, b.state("gains", "f32", (1, heads), fill=1), "y", **sizes)


def _store(b, x, k=64, v=64, rows=4):
    caches = b.state("k_cache", "f16", (rows, k)), b.state("v_cache", "f16", (8, v))
    b.store([(x, cache) for cache in caches], "y")


BAD = {
    "norm of another width": _norm,
    "layer norm: weight": lambda b, x: b.layer_norm(x, b.weight("short norm"), None, 1e-5, "y"),
    "layer norm: bias": lambda b, x: b.layer_norm(
        x, b.weight("norm"), b.weight("short norm"), 1e-5, "y"
    ),
    "matmul of another width": lambda b, x: b.matmul(x, b.weight("narrow"), "y"),
    "rope: heads do not fill the row": lambda b, x: _rope(b, x, head_dim=24, rotary_dim=24),
    "rope: more rotary values than a head": lambda b, x: _rope(b, x, rotary_dim=18),
    "rope: odd": lambda b, x: _rope(b, x, rotary_dim=15),
    "rope: none": lambda b, x: _rope(b, x, rotary_dim=0),
    "rope: a negative temperature": lambda b, x: _rope(b, x, temperature=-0.1),
    "rope: a temperature of nothing": lambda b, x: _rope(b, x, temperature_length=0),
    "rope: factors": lambda b, x: _rope(b, x, rotary_dim=8, factors=b.weight("factors")),
    "store: the first": lambda b, x: _store(b, x, k=32),
    "store: the second": lambda b, x: _store(b, x, v=32),
    "store: less than a step": lambda b, x: _store(b, x, rows=3),
    "attention: queries": lambda b, x: _attention(b, x, heads=3),
    "attention: groups": lambda b, x: _attention(b, x, kv_heads=3, k=48, v=48),
    "attention: k": lambda b, x: _attention(b, x, k=64),
    "attention: v": lambda b, x: _attention(b, x, v=64),
    "attention: fewer values than keys": lambda b, x: _attention(b, x, rows=7),
    "attention: sinks": lambda b, x: _attention(b, x, sinks=b.weight("short norm")),
    "attention: a negative cap": lambda b, x: _attention(b, x, softcap=-1.0),
    "silu_mul": lambda b, x: b.silu_mul(x, b.matmul(x, b.weight("k"), "k"), "y"),
    "shift: no such layer": lambda b, x: b.shift(
        x, b.state("shifts", "f32", (2, x.shape[1])), "y", layer=2
    ),
    "shift: wider": lambda b, x: b.shift(
        x, b.state("shifts", "f32", (2, 2 * x.shape[1])), "y", layer=0
    ),
    "add_bias: shorter": lambda b, x: b.add_bias(x, b.weight("short norm"), "y"),
    "add_bias: a matrix": lambda b, x: b.add_bias(x, b.weight("q"), "y"),
    "add": lambda b, x: b.add(x, b.matmul(x, b.weight("k"), "k"), "y"),
    "a name twice": lambda b, x: b.output_rows(x, "x"),
}


@pytest.mark.parametrize("problem", BAD)
def test_operands_that_do_not_fit_are_refused(problem):
    b = builder()
    with pytest.raises(ValueError):
        BAD[problem](b, b.embed(b.weight("table"), "x"))


def test_what_fits_is_accepted():
    b = builder()
    x = b.embed(b.weight("table"), "x")
    assert b.rope(
        x, "rope", head_dim=16, rotary_dim=16, theta=1e4, factors=b.weight("factors")
    ).shape == (4, 64)
    assert _attention(b, x).shape == (4, 64)
    kept = [b.matmul(x, b.weight(n), n + "y") for n in "kv"]
    b.store([*zip(kept, _caches(b), strict=True)], "store")


def _caches(b):
    return b.state("k_cache", "f16", (8, 32)), b.state("v_cache", "f16", (8, 32))


def test_all_tokens_and_the_last_ones_do_not_mix():
    b = builder(tokens=1, outputs=1)  # here the shapes alone are equal
    x = b.embed(b.weight("table"), "x")
    with pytest.raises(ValueError, match="outputs"):
        b.add(x, b.output_rows(x, "last"), "y")


def test_one_quantize_for_q_k_and_v():
    b = builder(integer=True)
    x = b.rms_norm(b.embed(b.weight("table"), "x"), b.weight("norm"), 1e-5, "h")
    for name in ("q", "k", "v", "float"):
        y = b.matmul(x, b.weight(name), name + "y")
    plan = b.finish(y)
    names = [op.name for op in plan.ops]
    assert names == ["embed", "rms_norm", "quantize", *["matmul"] * 4]
    quantized = plan.tensors[plan.ops[2].outputs[0]]
    assert (quantized.dtype, quantized.shape, quantized.rows) == ("a8", (4, 64), "tokens")
    assert [op.inputs[0] for op in plan.ops[3:]] == [quantized.id] * 3 + [x.id]


def test_a_product_may_ask_for_float_inputs():
    b = builder(integer=True)
    x = b.embed(b.weight("table"), "x")
    b.matmul(x, b.weight("q"), "qy")
    plan = b.finish(b.matmul(x, b.weight("v"), "vy", float_inputs=True))
    assert [op.name for op in plan.ops] == ["embed", "quantize", "matmul", "matmul"]
    assert [plan.tensors[op.inputs[0]].dtype for op in plan.ops[2:]] == ["a8", "f32"]


def test_blocks_that_the_width_does_not_fill_are_not_quantized():
    b = builder(integer=True)
    narrow = b._scratch("narrow x", 48)
    b.matmul(narrow, b.weight("narrow integers"), "y")
    assert [op.name for op in b._ops] == ["matmul"]


def test_a32_quantizes_nothing():
    b = builder(integer=False)
    b.matmul(b.embed(b.weight("table"), "x"), b.weight("q"), "y")
    assert [op.name for op in b._ops] == ["embed", "matmul"]


def test_a_plan_is_frozen():
    b = builder()
    x = b.embed(b.weight("table"), "x")
    plan = b.finish(b.rms_norm(x, b.weight("norm"), 1e-5, "y"))
    with pytest.raises(AttributeError):
        plan.logits = 0
    with pytest.raises(AttributeError):
        plan.tensors[0].offset = 1
    with pytest.raises(TypeError):
        plan.ops[1].params["eps"] = 0.0
    assert isinstance(plan.ops, tuple)


def test_scratch_that_lives_together_lies_apart_and_logits_stay():
    b = builder(integer=True)
    x = b.embed(b.weight("table"), "x")
    for i in range(3):
        h = b.rms_norm(x, b.weight("norm"), 1e-5, f"{i}.h")
        x = b.add(x, b.matmul(h, b.weight("q"), f"{i}.y"), f"{i}.sum")
    logits = b.matmul(b.output_rows(x, "rows"), b.weight("table"), "logits")
    plan = b.finish(logits)
    last_use = {i: n for n, op in enumerate(plan.ops) for i in op.inputs + op.outputs}
    last_use[logits.id] = math.inf
    live = {}
    for n, op in enumerate(plan.ops):
        for i in op.outputs:
            t = plan.tensors[i]
            span = range(t.offset, t.offset + t.shape[0] * row_bytes(t.dtype, t.shape[1]))
            assert span.stop <= plan.scratch_bytes
            for j, other in live.items():
                if last_use[j] >= n:
                    assert span.stop <= other.start or other.stop <= span.start, (i, j)
            live[i] = span
    total = sum(s.stop - s.start for s in live.values())
    assert plan.scratch_bytes < total, "nothing was shared"
    assert all(t.kind is not Kind.SCRATCH or t.id in live for t in plan.tensors)


def test_logits_outlive_the_ops_after_them():
    b = builder()
    logits = b.matmul(b.embed(b.weight("table"), "x"), b.weight("q"), "logits")
    h = b.add(logits, logits, "0")
    for i in range(1, 5):
        h = b.add(h, h, str(i))
    plan = b.finish(logits)
    kept = plan.tensors[plan.logits]
    size = kept.shape[0] * row_bytes(kept.dtype, kept.shape[1])
    for op in plan.ops[2:]:
        after = plan.tensors[op.outputs[0]]
        assert abs(after.offset - kept.offset) >= size


def test_the_smallest_plan_that_takes_a_step():
    def plan(tokens, outputs):
        b = builder(tokens=tokens, outputs=outputs)
        return b.finish(b.embed(b.weight("table"), "x"))

    program = Program((plan(1, 1), plan(8, 1), plan(16, 4)), 32, 40)
    sizes = [program.plan_for(n, o).max_tokens for n, o in ((1, 1), (2, 1), (8, 1), (9, 1), (2, 2))]
    assert sizes == [1, 8, 8, 16, 16]
    for n, o in ((17, 1), (16, 5)):
        with pytest.raises(ValueError, match=f"{n} tokens and {o} outputs"):
            program.plan_for(n, o)


def test_a_step_as_words():
    import numpy as np

    step = Step(np.array([7, 8, 9], np.int32), start=5, outputs=2)
    words = step.pack(4)
    assert words.dtype == np.int32
    assert words[:5].tolist() == [3, 5, 8, 1, 2]
    assert words[HEADER_WORDS:].tolist() == [7, 8, 9, 0]
    assert [step.rows(kind, 11) for kind in ("tokens", "outputs", "fixed")] == [3, 2, 11]


def test_bytes_of_a_row():
    assert [row_bytes(d, 64) for d in ("f32", "f16", "a8")] == [256, 128, 64 + 2 * 12]
    with pytest.raises(ValueError, match="q4_1"):
        row_bytes("q4_1", 64)


def test_a_layer_ends_where_its_page_says():
    b = builder()
    x = b.embed(b.weight("table"), "embedding")
    with pytest.raises(ValueError, match="last op"):
        b.layer_end(b.state("elsewhere", "f32", x.shape))
    for layer in range(2):
        x = b.layer_end(b.add(x, x, f"layers.{layer}.residual"))
    plan = b.finish(b.add(x, x, "logits"))
    labels = [plan.ops[end].label for end in plan.layer_ends]
    assert labels == ["layers.0.residual", "layers.1.residual"]
