"""A model with a recurrent state in the chat: what is reused gives what is read anew."""

import numpy as np
import pytest

from llm_lite.core.errors import CancelledError, RequestError, UnsupportedError
from llm_lite.core.inspect.attention import head_maps
from llm_lite.core.inspect.text_maps import EVERY_QUERY
from llm_lite.core.kv_cache.states import APART, RecurrentStates
from llm_lite.core.loading.draft_models import check_drafts_for
from llm_lite.core.messages import ChatMessage, ReadAttentionRows, SamplingOptions
from llm_lite.core.plan.step import PAGE
from llm_lite.core.questions.attention_reader import AttentionRowsReader
from tests.asking import layer_scores, lens
from tests.runners import BACKENDS, exact, running

CONTEXT, CLOSE = 1024, 2e-4
LOW, HIGH = 30, 260


@pytest.fixture(scope="module")
def fresh(each_recurrent_folder):
    """Logits behind tokens by a session that reuses nothing."""
    with running(each_recurrent_folder, exact("numpy")) as runner:
        known = {}

        def logits(tokens):
            tokens = tuple(tokens)
            if tokens not in known:
                runner.session.clear()
                known[tokens] = runner.session.prefill(tokens)
            return known[tokens]

        yield logits


def words(random, count):
    return random.integers(LOW, HIGH, count).tolist()


