"""When the context is full: what is forgotten, what goes on, and what is said of it."""

import numpy as np
import pytest

from llm_lite.core.errors import RequestError, UnsupportedError
from llm_lite.core.exec.numpy_executor import NumpyExecutor
from llm_lite.core.generation.prefill import PrefillOptions
from llm_lite.core.generation.session import Session
from llm_lite.core.generation.steps import generate
from llm_lite.core.kv_cache.provenance import SINKS
from llm_lite.core.messages import (
    CacheRewritten,
    CacheStatus,
    ChatMessage,
    Generate,
    GenerationFinished,
    GenerationStarted,
    SamplingOptions,
    TokenDecoded,
)
from llm_lite.core.models.model import BuildOptions
from llm_lite.core.plan.builder import Bucket
from llm_lite.core.plan.step import PAGE, chat_pages
from llm_lite.core.records import replace
from tests.core.engine_client import GREEDY, PATIENCE, Client
from tests.families import family_of
from tests.family_checks import write_case
from tests.runners import BACKENDS, exact, running

CONTEXT = 32
LONG = SamplingOptions(temperature=0.0, repetition_penalty=1.0, max_new_tokens=100)
ROLLING, MIDDLE = PrefillOptions("rolling"), PrefillOptions("forget-middle", head=10)


@pytest.fixture(params=BACKENDS)
def session(request, tiny_llama, device):
    options = exact(request.param, context=CONTEXT)
    used = device if request.param == "vulkan" else None
    with running(tiny_llama, options, device=used) as runner:
        yield runner.session


def keys(session):
    """Of layer 0, whose keys depend on a token and its position only."""
    layer = session.cache.layers[0]
    return session.cache.values(layer, layer.keys, range(session.context_used))


@pytest.mark.parametrize("reading", [ROLLING, MIDDLE], ids=["rolling", "middle"])
def test_what_moves_is_turned_as_if_it_had_been_read_there(session, tiny_llama, reading):
    """In the first layer keys hang on token and position alone: they equal those of a fresh run."""
    session.prefill(list(range(CONTEXT)))
    assert session.try_make_room(reading)
    held = session.tokens()
    assert len(held) < CONTEXT
    assert held[0] == 0 and held[-1] == CONTEXT - 1
    with running(tiny_llama, exact(context=CONTEXT)) as fresh:
        fresh.session.prefill(list(held))
        np.testing.assert_allclose(keys(session), keys(fresh.session), atol=2e-5)


@pytest.mark.parametrize("reading", [ROLLING, MIDDLE], ids=["rolling", "middle"])
def test_tokens_without_end_and_the_next_turn_goes_on(session, reading):
    generated = generate(session, list(range(10)), LONG, frozenset(), reading=reading)
    tokens = [*range(10), *(choice.token for choice in generated)]
    assert len(tokens) == 110, "three times the context"
    cache = session.cache
    assert len(cache) <= CONTEXT
    assert cache.contents.full_tokens() == tokens[:-1], "nothing is lost track of"
    keep = SINKS if reading is ROLLING else 10
    assert cache.tokens[:keep] == tokens[:keep]
    held = len(cache)
    turn = [*tokens, 1, 2, 3]
    prepared = session.prepare(turn, reading)
    assert prepared.reused >= held - CONTEXT // 2
    assert np.isfinite(session.prefill(turn, reading=reading)).all()
    assert session.cache.contents.full_tokens() == turn


@pytest.mark.parametrize("reading", [ROLLING, MIDDLE], ids=["rolling", "middle"])
@pytest.mark.parametrize("length", [CONTEXT + 1, 50, 200])
def test_a_prompt_longer_than_the_context(session, tiny_llama, reading, length):
    prompt = [i % 250 for i in range(length)]
    prepared = session.prepare(prompt, reading)
    logits = session.prefill(prompt, reading=reading)
    assert prepared.reused == 0
    ((first, last),) = prepared.forgotten
    assert session.cache.contents.full_tokens() == prompt
    assert list(session.tokens()) == prompt[:first] + prompt[last:]
    assert session.context_used < CONTEXT, "and there is room for an answer"
    with running(tiny_llama, exact(context=CONTEXT)) as fresh:
        expected = fresh.session.prefill(list(session.tokens()))
    np.testing.assert_allclose(logits, expected, atol=1e-4)


def test_what_fits_again_is_read_whole_again(session):
    generated = generate(session, list(range(10)), LONG, frozenset(), reading=ROLLING)
    tokens = [*range(10), *(choice.token for choice in generated)]
    logits = session.prefill(tokens[:20], reading=ROLLING)
    assert session.tokens() == tuple(tokens[:20])
    session.clear()
    np.testing.assert_allclose(logits, session.prefill(tokens[:20]), atol=1e-4)


