"""Whatever happened to a conversation before: its logits are those of a fresh prefill."""

import contextlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llm_lite.core.engine.hosting import cache_transfer
from llm_lite.core.generation.prefill import PrefillOptions
from llm_lite.core.generation.session import Session
from llm_lite.core.kv_cache.prefix_pool import PrefixPool
from tests.fixtures.seq2seq import t5
from tests.runners import BACKENDS, exact, running
from tests.seq2seq_checks import write_case

MODES = ("as-stored", "fp16")  # the tiny model is stored in float32
SMALL, LARGE = 64, 128
TOLERANCE = 2e-3
HALF = ((0.5,) * 4,) * 2
ONES = ((1.0,) * 4,) * 2


class Bench:
    """Executors of one backend by mode and context, and one more of each mode for fresh runs."""

    def __init__(self, path, backend, device):
        self._stack = contextlib.ExitStack()
        options = {"keys": "fp16", "values": "fp16"}
        self.runners = {
            (mode, context): self._stack.enter_context(
                running(path, exact(backend, mode=mode, context=context, **options), device=device)
            )
            for mode in MODES
            for context in (SMALL, LARGE)
        }
        self._fresh = {
            mode: self._stack.enter_context(
                running(path, exact(backend, mode=mode, context=LARGE, **options), device=device)
            ).session
            for mode in MODES
        }

    def fresh(self, mode, tokens, gains=ONES):
        session = self._fresh[mode]
        session.set_gains(gains)
        session.clear()
        return session.prefill(tokens)

    def close(self):
        self._stack.close()


@pytest.fixture(scope="module", params=BACKENDS)
def bench(request, tiny_llama, _shared_device):
    bench = Bench(tiny_llama, request.param, _shared_device if request.param == "vulkan" else None)
    yield bench
    bench.close()


class Chat:
    """Conversations on a runner that is changed under them, and what must hold after each step."""

    def __init__(self, bench, budget):
        self.bench, self.mode, self.context = bench, MODES[0], SMALL
        self.chats = [[1], [1], [2]]
        self.current = 0
        self.session = self._session(PrefixPool(budget))

    def _session(self, pool):
        executor = self.bench.runners[self.mode, self.context].executor
        session = Session(executor, made_by=self.mode, pool=pool)
        session.write_gains(ONES)
        return session

    @property
    def tokens(self):
        return self.chats[self.current]

    def say(self, tokens):
        self.tokens.extend(tokens[: self.context - len(self.tokens)])
        self.check()

    def check(self):
        prompt, session = list(self.tokens), self.session
        reused = session.prepare(prompt).reused
        before = session.copy_prefix()
        logits = session.prefill(prompt)
        after = session.copy_prefix()
        for name, rows in before.rows.items():
            assert np.array_equal(rows.data, after.rows[name].data[: len(rows.data)]), name
        assert len(before.contents.tokens) == reused
        expected = self.bench.fresh(self.mode, prompt, session.gains)
        np.testing.assert_allclose(logits, expected, atol=TOLERANCE)
        assert session.context_used == len(prompt)
        assert session.pool.used <= session.pool.budget
        assert session.pool.used == sum(p.bytes for p in session.pool.listed())

    def decode(self, count):
        for _ in range(min(count, self.context - len(self.tokens))):
            if self.session.context_used < len(self.tokens):
                return
            token = (7 * len(self.tokens)) % 250
            logits = self.session.decode(token)
            self.tokens.append(token)
            expected = self.bench.fresh(self.mode, self.tokens, self.session.gains)
            np.testing.assert_allclose(logits, expected, atol=TOLERANCE)

    def edit(self, at):
        at %= len(self.tokens)
        self.tokens[at] = (self.tokens[at] + 1) % 250
        self.check()

    def regenerate(self, at):
        del self.tokens[1 + at % len(self.tokens) :]
        self.check()

    def switch(self, chat):
        self.current = chat
        self.check()

    def change(self, mode, context):
        """Another executor takes the conversation over."""
        if any(len(chat) > context for chat in self.chats):
            return
        old = self.session
        kept = old.copy_prefix()
        self.mode, self.context = mode, context
        self.session = self._session(old.pool)
        self.session.set_gains(old.gains)
        assert self.session.restore_prefix(kept) == len(kept.contents.tokens)
        self.check()

    def steer(self, gains):
        self.session.set_gains(gains, throughout=True)
        self.check()