@pytest.mark.parametrize("backend", BACKENDS)
def test_edits_branches_and_answers_are_as_read_anew(each_recurrent_folder, fresh, device, backend):
    random = np.random.default_rng(7)
    with running(each_recurrent_folder, exact(backend), device=device) as runner:
        session, text = runner.session, []
        for number in range(24):
            kind = number % 4
            if kind == 1 and len(text) > 20:  # an edit
                text = text[: int(random.integers(5, len(text)))]
            elif kind == 3:  # another conversation, and later back
                text = words(random, 40)
            text = [*text, *words(random, int(random.integers(1, 90)))][-CONTEXT // 2 :]
            assert np.abs(session.prefill(text) - fresh(text)).max() < CLOSE
            for _ in range(3):
                text.append(int(words(random, 1)[0]))
                assert np.abs(session.decode(text[-1]) - fresh(text)).max() < CLOSE


def test_only_what_follows_the_last_state_is_read_again(each_recurrent_folder):
    random = np.random.default_rng(8)
    with running(each_recurrent_folder, exact("numpy")) as runner:
        session = runner.session
        system, question, other = (words(random, n) for n in (300, 20, 15))
        session.prefill([*system, *question])
        answer = words(random, 60)
        for token in answer:
            session.decode(token)
        turn = [*system, *question, *answer]
        assert session.reusable([*turn, 40, 41]) == len(turn), "the next turn"
        again = [*system, *question]
        session.prepare([*again, 50])
        assert session.context_used == len(again), "another answer"
        session.prefill([*again, 50])
        assert session.reusable([*system, *other, 60]) == 256, "another question: every so many"
        session.prefill([*system, *other])
        assert session.reusable([*system, *other, 70]) == len(system) + len(other)
        session.prefill(words(random, 200))  # another conversation
        pool = runner.session.pool
        pool.budget = 64 << 20
        session.prefill([*turn, 40])
        session.prefill(words(random, 200))
        session.prepare([*turn, 40, 41, 42])
        assert session.context_used == len(turn) + 1, "from the pool"


def test_few_tokens_of_a_conversation_are_read_again(recurrent_folder):
    """Fifty turns with edits and branches, and as many states as 256 MiB hold of Qwen3.5 0.8B."""
    random, turns, slots = np.random.default_rng(5), [], 13
    with running(recurrent_folder, exact("cpu")) as runner:
        session, states = runner.session, runner.session.cache.states
        states.slots, states._free, states._drafted = slots, list(range(slots)), 0
        for number in range(50):
            back = 1 if number % 7 == 3 else int(random.integers(2, 5)) if number % 11 == 9 else 0
            turns = turns[: len(turns) - back]
            message, answer = (words(random, int(random.integers(8, most))) for most in (30, 12))
            text = [token for turn in turns for part in turn for token in part]
            again = len(text) - session.reusable([*text, *message])
            assert again <= (12 if back > 1 else 0), (number, back)
            session.prefill([*text, *message])
            for token in answer:
                session.decode(token)
            turns.append((message, answer))
        assert len(text) > 700


def test_a_stopped_step_loses_nothing(each_recurrent_folder, fresh):
    random = np.random.default_rng(9)
    text = words(random, 400)
    with running(each_recurrent_folder, exact("numpy")) as runner:
        session, asked = runner.session, [0]

        def stop():
            asked[0] += 1
            return asked[0] > 150

        with pytest.raises(CancelledError):
            session.prefill(text, stop)
        assert 0 < session.context_used < len(text) and session.cache.usable(session.context_used)
        assert np.abs(session.prefill(text) - fresh(text)).max() < CLOSE
        session.decode(40)
        session.forget_after(len(text))
        assert session.context_used in (len(text), len(text) + 1)


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_lens_of_any_token_is_as_read_anew(each_recurrent_folder, device, backend):
    random = np.random.default_rng(10)
    text = words(random, 150)
    with running(each_recurrent_folder, exact(backend), device=device) as runner:
        session = runner.session
        session.prefill(text[:100])
        for token in text[100:]:
            session.decode(token)
        for position in (149, 120, 60, 3, 0):
            found = lens(session, position)
            with running(each_recurrent_folder, exact("numpy")) as other:
                other.session.prefill(text[: position + 1])
                known = lens(other.session, position)
            for (_, a), (_, b) in zip(found, known, strict=True):
                assert np.abs(a - b).max() < 5e-4
        behind = session.decode(40)
        with running(each_recurrent_folder, exact("numpy")) as other:
            assert np.abs(behind - other.session.prefill([*text, 40])).max() < CLOSE


def test_what_passes_by_changes_nothing(each_recurrent_folder, fresh):
    random = np.random.default_rng(11)
    text = words(random, 70)
    with running(each_recurrent_folder, exact("cpu")) as runner:
        session = runner.session
        session.prefill(text)
        with session.scratch_steps(50 if session.cache.usable(50) else 70, 60):
            start = len(text)
            for part in (words(random, 20), words(random, 1), words(random, 1)):
                session.run_scratch(part, start)
                start += len(part)
        assert session.tokens() == tuple(text)
        assert np.abs(session.decode(45) - fresh([*text, 45])).max() < CLOSE


def test_another_executor_goes_on(each_recurrent_folder, fresh):
    text = words(np.random.default_rng(12), 90)
    with (
        running(each_recurrent_folder, exact("cpu")) as one,
        running(each_recurrent_folder, exact("numpy")) as two,
    ):
        one.session.prefill(text)
        two.session.continue_from(one.session)
        assert two.session.context_used == len(text)
        assert np.abs(two.session.decode(45) - fresh([*text, 45])).max() < CLOSE


def test_slots_are_given_up_in_the_order_of_their_worth(recurrent_folder):
    with running(recurrent_folder, exact("numpy")) as runner:
        states = RecurrentStates(runner.executor)
        states.slots, states._free, states._drafted = 4, [3, 2, 1, 0], 0
        for start, end in ((0, 100), (100, 130), (130, APART)):
            states.commit(start, end, states.next(start)[1])
            states.mark(end)
        states.commit(APART, APART + 1, states.next(APART)[1])
        assert states.longest(1000) == APART + 1
        states.commit(APART + 1, APART + 2, states.next(APART + 1)[1])
        assert sorted(states._behind) == [100, APART, APART + 2], "30 behind another is the least"
        states.truncate(150)
        assert states.longest(1000) == 100 and len(states._free) == 3
        with pytest.raises(RequestError, match="behind 90 tokens"):
            states.next(90)


def test_what_has_no_attention_is_said(recurrent_folder):
    with running(recurrent_folder, exact("cpu", query_budget=EVERY_QUERY)) as runner:
        runner.session.prefill(words(np.random.default_rng(13), 20))
        reader, source = AttentionRowsReader(runner.attention), runner.attention
        assert [layer.attends for layer in source.layers] == [False, False, False, True, False]
        assert runner.model_info.recurrent_layers == (0, 1, 2, 4)
        with pytest.raises(RequestError, match="layer 2 has a recurrent state instead"):
            reader.read(ReadAttentionRows(5, "from", "layer-mean", layer=2))
        with pytest.raises(RequestError, match="not all layers of this model attend"):
            reader.read(ReadAttentionRows(5, "from", "rollout"))
        row = reader.read(ReadAttentionRows(5, "from", "layer-mean", layer=3))
        assert sum(row.weights) == pytest.approx(1, abs=1e-5)
        maps = np.zeros((4, 20, 20), np.float32)
        head_maps(source, 0, range(4), maps)
        assert np.isnan(maps).all()
        assert layer_scores(source, 0)["entropy"].size == 0
        with pytest.raises(UnsupportedError, match="out of a recurrent state"):
            runner.session.cache.forget(2, 3)


def test_the_lens_leaves_caches_and_queries_as_they_are(recurrent_folder):
    text = words(np.random.default_rng(14), 700)
    budget = 2 * PAGE * 4 * 16 * 4  # queries of two pages, float32
    with running(recurrent_folder, exact("cpu", query_budget=budget)) as runner:
        session, executor = runner.session, runner.executor
        session.prefill(text)
        names = ("k_cache.3", "v_cache.3", "q_ring.3")
        tensors = {t.name: t for t in executor.program.plans[0].tensors}
        assert tensors["q_ring.3"].ring_rows < len(text)

        def held():
            return [executor.read_state(n, 0, tensors[n].shape[0]).tobytes() for n in names]

        before, committed = held(), session.committed
        lens(session, 300)
        assert held() == before and session.committed == committed


def test_a_longer_prefix_stands_for_a_shorter_one_only_with_its_state(each_recurrent_folder):
    random = np.random.default_rng(15)
    first, more, other = words(random, 150), words(random, 120), words(random, 200)
    with running(each_recurrent_folder, exact("numpy")) as runner:
        session = runner.session
        session.pool.budget = 64 << 20
        session.prefill(first)
        session.prefill(other)
        for end in (80, 120):  # states at ends of prompts: the last two are copied
            session.prefill([*first, *more[:end]])
        session.prefill(other)
        session.prepare([*first, *words(random, 10)])
        assert session.context_used == len(first)


def test_states_are_kept_wherever_a_prompt_begins(each_recurrent_folder):
    random = np.random.default_rng(16)
    with running(each_recurrent_folder, exact("numpy")) as runner:
        session, text = runner.session, words(random, 737)
        session.prefill(text[:37])
        session.prefill(text)
        held = sorted(session.cache.states._behind)
        assert all(b - a < 2 * APART for a, b in zip([0, *held], held, strict=False)), held


def test_a_draft_model_must_be_able_to_go_back(each_recurrent_folder):
    with (
        running(each_recurrent_folder, exact("numpy")) as runner,
        pytest.raises(RequestError, match="cannot go back to before a token"),
    ):
        check_drafts_for(runner.model_file, runner.model_file)


@pytest.mark.parametrize("backend", BACKENDS)
def test_drafts_leave_states_that_are_as_decoded(each_recurrent_folder, device, backend):
    """Right and wrong ones, of all lengths: logits and states have the bits of steps a token."""
    random = np.random.default_rng(18)
    options = exact(backend, speculate="lookup")
    with running(each_recurrent_folder, options, device=device) as runner:
        session, states = runner.session, runner.session.cache.states
        most = runner.executor.program.most_drafted
        assert most >= 2
        text, answer = words(random, 90), words(random, 60)
        session.prefill(text)
        expected, left = [], []
        for token in answer:
            expected.append(session.decode(token).tobytes())
            left.append({name: rows.tobytes() for name, rows in states.read(len(text)).items()})
        whole = session.tokens()
        last = {name: rows.tobytes() for name, rows in states.read(len(whole)).items()}
        for turn in range(3):
            session.prepare([*text, 0])
            assert session.context_used == len(text)
            at = 0
            while at < len(answer):
                right = int(random.integers(0, most + 1))
                draft = answer[at + 1 : at + 1 + right]
                draft += words(random, int(random.integers(0, most - len(draft) + 1)))
                for number, token in enumerate(answer[at : at + 1 + right]):
                    found = session.decode(token, draft=draft if not number else ())
                    assert found.tobytes() == expected[at + number], (turn, at, number)
                at += 1 + right
            assert session.tokens() == whole
            now = {name: rows.tobytes() for name, rows in states.read(len(whole)).items()}
            assert now == last
            held = len(states._behind) + len(states._ahead) + len(states._free)
            assert held == states.slots, "every slot is somewhere"


def test_a_step_behind_drafts_that_did_not_come(each_recurrent_folder, fresh):
    """Drafted tokens leave nothing: another token, another prompt, the lens and what passes by."""
    random = np.random.default_rng(19)
    with running(each_recurrent_folder, exact("cpu", speculate="lookup")) as runner:
        session, states = runner.session, runner.session.cache.states
        most, text = runner.executor.program.most_drafted, words(random, 60)
        session.prefill(text)
        for turn in range(12):
            text.append(int(words(random, 1)[0]))
            found = session.decode(text[-1], draft=words(random, most))
            assert np.abs(found - fresh(text)).max() < CLOSE
            match turn % 4:
                case 0:
                    assert len(lens(session, len(text) - 3)) == runner.model_info.layers
                case 1:
                    with session.scratch_steps(len(text), 5):
                        session.run_scratch(words(random, 5), len(text))
                case 2:
                    text = [*text[: len(text) - 20], *words(random, 9)]
                    assert np.abs(session.prefill(text) - fresh(text)).max() < CLOSE
            held = len(states._behind) + len(states._ahead) + len(states._free)
            assert held == states.slots


def test_an_answer_is_the_same_with_drafts(client, each_recurrent_folder):
    asked, said = (ChatMessage("user", "ab ab ab ab ab ab"),), {}
    few = tuple((token, 60.0) for token in (65, 66, 67))  # so that it repeats itself
    sampling = SamplingOptions(temperature=0.0, max_new_tokens=120, logit_bias=few)
    for speculate in ("off", "lookup", "auto"):
        client.load(each_recurrent_folder, exact("cpu", speculate=speculate))
        said[speculate] = client.ask(asked, sampling)
    drafted = said["lookup"][0].stats.drafted
    assert drafted > said["lookup"][0].stats.accepted > 5 and not said["off"][0].stats.drafted
    assert said["off"][1] == said["lookup"][1] == said["auto"][1]


def test_a_stop_ends_a_replay_and_loses_nothing(each_recurrent_folder, fresh):
    text = words(np.random.default_rng(17), 900)
    with running(each_recurrent_folder, exact("cpu")) as runner:
        session, states = runner.session, runner.session.cache.states
        layers, chunk = runner.model_info.layers, runner.executor.program.chunk
        assert chunk < 800
        session.prefill(text)
        for held in [held for held in states._behind if held < len(text)]:
            states._drop(held)  # as of a cache that comes from a file
        committed, asked = session.committed, [0]

        def stop():
            asked[0] += 1
            return asked[0] > layers + 2

        with pytest.raises(CancelledError):
            session.step([40], 880, 1, stop)
        assert asked[0] == layers + 3 and session.committed == committed
        assert states.longest(880) == chunk, "the part that had run"
        with pytest.raises(CancelledError):
            session.run_scratch([40], 870, stop)
        assert session.tokens() == tuple(text) and states.holds(len(text))
        assert np.abs(session.decode(45) - fresh([*text, 45])).max() < CLOSE
        assert len(lens(session, 880)) == layers
        assert np.abs(session.decode(46) - fresh([*text, 45, 46])).max() < CLOSE
