import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llm_lite.core.errors import CancelledError, RequestError
from llm_lite.core.exec.numpy_executor import NumpyExecutor
from llm_lite.core.generation.session import Session
from llm_lite.core.generation.steps import generate
from llm_lite.core.messages import SamplingOptions
from llm_lite.core.models.model import BuildOptions
from llm_lite.core.plan.builder import Bucket
from llm_lite.core.plan.step import chat_pages
from tests.runners import running

CONTEXT = 24
CHUNK = 4
GREEDY = SamplingOptions(temperature=0.0, repetition_penalty=1.0, max_new_tokens=100)
NO_END = frozenset[int]()


@pytest.fixture(scope="module")
def parts(tiny_llama):
    """Program with small chunks, so that everything crosses their borders; weights."""
    with running(tiny_llama) as runner:
        model_file = runner.model_file
        buckets = Bucket(1, 1), Bucket(CHUNK, CHUNK)
        pages = chat_pages(CONTEXT, CHUNK)
        build = BuildOptions(CONTEXT, "f32", "f32", "f32", False, buckets, pages=pages)
        yield model_file.model.build(build), model_file.file.tensors


@pytest.fixture
def session(parts):
    return Session(NumpyExecutor(*parts))


class Counting:
    """Says stop at the call after the given number of them."""

    def __init__(self, calls):
        self.left = calls

    def __call__(self):
        self.left -= 1
        return self.left < 0


_tokens = st.lists(st.integers(0, 2), min_size=1, max_size=CONTEXT)  # few tokens: many prefixes


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(_tokens, st.integers(0, 4), st.none() | st.integers(0, 60)), max_size=5))
def test_reuse_equals_a_fresh_prefill(parts, script):
    """Prompts, decoded tokens, cancelled work in any order: the cache tells the truth."""
    session = Session(NumpyExecutor(*parts))
    for prompt, decoded, cancel_after in script:
        stop = None if cancel_after is None else Counting(cancel_after)
        held = list(prompt)
        try:
            logits = session.prefill(prompt, stop)
            for token in range(min(decoded, CONTEXT - len(prompt))):
                held.append(token % 3)
                logits = session.decode(token % 3, stop)
        except CancelledError:
            continue
        fresh = Session(NumpyExecutor(*parts)).prefill(held)
        np.testing.assert_allclose(logits, fresh, atol=1e-5)
        assert session.context_used == len(held)


def test_how_much_is_reused(session):
    session.prefill([1, 2, 3, 4, 5, 6])
    assert session.reusable([1, 2, 3, 4, 5, 6, 7]) == 6
    assert session.reusable([1, 2, 3, 4, 5, 6]) == 5, "the last one is needed for its logits"
    assert session.reusable([1, 2, 9, 4]) == 2
    assert session.reusable([9]) == 0
    session.clear()
    assert session.reusable([1, 2, 3]) == 0
    assert session.context_used == 0


def test_only_what_differs_is_computed(session):
    steps = []
    run = session.executor.run
    session.executor.run = lambda step, stop=None: (
        steps.append((step.first_position, step.count)) or run(step, stop)
    )
    session.prefill(list(range(10)))
    assert steps == [(0, 4), (4, 4), (8, 2)]
    steps.clear()
    session.prefill([*range(7), 99, 98])
    assert steps == [(7, 2)]


def test_progress_counts_tokens(session):
    seen = []
    session.prefill(list(range(10)), progress=lambda done, total: seen.append((done, total)))
    assert seen == [(4, 10), (8, 10), (10, 10)]


def test_a_cancelled_prefill_keeps_whole_chunks(session):
    ops = len(session.executor.program.plans[1].ops)
    with pytest.raises(CancelledError):
        session.prefill(list(range(12)), Counting(2 * ops + 3))  # in the third chunk
    assert session.context_used == 8
    assert session.reusable(list(range(12))) == 8


@pytest.mark.parametrize("call", ["prefill", "logits"])
def test_prompts_that_cannot_be(session, call):
    session.prefill([1, 2, 3])
    for prompt, words in (
        ([], "the prompt is empty"),
        ([0] * (CONTEXT + 1), f"{CONTEXT + 1} tokens, but the context holds {CONTEXT}"),
        ([1, 300, 2], "token 300 is outside the vocabulary of 300"),
        ([1, -1], "token -1 is outside"),
        ([1 << 40], "outside the vocabulary"),
    ):
        with pytest.raises(RequestError, match=words):
            getattr(session, call)(prompt)
    assert session.context_used == 3, "nothing is lost"


@pytest.mark.parametrize("count", [1, 3, 4, 5, 8, 11])
def test_logits_of_every_token(session, parts, count):
    """Across the borders of chunks they are what one token at a time gives."""
    tokens = np.random.default_rng(count).integers(0, 300, count).tolist()
    rows = session.logits(tokens)
    assert rows.shape == (count, 300)
    assert rows.dtype == np.float32
    single = Session(NumpyExecutor(*parts))
    expected = [single.prefill(tokens[:1]), *(single.decode(t) for t in tokens[1:])]
    np.testing.assert_allclose(rows, np.stack(expected), atol=1e-5)
    assert np.array_equal(session.logits(tokens), rows), "from an empty cache"


def test_a_full_prompt_gets_one_token(session):
    chosen = list(generate(session, list(range(CONTEXT)), GREEDY, NO_END))
    assert len(chosen) == 1
    assert session.context_used == CONTEXT


def test_decode_stops_when_the_context_is_full(session):
    chosen = list(generate(session, [1, 2, 3], GREEDY, NO_END))
    assert session.context_used == CONTEXT
    assert len(chosen) == CONTEXT - 3 + 1, "the last one needs no place"


def test_generation_is_greedy_and_lazy(session, parts):
    fresh = Session(NumpyExecutor(*parts))
    held, expected = [7, 8], []
    for _ in range(5):
        expected.append(int(fresh.prefill(held).argmax()))
        held.append(expected[-1])
    choices = generate(session, [7, 8], GREEDY, NO_END)
    assert [next(choices).token for _ in range(5)] == expected
    assert session.context_used == 2 + 4, "the last one was not asked to be decoded"


def test_an_end_token_ends(session):
    first = next(generate(session, [7, 8], GREEDY, NO_END)).token
    session.clear()
    chosen = [c.token for c in generate(session, [7, 8], GREEDY, frozenset({first}))]
    assert chosen == [first]


def test_max_new_tokens(session):
    options = SamplingOptions(temperature=0.0, max_new_tokens=3)
    assert len(list(generate(session, [1], options, NO_END))) == 3


def test_bad_sampling_is_refused_before_any_work(session):
    with pytest.raises(RequestError, match="top-p"):
        next(generate(session, [1], SamplingOptions(top_p=2.0), NO_END))
    assert session.context_used == 0
