"""Attention that is not causal, of a source, or biased by distance, on the software driver, in
every shape of its workgroups, in plain steps and shared ones."""

from __future__ import annotations

import numpy as np
import pytest

from llm_lite.core.errors import DeviceError, RequestError, UnfitModelError
from llm_lite.core.exec.compare import compare
from llm_lite.core.exec.numpy_executor import NumpyExecutor
from llm_lite.core.exec.vulkan.tuning import Tuning
from llm_lite.core.plan.builder import Bucket, PlanBuilder
from llm_lite.core.plan.checks import WHOLE_WORDS
from llm_lite.core.plan.plan import Program
from llm_lite.core.plan.step import PAGE, PageShape, Segment, Step
from llm_lite.core.quant import rows
from llm_lite.core.quant.rows import SCALED
from llm_lite.core.records import replace
from tests.core.exec.vulkan.test_vulkan_attention import ATTENTIONS
from tests.core.exec.vulkan.vulkan_program import VOCABULARY, steps, weight
from tests.pairs import tiered_pairs

pytestmark = pytest.mark.vulkan

SPLIT = Tuning(attention_lanes=16, attention_splits=3, attention_share=20, subgroups=True)
WAYS = {name: ATTENTIONS[name] for name in ("own", "shared-sub", "vec")} | {"split": SPLIT}
CACHES = (("f32", "f32"), ("f16", "i8"), ("i8", "f16"), ("i4", "i4"))
SHAPES = ((1, 1, 4), (9, 3, 64), (4, 2, 24))  # heads, heads of keys, columns of a head
SOURCE = 140  # rows of the caches of a source
CONTEXT = 2 * PAGE
# Whom a token sees, and of a bias the column for a distance of 0 and the number of columns.
SEEN = {
    "all": ("bidirectional", None),
    "source": ("cross", None),
    "all, bias": ("bidirectional", (32, 65)),  # a multiple of 32 and one more
    "earlier": ("causal", None),  # as decoders
    "earlier, bias": ("causal", (12, 13)),
    "earlier, slopes": ("causal", (CONTEXT - 1, CONTEXT)),
}
NEW = tuple(name for name in SEEN if name != "earlier")


