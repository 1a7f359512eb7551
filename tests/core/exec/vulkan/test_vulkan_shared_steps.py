"""Steps that several sequences share, on the software driver: against the definition, and each
sequence beside others against itself alone, to the bit."""

import numpy as np
import pytest

from llm_lite.core.errors import RequestError
from llm_lite.core.exec.compare import compare
from llm_lite.core.exec.numpy_executor import NumpyExecutor
from llm_lite.core.exec.vulkan.allocations import device_allocations
from llm_lite.core.exec.vulkan.executor import TABLE_BYTES
from llm_lite.core.exec.vulkan.tuning import Tuning
from llm_lite.core.formats.gguf_reader import open_gguf
from llm_lite.core.gpu.memory import STAGING_BYTES
from llm_lite.core.loading.sources import open_source
from llm_lite.core.models.model import BuildOptions
from llm_lite.core.models.registry import read_model
from llm_lite.core.plan.builder import Bucket, PlanBuilder
from llm_lite.core.plan.plan import Kind, Program
from llm_lite.core.plan.step import PAGE, PageShape, Segment, Step
from llm_lite.core.records import replace
from tests.core.exec.vulkan.vulkan_program import VOCABULARY, are_whole_words, weight
from tests.families import family_of
from tests.family_checks import write_case
from tests.make_gguf import write_tiny_llama
from tests.pairs import tiered_pairs
from tests.tiers import tiered

pytestmark = pytest.mark.vulkan

PAGES = PageShape(pages=9, segments=4, context=2 * PAGE)
PLAIN = Tuning(attention_lanes=16, share_heads=True)
WAYS = {
    "vectors": Tuning(vector_tokens=4, matvec_tokens=1 << 16),
    "rows": replace(PLAIN, matvec_tokens=1 << 16, matvec_lanes=8),
    "own": replace(PLAIN, share_heads=False),
    "split": replace(PLAIN, attention_splits=4, attention_share=32, tile_lanes=16, subgroups=True),
    "tiles": replace(PLAIN, matvec_tokens=2, attention_splits=3),
}
FAMILIES = (  # caps and windows, norms of queries, layers that share a cache, learned positions,
    *(("gemma2", "vectors"), ("gemma3", "split"), ("gemma4", "vectors"), ("gpt2", "split")),
    *(("ministral3", "vectors"), ("ministral3", "split")),  # queries that grow
)


