"""Steps that several sequences share on the C++ executor: the values that NumPy defines, and of a
sequence the same bits whatever else is in the step."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from llm_lite.core.errors import RequestError
from llm_lite.core.exec.compare import compare
from llm_lite.core.exec.cpu import plan_rows
from llm_lite.core.exec.cpu.executor import CpuExecutor
from llm_lite.core.exec.numpy_executor import NumpyExecutor
from llm_lite.core.formats.gguf_reader import open_gguf
from llm_lite.core.models.model import BuildOptions
from llm_lite.core.models.registry import read_model
from llm_lite.core.plan.builder import Bucket, PlanBuilder
from llm_lite.core.plan.checks import WHOLE_WORDS
from llm_lite.core.plan.plan import Kind, Program, Tensor
from llm_lite.core.plan.step import PAGE, PageShape, Segment, Step
from llm_lite.core.processor import available_isas
from llm_lite.core.quant.tensor import TensorData
from tests.core.exec import one_op
from tests.core.exec.one_op import OneOp, max_error, weight
from tests.make_gguf import write_tiny_llama
from tests.pairs import each_pair

I32 = NDArray[np.int32]
VOCABULARY = 300
OWN = ("int4", "int8")  # formats that no file has
LENGTHS = (140, 3, 129, 17)  # tokens of the sequences
PAGES = PageShape(pages=15, segments=6, context=3 * PAGE)


class Tiny:
    """A tiny llama whose matrices are of a type, of files or our own."""

    def __init__(self, folder: Path, dtype: str = "f32", **sizes: object) -> None:
        own = dtype in OWN
        path = folder / "tiny.gguf"
        write_tiny_llama(path, context=512, dtype="f32" if own else dtype, **sizes)
        file = open_gguf(path)
        self.tensors: Mapping[str, TensorData] = file.tensors
        if own:
            self.tensors = {
                name: weight(name, dtype, data.dequantize()) if len(data.shape) == 2 else data
                for name, data in file.tensors.items()
            }
        self.model = read_model(file.metadata, self.tensors, path)

    def program(self, *, a8: bool = False, kv: str = "f32", paged: bool = True) -> Program:
        buckets = (Bucket(1, 1), Bucket(9, 9), Bucket(150, 20))
        pages = PAGES if paged else None
        options = BuildOptions(PAGES.context, kv, kv, "f32", a8, buckets, 256, pages=pages)
        return self.model.build(options)


class Sequence:
    """Tokens of one sequence, read in chunks that end at multiples of a page."""

    def __init__(self, rng: np.random.Generator, length: int, pages: I32, decoded: int) -> None:
        self.tokens = rng.integers(0, VOCABULARY, length + decoded).astype(np.int32)
        self.pages = pages
        self.prompt = length
        self.done = 0

    @property
    def left(self) -> int:
        return len(self.tokens) - self.done

    def take(self) -> tuple[I32, Segment]:
        end = self.done + 1
        if self.done < self.prompt:
            end = min(self.prompt, (self.done // PAGE + 1) * PAGE)
        tokens = self.tokens[self.done : end]
        outputs = min(len(tokens), 2)
        segment = Segment(self.done, len(tokens), outputs, self.pages[: -(-end // PAGE)])
        self.done = end
        return tokens, segment


def sequences(seed: int) -> list[Sequence]:
    rng = np.random.default_rng(seed)
    pages = rng.permutation(PAGES.pages).astype(np.int32)
    return [
        Sequence(rng, length, pages[2 * i : 2 * i + 2], decoded=4)
        for i, length in enumerate(LENGTHS)
    ]


def step_of(parts: list[tuple[I32, Segment]]) -> Step:
    segments = tuple(segment for _, segment in parts)
    tokens = np.concatenate([tokens for tokens, _ in parts])
    return Step(tokens, 0, sum(s.outputs for s in segments), segments)


Part = tuple[I32, Segment]
Rows = dict[int, list[NDArray[np.float32]]]


def mixed(most: int, seed: int, company: int) -> Iterator[list[tuple[int, Part]]]:
    """Steps of at most so many tokens in which all sequences are read and go on, by chance."""
    rng = np.random.default_rng(company)
    open_ones = dict(enumerate(sequences(seed)))
    while open_ones:
        chosen: list[tuple[int, Part]] = []
        for i in rng.permutation(list(open_ones))[: rng.integers(1, PAGES.segments + 1)].tolist():
            part = open_ones[i].take()
            if sum(s.count for _, (_, s) in chosen) + len(part[0]) > most:
                open_ones[i].done -= len(part[0])
                continue
            chosen.append((i, part))
            if not open_ones[i].left:
                del open_ones[i]
        yield chosen


def together(executor: CpuExecutor, seed: int, company: int) -> Rows:
    """Logits by sequence."""
    found: Rows = {i: [] for i in range(len(LENGTHS))}
    for chosen in mixed(executor.program.max_tokens, seed, company):
        rows = list(executor.run(step_of([part for _, part in chosen])))
        for i, (_, segment) in chosen:
            found[i].extend(rows[: segment.outputs])
            del rows[: segment.outputs]
    return found


def alone(executor: CpuExecutor, seed: int) -> Rows:
    found: Rows = {}
    for i, sequence in enumerate(sequences(seed)):
        found[i] = []
        while sequence.left:
            found[i].extend(executor.run(step_of([sequence.take()])))
    return found


@each_pair(
    "isa, dtype, threads",
    available_isas(),
    ("f32", "f16", "bf16", "int4", "int8", "q4_0", "q4_1", "q8_0", "q4_k", "q6_k"),
    (1, 3),
)
def test_a_sequence_gets_the_same_bits_alone_and_together(
    tmp_path: Path, isa: str, dtype: str, threads: int
) -> None:
    file = Tiny(tmp_path, dtype, width=256, ffn=256, heads=4, kv_heads=2, layers=1)
    for a8 in (False, True):
        program = file.program(a8=a8, kv="f16")
        executor = CpuExecutor(program, file.tensors, threads, isa=isa)
        expected = alone(executor, 5)
        for company in (1, 2):
            for i, rows in together(executor, 5, company).items():
                np.testing.assert_array_equal(rows, expected[i])
        executor.close()


@pytest.mark.parametrize("kv", ["f16", "f32", "i8", "i4"])
@pytest.mark.parametrize("a8", [False, True])
def test_no_op_leaves_its_tolerance(tmp_path: Path, kv: str, a8: bool) -> None:
    file = Tiny(tmp_path, heads=16, kv_heads=2, head_dim=24)
    program = file.program(a8=a8, kv=kv)
    cpu, reference = CpuExecutor(program, file.tensors), NumpyExecutor(program, file.tensors)
    for chosen in mixed(program.max_tokens, 8, 1):
        assert compare(reference, cpu, step_of([part for _, part in chosen])) is None


HEADS = [(1, 1, 1), (4, 2, 13), (9, 3, 64), (8, 8, 64), (12, 2, 16), (50, 1, 4)]
CACHES = [("f16", "f16"), ("f32", "i8"), ("i8", "f16"), ("i4", "i4")]
SPANS = (((0, 1), (5, 1), (383, 1), (127, 1)), ((128, 1), (250, 100), (0, 3)), ((300, 1),))


@each_pair(
    "isa, shape, window, cache, softcap, sinks",
    available_isas(),
    HEADS,
    (0, 7, 200),
    CACHES,
    (0.0, 0.7),
    (None, 2.0),
)
def test_attention_to_pages(
    isa: str,
    shape: tuple[int, int, int],
    window: int,
    cache: tuple[str, str],
    softcap: float,
    sinks: float | None,
) -> None:
    """Sequences whose pages are full already read on, far and near the beginning."""
    heads, kv_heads, head_dim = shape
    head_dim += -head_dim % max(WHOLE_WORDS.get(dtype, 1) for dtype in cache)
    case = OneOp()
    case.inputs(heads * head_dim, "q", scale=2)
    case.inputs(kv_heads * head_dim, "k", "v")
    if sinks:
        case.weights["sinks"] = weight("sinks", "f32", case.rng.normal(0, sinks, heads))

    def build(b: PlanBuilder) -> Tensor:
        q, k, v = (case.input(b, name) for name in "qkv")
        rows = (PAGES.pages * PAGE, kv_heads * head_dim)
        caches = [
            b.state(name, dtype, rows, block=head_dim)
            for name, dtype in zip(("k_cache", "v_cache"), cache, strict=True)
        ]
        b.store([(k, caches[0]), (v, caches[1])], "store")
        gains = b.state("gains", "f32", (1, heads), fill=0.5)
        own = b.weight("sinks") if sinks else None
        sizes = {"heads": heads, "kv_heads": kv_heads, "head_dim": head_dim}
        scores = {"window": window, "softcap": softcap, "sinks": own}
        return b.attention(q, *caches, gains, "y", layer=0, **scores, **sizes)

    builder = PlanBuilder(case.weights, Bucket(128, 1), integer_activations=False)
    plan = builder.finish(build(builder))
    program = Program((plan,), PAGES.context, one_op.VOCABULARY, PAGES)
    cpu = CpuExecutor(program, case.weights, 2, isa=isa)
    reference = NumpyExecutor(program, case.weights)
    for tensor in plan.tensors:
        if tensor.kind is Kind.STATE and tensor.name != "gains":
            past = case.rng.normal(0, 1, tensor.shape).astype(np.float32)
            for executor in (cpu, reference):
                executor.write(plan, tensor, Step(np.zeros(1, np.int32), 0), past)
    for spans in SPANS:
        pages = case.rng.permutation(PAGES.pages).astype(np.int32).reshape(-1, 3)
        parts = tuple(Segment(*span, 0, pages[i]) for i, span in enumerate(spans))
        tokens = case.rng.integers(0, one_op.VOCABULARY, sum(s.count for s in parts))
        shared = Step(tokens.astype(np.int32), 0, 0, parts)
        assert max_error(program, case.weights, shared, cpu, reference) <= 5e-6
    cpu.close()


def step(*segments: Segment, count: int = 0, outputs: int = -1, start: int = 0) -> Step:
    tokens = np.zeros(count or sum(s.count for s in segments), np.int32)
    wanted = sum(s.outputs for s in segments) if outputs < 0 else outputs
    return Step(tokens, start, wanted, segments)


def segment(start: int = 0, count: int = 1, outputs: int = 1, pages: object = (0,)) -> Segment:
    return Segment(start, count, outputs, np.array(pages, np.int32))


WRONG = [
    (step(*[segment()] * 7), "7 sequences, at most 6"),
    (Step(np.zeros(2, np.int32), 0, 1), "0 sequences"),
    (step(segment(pages=(15,))), "page 15 of a cache of 15"),
    (step(segment(pages=(-1,))), "page -1 of a cache"),
    (step(segment(pages=())), "a table of 0 pages for 1 positions"),
    (step(segment(start=127, count=2)), "a table of 1 pages for 129 positions"),
    (step(segment(pages=(0, 1, 2, 3))), "a table of 4 pages for 1 positions, at most 3"),
    (step(segment(start=-1)), "positions -1..-1 do not fit"),
    (step(segment(start=3 * PAGE, pages=(0, 1, 2))), "a table of 3 pages for 385"),
    (step(segment(), count=2), "sequences of 1 tokens with 1 outputs in a step of 2 with 1"),
    (step(segment(), segment(outputs=0), outputs=2), "with 1 outputs in a step of 2 with 2"),
    (step(segment(), start=1), "sequences of 1 tokens"),
    (step(segment(count=0, outputs=0), segment()), "a sequence of 0 tokens"),
    (step(segment(count=2, outputs=3), segment(count=2)), "a sequence of 2 tokens with 3 outputs"),
    (step(segment(outputs=-1), segment(), segment()), "a sequence of 1 tokens with -1 outputs"),
]


@pytest.mark.parametrize("wrong, sentence", WRONG, ids=[sentence for _, sentence in WRONG])
def test_a_step_that_leads_outside_is_refused(tmp_path: Path, wrong: Step, sentence: str) -> None:
    file = Tiny(tmp_path)
    executor = CpuExecutor(file.program(), file.tensors, 1)
    with pytest.raises(RequestError, match=sentence):
        executor.run(wrong)


def test_caches_of_one_sequence_are_not_shared(tmp_path: Path) -> None:
    file = Tiny(tmp_path)
    executor = CpuExecutor(file.program(paged=False), file.tensors, 1)
    with pytest.raises(RequestError, match="several sequences for a cache of one"):
        executor.run(step(segment()))


def test_gains_without_a_row_for_each_slot_are_refused(tmp_path, monkeypatch):
    tiny = Tiny(tmp_path)
    program, shape_of = tiny.program(), plan_rows._step_shape
    for slots in (0, 2, 3):

        def shape(*known, slots=slots):
            found = shape_of(*known)
            return *found[:5], slots, *found[6:]

        monkeypatch.setattr(plan_rows, "_step_shape", shape)
        with pytest.raises(ValueError, match="lack slots"):
            CpuExecutor(program, tiny.tensors, 1)


def test_a_cache_that_is_no_ring_of_whole_pages_is_refused(tmp_path, monkeypatch):
    tiny, shape_of = Tiny(tmp_path), plan_rows._step_shape
    ringed = PageShape(pages=6, segments=2, context=3 * PAGE, ringed=3)
    buckets = (Bucket(1, 1), Bucket(9, 9))
    options = BuildOptions(3 * PAGE, "f32", "f32", "f32", False, buckets, PAGE, pages=ringed)
    program = tiny.model.build(options)
    queries = next(t for t in program.plans[0].tensors if t.name == "q_ring.0")
    assert (queries.shape[0], queries.ring_rows) == ((1 + 3) * PAGE, PAGE)
    CpuExecutor(program, tiny.tensors, 1).close()
    for pages, ring in ((6, 0), (6, 2), (7, 3)):

        def shape(*known, pages=pages, ring=ring):
            found = shape_of(*known)
            return *found[:4], pages, found[5], ring, *found[7:]

        monkeypatch.setattr(plan_rows, "_step_shape", shape)
        with pytest.raises(ValueError, match="lacks pages"):
            CpuExecutor(program, tiny.tensors, 1)


def test_where_pages_lie():
    shape = PageShape(pages=7, segments=1, context=4 * PAGE, ringed=4)
    pages = np.arange(7, dtype=np.int32)
    windows = np.array([1, -1, 0], np.int32)

    def places(rows, ring):
        return shape.places(pages, rows * PAGE, ring * PAGE, windows).tolist()

    assert places(7, 4) == list(range(7)), "all have rows"
    assert places(5, 2) == [0, 1, 0, 1, 2, 3, 4]
    assert places(4, 1) == [0, 0, 0, 0, 1, 2, 3]
    assert places(4, 2) == [0, 1, 0, 1, 3, 2, 2], "of windows, and one that no token sees"
    assert places(6, 4) == [0, 1, 2, 3, 5, 4, 4]