class Case:
    """A plan of one attention: x is its queries, and of `x` its keys and values are made."""

    def __init__(self, seen, types, shape, *, softcap=0.0, sinks=False, pages=None):
        self.kind, self.bias = SEEN[seen]
        self.types, self.softcap, self.sinks, self.pages = types, softcap, sinks, pages
        self.heads, self.kv_heads, self.head_dim = shape
        self.head_dim += -self.head_dim % max(WHOLE_WORDS.get(dtype, 1) for dtype in types)
        self.columns, self.kv = self.heads * self.head_dim, self.kv_heads * self.head_dim
        tensors = [
            weight("table", (VOCABULARY, self.columns)),
            weight("k", (self.kv, self.columns), seed=1, scale=self.columns**-0.5),
            weight("v", (self.kv, self.columns), seed=2, scale=self.columns**-0.5),
            weight("sinks", (self.heads,), seed=3),
            weight("bias", (self.heads, (self.bias or (0, 1))[1]), seed=4, scale=2.0),
        ]
        self.weights = {tensor.name: tensor for tensor in tensors}
        self.source = SOURCE if self.kind == "cross" else 0

    def plan(self, tokens):
        b = PlanBuilder(self.weights, Bucket(tokens, tokens), integer_activations=False)
        x = b.embed(b.weight("table"), "embed")
        places = self.pages.pages * PAGE if self.pages else CONTEXT
        count = self.source or places
        caches = [
            b.state(name, dtype, (count, self.kv), block=self.head_dim)
            for name, dtype in zip(("kc", "vc"), self.types, strict=True)
        ]
        if not self.source:
            k, v = (b.matmul(x, b.weight(name), f"{name}_rows") for name in ("k", "v"))
            b.store([(k, caches[0]), (v, caches[1])], "store")
        table, before = (b.weight("bias"), self.bias[0]) if self.bias else (None, 0)
        y = b.attention(
            x,
            *caches,
            b.state("gains", "f32", (1, self.heads), fill=0.5),
            "attention",
            layer=0,
            heads=self.heads,
            kv_heads=self.kv_heads,
            head_dim=self.head_dim,
            softcap=self.softcap,
            sinks=b.weight("sinks") if self.sinks else None,
            bias=table,
            bias_before=before,
            bidirectional=self.kind == "bidirectional",
            cross=self.kind == "cross",
        )
        return b.finish(b.output_rows(y, "rows"))

    def program(self, *sizes):
        plans = tuple(map(self.plan, sizes))
        return Program(plans, CONTEXT, self.columns, self.pages, self.source)

    def both(self, make_vulkan, tuning, *sizes):
        """The executor and NumPy's, whose sources are alike: stale rows are NaN where they can."""
        program = self.program(*sizes)
        executor = make_vulkan(program, self.weights, tuning=tuning)
        reference = NumpyExecutor(program, self.weights)
        if self.source:
            random = np.random.default_rng(6)
            for name, dtype in zip(("kc", "vc"), self.types, strict=True):
                values = random.normal(0, 1, (SOURCE, self.kv)).astype(np.float32)
                if dtype not in SCALED:
                    values[131:] = np.nan
                data = rows.encode(values, dtype, self.head_dim if dtype in SCALED else 0)
                for each in (executor, reference):
                    each.write_state(name, 0, data.reshape(SOURCE, -1))
        return executor, reference

    def step(self, count, start=0, source=0):
        begin = 0 if self.kind == "bidirectional" else start
        return replace(steps(count, count, begin), source=source if self.source else 0)


def _tolerance(types):
    return max({"f16": 2e-3, "f32": 2e-5, "i8": 2e-2, "i4": 0.2}[dtype] for dtype in types)


@tiered_pairs(
    "seen, way, types, shape, softcap, sinks",
    *(NEW, tuple(WAYS), CACHES, SHAPES, (0.0, 3.0), (False, True)),
)
def test_what_a_token_sees(make_vulkan, seen, way, types, shape, softcap, sinks):
    case = Case(seen, types, shape, softcap=softcap, sinks=sinks)
    executor, reference = case.both(make_vulkan, WAYS[way], 1, 127)
    chunks = [(127, 0, 131), (1, 0, 1), (13, 127, 13), (1, 140, 127), (100, 141, 2), (1, 241, 64)]
    for count, start, source in chunks:
        step = case.step(count, start, source)
        assert compare(reference, executor, step) is None, (count, start, source)
        found, expected = executor.run(step), reference.run(step)
        np.testing.assert_allclose(found, expected, atol=_tolerance(types), rtol=0)


def test_workgroups_share_the_positions_of_a_source(make_vulkan):
    """A token of a decoder over as few and as many positions as a share has, and more."""
    for types in (("f32", "f32"), ("f16", "i8"), ("i4", "i4")):
        case = Case("source", types, (9, 3, 64), sinks=True)
        executor, reference = case.both(make_vulkan, SPLIT, 1)
        (attention,) = [
            d for call in executor._calls(executor.program.plans[0]) for d in call
            if "SPLITS" in d.constants
        ]  # fmt: skip
        assert attention.whole
        for source in (1, 15, 16, 17, 31, 32, 33, 59, 60, 61, 96, 97, 131):
            step = case.step(1, 200, source)
            error = np.abs(executor.run(step) - reference.run(step)).max()
            assert error <= _tolerance(types), source