def test_with_stop_it_stops(session):
    generated = generate(session, list(range(10)), LONG, frozenset())
    assert len(list(generated)) == CONTEXT - 10 + 1
    with pytest.raises(RequestError, match="the context holds 32"):
        session.prepare([0] * 33)


def test_queries_of_moved_positions_are_not_shown_for_others(session):
    session.prefill(list(range(CONTEXT)))
    epoch = session.committed.epoch
    session.try_make_room(ROLLING)
    committed = session.committed
    assert committed.length == len(session.tokens())
    assert committed.epoch > epoch
    assert committed.rows.stop <= committed.length


def test_a_pooled_prefix_keeps_its_gaps(tiny_llama):
    with running(tiny_llama, exact(context=48)) as runner:
        session = runner.session
        prompt = list(range(90))
        session.prefill(prompt, reading=ROLLING)
        session.prefill([7, 8, 9], reading=ROLLING)
        prepared = session.prepare([*prompt, 1], ROLLING)
        assert prepared.reused > 32
        assert prepared.forgotten


# A window of a small program in which a layer keeps a ring.

BEFORE = PAGE - 12  # tokens before those of a test: twelve of its own fit the ring


def rings(tiny_llama, window):
    """The tiny model, whose second layer sees only the last positions and keeps a page of them."""
    with running(tiny_llama) as runner:
        file = runner.model_file
        buckets = (Bucket(1, 1), Bucket(4, 1))
        pages = chat_pages(2 * PAGE, 4)
        options = BuildOptions(2 * PAGE, "f32", "f32", "f32", False, buckets, pages=pages)
        program = file.model.build(options)
        weights = dict(file.file.tensors)

    def narrow(plan):
        tensors = [
            replace(t, shape=(PAGE, t.shape[1]), ring=PAGE)
            if t.name in ("k_cache.1", "v_cache.1")
            else t
            for t in plan.tensors
        ]
        ops = [
            replace(op, params={**op.params, "window": window})
            if op.name == "attention" and op.params["layer"] == 1
            else op
            for op in plan.ops
        ]
        return replace(plan, tensors=tuple(tensors), ops=tuple(ops))

    return replace(program, plans=tuple(narrow(p) for p in program.plans)), weights


def test_rings_are_cut_only_as_far_as_they_reach_back(tiny_llama):
    program, weights = rings(tiny_llama, window=6)
    session = Session(NumpyExecutor(program, weights))
    prompt = list(range(BEFORE + 40))
    session.prefill(prompt)
    layer = session.cache.layers[1]
    assert (layer.rows, session.cache.oldest(layer)) == (PAGE, 28)
    assert session.reusable([*prompt[:34], 99]) == 34, "28 is the first of the six before 33"
    assert session.reusable([*prompt[:32], 99]) == 0, "the ring has lost 27"
    for cut in (34, 32, 20, 5):
        again = [*prompt[:cut], 99, 98]
        logits = session.prefill(again)
        fresh = Session(NumpyExecutor(program, weights)).prefill(again)
        np.testing.assert_allclose(logits, fresh, atol=1e-5)
        prompt = [*again, *range(100, 100 + BEFORE + 40 - len(again))]
        logits = session.prefill(prompt)
        fresh = Session(NumpyExecutor(program, weights)).prefill(prompt)
        np.testing.assert_allclose(logits, fresh, atol=1e-5)


def test_rings_are_copied_out_and_in(tiny_llama):
    program, weights = rings(tiny_llama, window=6)
    first, second = (Session(NumpyExecutor(program, weights)) for _ in range(2))
    prompt = list(range(BEFORE + 45))
    first.prefill(prompt)
    second.prefill([*range(9), 77])
    assert second.restore_prefix(first.copy_prefix()) == BEFORE + 45
    expected = Session(NumpyExecutor(program, weights)).prefill([*prompt, 3])
    np.testing.assert_allclose(second.prefill([*prompt, 3]), expected, atol=1e-5)


@pytest.mark.parametrize("count", [3, 15])
def test_rings_are_as_they_were_after_steps_beside(tiny_llama, count):
    program, weights = rings(tiny_llama, window=6)
    session = Session(NumpyExecutor(program, weights))
    prompt = list(range(BEFORE + 45))
    session.prefill(prompt)
    before, said = session.copy_prefix(), session.committed
    start = len(prompt)
    with session.scratch_steps(start, count):
        for place in range(start, start + count):
            session.run_scratch([7], place)
        assert session.cache.oldest(session.cache.layers[1]) == start + count - PAGE
    after = session.copy_prefix()
    assert before.contents == after.contents
    assert (said.length, said.oldest) == (session.committed.length, session.committed.oldest)
    for name, rows in before.rows.items():
        assert np.array_equal(rows.data, after.rows[name].data), name
    expected = Session(NumpyExecutor(program, weights)).prefill([*prompt, 3])
    np.testing.assert_allclose(session.prefill([*prompt, 3]), expected, atol=1e-5)