_some = st.lists(st.integers(0, 3), min_size=1, max_size=40)
_deed = st.one_of(
    st.tuples(st.just("say"), _some),
    st.tuples(st.just("decode"), st.integers(1, 3)),
    st.tuples(st.just("edit"), st.integers(0, 127)),
    st.tuples(st.just("regenerate"), st.integers(0, 127)),
    st.tuples(st.just("switch"), st.integers(0, 2)),
    st.tuples(st.just("change"), st.sampled_from(MODES), st.sampled_from((SMALL, LARGE))),
    st.tuples(st.just("steer"), st.sampled_from((HALF, ONES))),
)


@settings(max_examples=25, deadline=None, derandomize=True)
@given(st.lists(_deed, min_size=1, max_size=9), st.sampled_from((0, 10_000, 1 << 20)))
def test_logits_are_those_of_a_fresh_prefill(bench, script, budget):
    chat = Chat(bench, budget)
    for name, *arguments in script:
        getattr(chat, name)(*arguments)


def test_going_back_to_another_chat_computes_one_token(bench):
    chat = Chat(bench, 1 << 20)
    chat.say(list(range(50)))
    chat.switch(2)
    chat.say(list(range(100, 140)))
    steps = []
    run = chat.session.executor.run
    chat.session.executor.run = lambda step, stop=None: steps.append(step.count) or run(step, stop)
    try:
        chat.switch(0)
        assert steps == [1]
        chat.switch(2)
        assert steps == [1, 1]
    finally:
        del chat.session.executor.run


def test_with_no_budget_nothing_is_kept(bench):
    chat = Chat(bench, 0)
    chat.say(list(range(50)))
    chat.switch(2)
    assert chat.session.pool.listed() == ()
    assert chat.session.prepare(chat.chats[0]).reused == 0


def test_an_answer_goes_on_with_other_weights_and_the_next_turn_reads_anew(bench):
    chat = Chat(bench, 1 << 20)
    chat.say(list(range(40)))
    kept = chat.session.copy_prefix()
    chat.mode = "fp16"
    pool = chat.session.pool
    chat.session = chat._session(pool)
    chat.session.restore_prefix(kept)
    resumed = chat.session.prepare([*chat.tokens, 5], PrefillOptions(resumed=True))
    assert resumed.reused == len(chat.tokens)
    assert chat.session.prepare([*chat.tokens, 5]).reused == 0


def test_a_switch_in_the_middle_of_an_answer_is_the_engines(tiny_llama):
    with running(tiny_llama) as old, running(tiny_llama, exact(context=128)) as new:
        old.session.prefill(list(range(60)))
        old.session.prefill([9, 8, 7])
        assert len(old.session.pool.listed()) == 1
        cache_transfer.hand_over(cache_transfer.copy_prefix(old, print), old, new)
        assert new.session.tokens() == (9, 8, 7)
        assert new.session.prepare([9, 8, 7, 6]).reused == 3
        assert new.session.prepare([*range(60), 1]).reused == 60


def test_a_target_is_not_that_of_another_source(tmp_path, monkeypatch):
    """Its keys are made of what the encoder left, though its tokens are the same."""
    for module in ("generation.session", "kv_cache.prefix_pool"):
        monkeypatch.setattr(f"llm_lite.core.{module}.LEAST", 1)
    target, sources = [5 + i % 20 for i in range(25)], ([11, 12, 13], [14, 15, 16])
    with running(write_case(t5.FAMILY, "gated", tmp_path / "t5"), exact()) as runner:
        runner.session.pool.budget = 1 << 20
        runner.read_source(sources[1])
        expected = runner.session.prefill(target).copy()
        for source in sources:
            runner.read_source(source)
            logits = runner.session.prefill(target).copy()
            runner.session.prefill([4])  # what it held may go to the pool
        assert not runner.session.pool.listed()
        assert np.array_equal(logits, expected)


def test_a_prefix_is_used_though_the_copy_of_another_takes_its_room(bench):
    """The pool has room for one: taken from it while what the cache held goes into it."""
    chat = Chat(bench, 1 << 20)
    session = chat.session
    one, other = list(range(1, 60)), list(range(100, 159))
    session.prefill(one)
    session.prefill(other)  # the first one goes into the pool
    session.pool.budget = session.pool.used
    prepared = session.prepare([*one, 7])
    assert prepared.reused == len(one)
