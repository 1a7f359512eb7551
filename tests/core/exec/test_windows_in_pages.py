"""Caches with a window have fewer pages than others: every sequence gets the same bits."""

import numpy as np
import pytest

from llm_lite.core.errors import RequestError
from llm_lite.core.exec.cpu.executor import CpuExecutor
from llm_lite.core.exec.numpy_executor import NumpyExecutor
from llm_lite.core.loading.sources import open_source
from llm_lite.core.models.model import BuildOptions
from llm_lite.core.models.registry import read_model
from llm_lite.core.plan.builder import Bucket
from llm_lite.core.plan.plan import Kind
from llm_lite.core.plan.step import PAGE, Segment, Step, chat_pages, window_pages
from llm_lite.core.records import replace
from llm_lite.core.serving.pages import PagePool
from llm_lite.core.serving.sequence import PagedTokens
from llm_lite.core.serving.window_places import WindowPlaces
from tests.families import VOCABULARY, family_of
from tests.family_checks import write_case

CONTEXT, WINDOW, SEQUENCES = 6 * PAGE, 5, 3
OTHERS, PLACES = SEQUENCES * 6, SEQUENCES * window_pages(WINDOW)
SHAPE = chat_pages(CONTEXT, 32, segments=SEQUENCES + 1, others=OTHERS)
WINDOWS = replace(SHAPE, windowed=PLACES, window=WINDOW)
VULKAN = pytest.mark.vulkan


@pytest.fixture(scope="module", params=["gemma2", "gemma4", "mistral"])
def source(request, tmp_path_factory):
    folder, family = tmp_path_factory.mktemp("model") / "m", family_of(request.param)
    case = next(iter(family.cases)) if not family.rings else family.rings[0]
    return open_source(write_case(family, case, folder, max_position_embeddings=CONTEXT))


def program(source, pages):
    dtypes = {"k_dtype": "f16", "v_dtype": "f32", "q_dtype": "f16"}
    buckets = (Bucket(1, 1), Bucket(8, 8), Bucket(PAGE + 40, 8))
    options = BuildOptions(
        CONTEXT, integer_activations=False, buckets=buckets, query_rows=PAGE, pages=pages, **dtypes
    )
    return read_model(source.metadata, source.tensors, source.path).build(options)


class Sequences:
    """Three sequences of clients and the chat's, in pages of one cache."""

    def __init__(self, executor, pages, tokens):
        windows = WindowPlaces(pages) if pages.windowed else None
        self.pool = PagePool(pages.shared, pages.ringed, windows)
        self.executor = executor
        self.chat, *own = tokens
        self.paged = [PagedTokens(list(one), 6) for one in own]
        self.own = executor.program.pages.first_table

    def run(self, chat, counts):
        """The next tokens of the chat, from `chat` on, and of each sequence."""
        at, count = chat
        parts = [(Segment(at, count, min(count, 1), self.own), self.chat[at : at + count])]
        for paged, wanted in zip(self.paged, counts, strict=True):
            if wanted:
                assert paged.extend(self.pool, paged.computed + wanted)
                parts.append((paged.segment(wanted, 1), paged.next_tokens(wanted)))
        parts = [part for part in parts if part[0].count]
        tokens = np.concatenate([tokens for _, tokens in parts]).astype(np.int32)
        segments = tuple(segment for segment, _ in parts)
        outputs = sum(segment.outputs for segment in segments)
        logits = self.executor.run(
            Step(tokens, 0, outputs, segments, windows=self.pool.window_table)
        )
        for paged, wanted in zip(self.paged, counts, strict=True):
            paged.advance(self.pool, wanted)
        return logits


@pytest.mark.parametrize("backend", ["numpy", "cpu", pytest.param("vulkan", marks=VULKAN)])
def test_every_sequence_has_the_bits_that_it_has_in_whole_caches(request, source, backend):
    generator = np.random.default_rng(5)
    tokens = [generator.integers(3, VOCABULARY, CONTEXT).tolist() for _ in range(1 + SEQUENCES)]
    both = []
    for pages in (SHAPE, WINDOWS):
        made = program(source, pages)
        if backend == "vulkan":
            executor = request.getfixturevalue("make_vulkan")(made, source.tensors)
        else:
            kinds = {"numpy": (NumpyExecutor,), "cpu": (CpuExecutor, 2)}
            kind, *threads = kinds[backend]
            executor = kind(made, source.tensors, *threads)
            request.addfinalizer(executor.close)
        both.append(Sequences(executor, pages, tokens))
    whole, windowed = both
    assert held_rows(windowed) < held_rows(whole)
    done, seen = 0, set()
    for number in range(60):
        chat = (done, min(CONTEXT - done, int(generator.integers(0, 33))))
        counts = [0, 0, 0]
        reading = number % SEQUENCES  # one reads, the others write
        for index, paged in enumerate(whole.paged):
            counts[index] = min(paged.next_count(), 100) if index == reading else 1
            counts[index] = min(counts[index], paged.missing)
        if not chat[1] and not any(counts):
            continue
        found = [one.run(chat, counts) for one in both]
        np.testing.assert_array_equal(*found)
        done += chat[1]
        seen |= {int(place) for place in windowed.pool.windows.table}
    assert sum(len(paged.pages) for paged in windowed.paged) > PLACES, "more than there are places"
    assert seen >= set(range(PLACES)), "all of them were used"


def held_rows(one):
    states = one.executor.program.plans[0].tensors
    return sum(t.shape[0] for t in states if t.kind is Kind.STATE)


def test_a_page_that_a_token_sees_has_to_be_placed(source):
    executor = CpuExecutor(program(source, WINDOWS), source.tensors, 1)
    first, tokens = WINDOWS.ringed, np.array([5], np.int32)
    table = np.full(WINDOWS.shared, -1, np.int32)

    def step(start, pages, windows):
        segment = Segment(start, 1, 1, np.array(pages, np.int32))
        return Step(tokens, 0, 1, (segment,), windows=windows)

    with pytest.raises(RequestError, match=f"places of 0 pages .* not {WINDOWS.shared}"):
        executor.run(step(0, [first], None))
    with pytest.raises(RequestError, match="place -1 of a page in a cache with a window"):
        executor.run(step(0, [first], table))
    for place in (PLACES, PLACES + 4):
        table[0] = place
        with pytest.raises(RequestError, match=f"place {place} of a page .* has {PLACES}"):
            executor.run(step(0, [first], table))
    table[1] = 3
    executor.run(step(PAGE + WINDOW, [first, first + 1], table))  # the first is out of reach
    with pytest.raises(RequestError, match=f"place {PLACES + 4}"):
        executor.run(step(PAGE + WINDOW - 2, [first, first + 1], table))
    executor.run(step(0, [0], None))  # the chat's pages have their ring