class Mix:
    """Sequences of random tokens in pages of their own, and steps of some tokens of several."""

    def __init__(self, lengths, seed=0, vocabulary=32):
        self.random = np.random.default_rng(seed)
        self.tokens = [self.random.integers(0, vocabulary, n).astype(np.int32) for n in lengths]
        self.place()

    def place(self):
        """Other pages for all."""
        free = self.random.permutation(PAGES.pages).astype(np.int32)
        needed = [-(-len(tokens) // PAGE) for tokens in self.tokens]
        self.pages = np.split(free[: sum(needed)], np.cumsum(needed)[:-1])

    def step(self, *parts):
        """Of parts (sequence, first token, count), all with logits."""
        segments = tuple(Segment(at, count, count, self.pages[i]) for i, at, count in parts)
        tokens = np.concatenate([self.tokens[i][at : at + count] for i, at, count in parts])
        return Step(tokens, 0, len(tokens), segments)

    def chunks(self, sizes):
        """By sequence, its parts: of one or a few tokens, or many, as `sizes` has them."""
        found = []
        for number, tokens in enumerate(self.tokens):
            own, at = [], 0
            while at < len(tokens):
                count = min(int(self.random.choice(sizes)), len(tokens) - at)
                own.append((number, at, count))
                at += count
            found.append(own)
        return found

    def together(self, chunks, most=48):
        """Steps of parts in random company, each with at most `most` tokens."""
        waiting = [list(own) for own in chunks]
        while any(waiting):
            step, room = [], most
            for i in self.random.permutation(len(waiting)):
                if waiting[i] and self.random.random() < 0.8 and waiting[i][0][2] <= room:
                    room -= waiting[i][0][2]
                    step.append(waiting[i].pop(0))
            if step:
                yield step


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    path = write_tiny_llama(tmp_path_factory.mktemp("model") / "tiny.gguf", context=512)
    file = open_gguf(path)
    return read_model(file.metadata, file.tensors, path), file.tensors


def build(model, *, kv="f32", integer=False, sizes=(1, 8, 48)):
    buckets = tuple(Bucket(size, size) for size in sizes)
    context = PAGES.context
    options = BuildOptions(context, kv, kv, "f32", integer, buckets, 256, pages=PAGES)
    return model.build(options)


LOGITS = {"f16": 1e-3, "i8": 0.1, "i4": 0.5}  # tolerance: what is rounded falls to either side


@tiered_pairs("way, kv, integer", tuple(WAYS), ("f16", "i8", "i4"), (False, True))
def test_shared_steps_are_as_defined(make_vulkan, tiny, way, kv, integer):
    model, tensors = tiny
    program = build(model, kv=kv, integer=integer)
    executor = make_vulkan(program, tensors, tuning=WAYS[way])
    reference = NumpyExecutor(program, tensors)
    mix = Mix((133, 40, 3))
    for parts in ([(0, 0, 48)], [(0, 48, 48)], [(0, 96, 36)], [(2, 0, 3), (0, 132, 1), (1, 0, 40)]):
        step = mix.step(*parts)
        assert compare(reference, executor, step) is None
    found, expected = executor.run(step), reference.run(step)
    np.testing.assert_allclose(
        found, expected, atol=LOGITS[kv] if not integer else max(0.1, LOGITS[kv])
    )


@tiered_pairs("way, kv, integer", tuple(WAYS), ("f32", "i4"), (False, True))
def test_the_same_bits_alone_and_together(make_vulkan, tiny, way, kv, integer):
    model, tensors = tiny
    program = build(model, kv=kv, integer=integer)
    mix = Mix((160, 131, 40, 20), seed=1)
    chunks = mix.chunks((1, 5, 30))
    first = make_vulkan(program, tensors, tuning=WAYS[way])
    alone = {part: first.run(mix.step(part)) for own in chunks for part in own}
    mix.place()
    executor = make_vulkan(program, tensors, tuning=WAYS[way])
    for parts in mix.together(chunks):
        found, at = executor.run(mix.step(*parts)), 0
        for part in parts:
            assert np.array_equal(found[at : at + part[2]], alone[part]), (part, parts)
            at += part[2]


@tiered("name, way", FAMILIES, first=(("gemma4", "vectors"), ("ministral3", "split")))
def test_families(make_vulkan, tmp_path, name, way):
    family = family_of(name)
    source = open_source(write_case(family, next(iter(family.cases)), tmp_path / "m"))
    program = build(read_model(source.metadata, source.tensors, source.path), sizes=(8, 24))
    executor = make_vulkan(program, source.tensors, tuning=WAYS[way])
    reference = NumpyExecutor(program, source.tensors)
    mix = Mix((24, 13, 7), vocabulary=program.vocabulary)
    for parts in (
        [(0, 0, 10), (1, 0, 13)],
        [(2, 0, 3), (0, 10, 9), (1, 3, 4)],
        [(0, 19, 1), (2, 3, 4)],
    ):
        assert compare(reference, executor, mix.step(*parts)) is None, parts


SHAPES = ((9, 3, 64, 0), (4, 2, 26, 5), (6, 3, 24, 70))  # heads, of keys, of a head; window


@tiered_pairs(
    "way, types, shape, softcap, sinks",
    *(
        ("vectors", "own", "split", "tiles"),
        (("f16", "f16"), ("f32", "i8"), ("i8", "f16"), ("i4", "i4")),
    ),
    *(SHAPES, (0.0, 5.0), (False, True)),
    possible=lambda way, types, shape, *_: are_whole_words(types, shape[2]),
)
def test_attention_over_pages(make_vulkan, way, types, shape, softcap, sinks):
    heads, kv_heads, head_dim, window = shape
    columns, kv = heads * head_dim, kv_heads * head_dim
    tensors = [
        weight("table", (VOCABULARY, columns)),
        weight("k", (kv, columns), seed=1, scale=columns**-0.5),
        weight("v", (kv, columns), seed=2, scale=columns**-0.5),
        weight("sinks", (heads,), seed=3),
    ]
    weights = {tensor.name: tensor for tensor in tensors}

    def plan(tokens):
        b = PlanBuilder(weights, Bucket(tokens, tokens), integer_activations=False)
        x = b.embed(b.weight("table"), "embed")
        rows = PAGES.pages * PAGE
        caches = [
            b.state(name, dtype, (rows, kv), block=head_dim)
            for name, dtype in zip(("kc", "vc"), types, strict=True)
        ]
        k, v = (b.matmul(x, b.weight(name), f"{name}_rows") for name in ("k", "v"))
        queries = b.state("ring", "f16", (rows, columns))
        b.store([(k, caches[0]), (v, caches[1]), (x, queries)], "store")
        own = {"softcap": softcap, "sinks": b.weight("sinks") if sinks else None}
        own |= {"heads": heads, "kv_heads": kv_heads, "head_dim": head_dim, "window": window}
        gains = b.state("gains", "f32", (1, heads), fill=0.5)
        y = b.attention(x, *caches, gains, "attention", layer=0, **own)
        return b.finish(b.output_rows(y, "rows"))

    program = Program((plan(4), plan(48)), PAGES.context, columns, PAGES)
    executor = make_vulkan(program, weights, tuning=WAYS[way])
    reference = NumpyExecutor(program, weights)
    mix = Mix((250, 140, 3, 30), vocabulary=VOCABULARY)
    for parts in mix.together(mix.chunks((47, 48))):
        assert compare(reference, executor, mix.step(*parts)) is None
    alone = [executor.run(mix.step((i, at, 1))) for i, at in ((0, 249), (1, 139), (2, 2))]
    step = mix.step((0, 249, 1), (1, 139, 1), (2, 2, 1))
    assert compare(reference, executor, step) is None
    assert np.array_equal(executor.run(step), np.concatenate(alone))
    many = mix.step((3, 0, 30), (0, 249, 1), (1, 139, 1))
    found = executor.run(many)
    assert np.array_equal(found[30:], np.concatenate(alone[:2]))


def test_logits_are_of_the_tokens_that_are_asked_for(make_vulkan, tiny):
    """Of the last tokens of each sequence, of none of some, or of none at all."""
    model, tensors = tiny
    program, mix = build(model), Mix((40, 30, 5))
    executor = make_vulkan(program, tensors, tuning=WAYS["split"])
    whole = mix.step((0, 0, 20), (1, 0, 6), (2, 0, 3))
    rows = executor.run(whole)

    def asked(*outputs):
        segments = zip(whole.segments, outputs, strict=True)
        segments = tuple(replace(segment, outputs=count) for segment, count in segments)
        return replace(whole, segments=segments, outputs=sum(outputs))

    assert executor.run(asked(0, 0, 0)).shape == (0, program.vocabulary)
    found = executor.run(asked(2, 0, 3))
    assert np.array_equal(found, rows[[18, 19, 26, 27, 28]])


def test_nothing_is_recorded_for_a_step(make_vulkan, tiny):
    model, tensors = tiny
    program = build(model)
    executor = make_vulkan(program, tensors)
    executor.prepare()
    assert executor.dispatches < sum(len(plan.ops) for plan in program.plans), "sequences share all"
    recorded, mix = executor.recorded, Mix((140, 131, 3, 60))
    for parts in mix.together(mix.chunks((1, 5, 40))):
        executor.run(mix.step(*parts))
    assert executor.recorded == recorded


def test_a_prefix_is_held_once(make_vulkan, tiny):
    """Its page is in both tables, and the rows of all caches lie where the tables say."""
    model, tensors = tiny
    program = build(model, sizes=(150,))
    executor, reference = make_vulkan(program, tensors), NumpyExecutor(program, tensors)
    mix = Mix((140, 140))
    mix.tokens[1][:PAGE] = mix.tokens[0][:PAGE]
    mix.pages[1][0] = mix.pages[0][0]
    for parts in ([(0, 0, 140)], [(1, PAGE, 12), (0, 139, 1)]):
        found, expected = (e.run(mix.step(*parts)) for e in (executor, reference))
        np.testing.assert_allclose(found, expected, atol=1e-3)
    states = [t.name for t in program.plans[0].tensors if t.kind is Kind.STATE]
    assert any("q_ring" in name for name in states)
    for name in (name for name in states if "gains" not in name):
        for page in (*mix.pages[0], mix.pages[1][1]):
            found, expected = (
                e.read_state(name, int(page) * PAGE, 12).view(np.float32)
                for e in (executor, reference)
            )
            np.testing.assert_allclose(found, expected, atol=1e-4)


def test_what_is_estimated_is_allocated(device, make_vulkan, tiny):
    model, tensors = tiny
    program = build(model, kv="f16", integer=True)
    discrete = replace(device.info, kind="discrete")  # whose workgroups share positions
    executor = make_vulkan(program, tensors, tuning=Tuning.of(discrete))
    unique = {t.name: t for plan in program.plans for t in plan.tensors}
    weights = [t for t in unique.values() if t.kind is Kind.WEIGHT]
    found = device_allocations(program, weights, discrete)
    assert found.weights == executor._weights._arena.nbytes
    assert found.states == sum({b[0].handle: b[0].size for b in executor._state.values()}.values())
    parts, table = executor._parts[0][0].size, executor._table_arena.nbytes or TABLE_BYTES
    assert found.scratch == executor._scratch.size + parts + table
    assert found.host == STAGING_BYTES + executor._readback.size + executor._step.size


def test_what_does_not_fit_is_refused(make_vulkan, tiny):
    model, tensors = tiny
    executor, mix = make_vulkan(build(model), tensors), Mix((140, 3))
    good = mix.step((1, 0, 3))
    wrong = {
        "plain": Step(good.tokens, 0, 1),
        "outputs": replace(good, outputs=2),
        "page": replace(good, segments=(replace(good.segments[0], pages=np.array([9])),)),
        "table": replace(good, segments=(replace(good.segments[0], start=126),)),
        "token": replace(good, tokens=np.array([1, 2, 1 << 20], np.int32)),
    }
    for name, step in wrong.items():
        with pytest.raises(RequestError):
            executor.run(step)
            pytest.fail(name)
    executor.run(good)