# What the engine says of it.


@pytest.fixture
def client(tiny_llama):
    client = Client()
    client.load(tiny_llama, exact(context=64))
    yield client
    assert client.engine.close(PATIENCE)


TURNS = (
    ChatMessage("system", "Be brief."),
    ChatMessage("user", "Hi"),
    ChatMessage("assistant", "Hm"),
    ChatMessage("user", "And now?"),
)


@pytest.mark.parametrize("policy", ["rolling", "forget-middle"])
def test_every_answer_says_what_the_model_no_longer_sees(client, policy):
    raw = (ChatMessage("user", "on the table"),)
    client.send(Generate(raw, LONG, raw=True, overflow=policy))
    assert client.until(GenerationFinished).stop_reason in ("length", "end")
    client.until(CacheStatus)
    started = client.of(GenerationStarted)[-1]
    told = [token.id for token in started.prompt]
    seen = None
    for event in client.events:
        if isinstance(event, CacheRewritten):
            seen = [token.id for token in event.tokens]
            full = list(told)
            for first, last in reversed(event.forgotten):
                del full[first:last]
            assert seen == full, "by position, what is left of all"
            assert len(seen) < 64
            assert {token.message for token in event.tokens[len(told) :]} <= {1}
        elif isinstance(event, TokenDecoded):
            told.append(event.token)
            if seen is not None:
                seen.append(event.token)
    assert seen is not None, "there was something to say"
    status = client.of(CacheStatus)[-1]
    assert status.length == len(seen) - 1 <= 64, "the last token was not needed"

    answer = ChatMessage("assistant", "…", tuple(told[len(started.prompt) :]))
    more = (*raw, answer, ChatMessage("user", "more"))
    mark = len(client.events)
    finished, _ = client.ask(more, GREEDY, raw=True, overflow=policy)
    assert finished.stats.reused_tokens > 16, "the rolled cache goes on"
    events = [e for e in client.events[mark:] if isinstance(e, GenerationStarted | CacheRewritten)]
    assert isinstance(events[0], GenerationStarted)
    assert isinstance(events[1], CacheRewritten), "what is missing is said again"


def test_the_first_turn_is_kept(client):
    long = (*TURNS[:3], ChatMessage("user", "x" * 60), ChatMessage("assistant", "Hm"))
    turns = (*long, ChatMessage("user", "y"))
    client.ask(turns, GREEDY, overflow="forget-middle")
    said = client.of(CacheRewritten)[0]
    owners = [token.message for token in said.tokens]
    assert {3} <= {t.message for t in client.of(GenerationStarted)[0].prompt}
    ((first, _),) = said.forgotten
    assert first <= 32
    assert owners[:first] == [t.message for t in client.of(GenerationStarted)[0].prompt[:first]]


def test_with_stop_the_answer_ends_and_says_why(client):
    raw = (ChatMessage("user", "on the table"),)
    finished, _ = client.ask(raw, LONG, raw=True)
    assert finished.stop_reason == "context"
    assert client.of(CacheRewritten) == []


@pytest.mark.parametrize("name", ["gpt2", "hunyuan"])
@pytest.mark.parametrize("reading", [ROLLING, MIDDLE], ids=["rolling", "middle"])
def test_positions_that_cannot_move_stay_where_they_are(tmp_path, reading, name):
    """The answer ends where the context does; a longer prompt is read again, with a gap."""
    family = family_of(name)
    path = write_case(family, next(iter(family.cases)), tmp_path / name)
    with running(path, exact(context=CONTEXT)) as runner:
        session = runner.session
        prompt = [1 + i % 20 for i in range(10)]
        generated = generate(session, prompt, LONG, frozenset(), reading=reading)
        tokens = [*prompt, *(choice.token for choice in generated)]
        assert len(tokens) == CONTEXT + 1 and not session.try_make_room(reading)
        with pytest.raises(UnsupportedError, match="nothing can be forgotten"):
            session.cache.forget(4, 5)
        turn = [*tokens, 1, 2, 3]
        logits = session.prefill(turn, reading=reading).copy()
        assert session.cache.contents.full_tokens() == turn
        session.clear()
        np.testing.assert_allclose(session.prefill(turn, reading=reading), logits, atol=1e-5)