PAGES = PageShape(pages=9, segments=4, context=CONTEXT)
SHARED = {
    "vectors": Tuning(vector_tokens=4, matvec_tokens=1 << 16),
    "shared": Tuning(attention_lanes=16, share_heads=True, subgroups=True),
    "split": Tuning(attention_lanes=16, attention_splits=4, attention_share=32, subgroups=True),
    "tiles": Tuning(attention_lanes=16, matvec_tokens=2, attention_splits=3),
}


def _shared_step(case, lengths, source, starts=None, seed=0):
    """A step of a segment a length, in pages of their own."""
    random = np.random.default_rng(seed)
    starts = starts or [0] * len(lengths)
    free, segments = random.permutation(PAGES.pages).astype(np.int32), []
    for count, start in zip(lengths, starts, strict=True):
        pages, free = np.split(free, [-(-(start + count) // PAGE)])
        segments.append(Segment(start, count, count, pages))
    tokens = [np.random.default_rng(n).integers(0, VOCABULARY, n) for n in lengths]
    words = np.concatenate(tokens).astype(np.int32)
    return Step(words, 0, len(words), tuple(segments), source if case.source else 0)


def _alone(step):
    """Its segments as steps."""
    for (first, end), segment in zip(step.bounds, step.segments, strict=True):
        count = segment.outputs
        yield replace(step, tokens=step.tokens[first:end], outputs=count, segments=(segment,))


@tiered_pairs(
    "seen, way, types, shape, sinks",
    *(NEW, tuple(SHARED), CACHES, SHAPES, (False, True)),
)
def test_shared_steps(make_vulkan, seen, way, types, shape, sinks):
    """As defined, and of each sequence the same bits alone and beside others."""
    case = Case(seen, types, shape, sinks=sinks, pages=PAGES)
    executor, reference = case.both(make_vulkan, SHARED[way], 4, 127)
    for lengths, source in (([1, 13, 100], 131), ([3], 1), ([1, 2, 1], 64)):
        step = _shared_step(case, lengths, source)
        assert compare(reference, executor, step) is None, lengths
        together = executor.run(step)
        alone = np.concatenate([executor.run(one) for one in _alone(step)])
        assert np.array_equal(together, alone), lengths


@pytest.mark.parametrize("way", SHARED)
def test_decoders_of_a_source_that_have_begun(make_vulkan, way):
    """One token each, or many, at other positions than those of the source."""
    case = Case("source", ("f32", "f16"), (9, 3, 64), pages=PAGES)
    executor, reference = case.both(make_vulkan, SHARED[way], 4, 127)
    for lengths, starts in (([1, 1, 1], [200, 3, 130]), ([20, 1], [100, 255])):
        step = _shared_step(case, lengths, 97, starts)
        assert compare(reference, executor, step) is None
        alone = np.concatenate([executor.run(one) for one in _alone(step)])
        assert np.array_equal(executor.run(step), alone)


def test_hidden_states_of_shared_steps(make_vulkan):
    """All tokens' rows, whose sequences are multiplied in steps of their own."""
    case = Case("all", ("f32", "f32"), (9, 3, 64), pages=PAGES)
    plans = []
    for tokens in (4, 127):
        plan = case.plan(tokens)
        attention = next(op for op in plan.ops if op.name == "attention")
        plans.append(replace(plan, logits=attention.outputs[0]))
    program = Program(tuple(plans), CONTEXT, VOCABULARY, PAGES)
    executor = make_vulkan(program, case.weights, tuning=SHARED["split"])
    reference = NumpyExecutor(program, case.weights)
    step = replace(_shared_step(case, [1, 13, 2], 0), outputs=0)
    step = replace(step, segments=tuple(replace(s, outputs=0) for s in step.segments))
    expected = reference.run(step)
    assert expected.shape == (16, case.columns)
    np.testing.assert_allclose(executor.run(step), expected, atol=2e-5, rtol=0)


def test_pipelines_know_only_what_their_plan_has(make_vulkan):
    """Those of decoders nothing of it, so that all of these share theirs."""
    names = {"BIDIRECTIONAL", "CROSS", "BIAS_COLUMNS", "BIAS_STRIDE", "BIAS_BEFORE"}
    for seen in SEEN:
        case = Case(seen, ("f32", "f32"), (4, 2, 24))
        executor, _ = case.both(make_vulkan, None, 5)
        calls = executor._calls(executor.program.plans[0])
        (found,) = [d for call in calls for d in call if d.variant.startswith("attention")]
        known = {"BIAS_COLUMNS", "BIAS_STRIDE", "BIAS_BEFORE"} if case.bias else set()
        known |= {case.kind.upper()} - {"CAUSAL"}
        assert names & set(found.constants) == known


def test_outputs_from_another_token_on(make_vulkan):
    case = Case("all", ("f32", "f32"), (4, 2, 24))
    executor, reference = case.both(make_vulkan, None, 13)
    step = case.step(13)
    whole = executor.run(step)
    some = replace(step, outputs=4, first_output=3)
    assert np.array_equal(executor.run(some), whole[3:7])
    assert compare(reference, executor, some) is None
    with pytest.raises(RequestError, match="4 outputs from token 10"):
        executor.run(replace(some, first_output=10))


@pytest.mark.parametrize("source", [0, SOURCE + 1])
def test_sources_that_do_not_fit_are_refused(make_vulkan, source):
    case = Case("source", ("f32", "f32"), (4, 2, 24))
    executor, _ = case.both(make_vulkan, None, 13)
    with pytest.raises(RequestError, match=f"a source of {source} positions"):
        executor.run(case.step(13, 0, source))


def test_heads_of_an_odd_width_are_refused(make_vulkan):
    case = Case("all", ("f32", "f32"), (4, 2, 9))
    with pytest.raises(UnfitModelError, match="attention heads of 9 values"):
        case.both(make_vulkan, None, 1)[0].prepare()


def test_a_bias_that_the_device_cannot_bind_is_told(device, make_vulkan, monkeypatch):
    info = replace(device.info, max_storage_buffer_range=200_000)
    monkeypatch.setattr(device, "info", info)
    case = Case("all, bias", ("f32", "f32"), (9, 3, 64))
    case.weights["bias"] = weight("bias", (9, 8000), seed=4)
    with pytest.raises(DeviceError, match="tensor bias: 9 heads of 8000 distances"):
        case.both(make_vulkan, None, 1)[0].prepare()


def test_rows_of_positions_and_types_in_shared_steps(make_vulkan):
    """Each sequence counts its own positions, and its own separators."""
    tensors = [weight("table", (VOCABULARY, 32)), weight("rows", (300, 32)), weight("of", (2, 32))]
    weights = {tensor.name: tensor for tensor in tensors}
    b = PlanBuilder(weights, Bucket(127, 127), integer_activations=False)
    x = b.embed(b.weight("table"), "embed")
    x = b.add(x, b.position_rows(b.weight("rows"), "positions", first=2), "placed")
    x = b.add(x, b.type_rows(b.weight("of"), "types", separator=5), "typed")
    program = Program((b.finish(b.output_rows(x, "last")),), CONTEXT, 32, PAGES)
    executor, reference = make_vulkan(program, weights), NumpyExecutor(program, weights)
    case = Case("all", ("f32", "f32"), (1, 1, 4), pages=PAGES)
    step = _shared_step(case, [13, 1, 100], 0)
    tokens = step.tokens.copy()
    tokens[[3, 13, 20, 30]] = 5  # one in the first, alone in the second, two in the third
    step = replace(step, tokens=tokens)
    assert compare(reference, executor, step) is None
    types = reference.read(program.plans[0], _named(program, "types"), step)
    second = weights["of"].dequantize()[1]
    assert (types == second).all(axis=1).nonzero()[0].tolist() == [*range(4, 13), *range(21, 114)]


def _named(program, name):
    return next(t for t in program.plans[0].tensors if t.name == name)
