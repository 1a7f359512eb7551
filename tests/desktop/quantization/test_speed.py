"""The plot of the speed: whole answers, marked apart, and one clock for the first token."""

from itertools import pairwise

import pytest

from llm_lite.core.handles import Report
from llm_lite.core.history import ConversationTree
from llm_lite.core.messages import Generate, GenerationFinished, GenerationStats, TokenDecoded
from llm_lite.core.records import replace
from llm_lite.desktop.features.performance.speed import RATE_PERIOD, RATE_SAMPLES
from llm_lite.desktop.features.performance.view import Strips, pace_of
from llm_lite.desktop.features.program.apply import fold
from llm_lite.desktop.features.program.state import AppState, Message, Running
from llm_lite.desktop.language.units import percent
from tests.desktop.reports import fold_reports

STATS = GenerationStats(new_tokens=20, decode_tok_s=400.0, ttft_ms=33.0)

ASKED = AppState(
    tree=ConversationTree((Message("user", "hello"),)), running=Running(Generate(()), 9.9)
)


def answer(state, count, each, start, ttft_ms=33.0):
    """The state after an answer of `count` tokens that come every `each` seconds."""
    messages = (*state.messages, Message("user", "hello"))
    state = replace(
        state, tree=ConversationTree(messages), running=Running(Generate(()), start - 0.05)
    )
    for number in range(count):
        first = ttft_ms if number == 0 else 0.0
        event = TokenDecoded(number, "x", 1.0, number, step_ms=2.0, ttft_ms=first)
        state = fold_reports(state, event, now=start + number * each)
    return fold_reports(state, GenerationFinished("length", STATS), now=start + count * each)


def test_the_spans_of_an_answer_begin_and_end_with_it():
    state = answer(AppState(), 101, 0.01, 10.0)
    assert state.rates[0].begin == 10.0
    assert state.rates[-1].time == pytest.approx(11.0)
    assert all(one.time == other.begin for one, other in pairwise(state.rates))
    assert sum(span.tokens for span in state.rates) == 100, "behind the first token"
    assert all(span.rate == pytest.approx(100, rel=0.05) for span in state.rates)


def test_the_first_second_is_told_as_it_went():
    """Half a second of a slow beginning, then four times as fast: no mean of both."""
    state = replace(
        AppState(),
        tree=ConversationTree((Message("user", "hello"),)),
        running=Running(Generate(()), 9.9),
    )
    times = [10 + n * 0.02 for n in range(26)] + [10.5 + n * 0.005 for n in range(1, 101)]
    for number, now in enumerate(times):
        state = fold_reports(state, TokenDecoded(number, "x", 1.0, number, step_ms=2.0), now=now)
    slow = [span.rate for span in state.rates if span.time <= 10.5]
    fast = [span.rate for span in state.rates if span.begin >= 10.5]
    assert len(slow) >= 2 and slow == pytest.approx([50.0] * len(slow), rel=0.01)
    assert len(fast) >= 1 and fast == pytest.approx([200.0] * len(fast), rel=0.01)


def test_the_time_of_a_token_is_that_of_its_tokens_a_second():
    state = answer(AppState(), 101, 0.01, 10.0)
    pace = pace_of(state)
    assert pace.token_ms == pytest.approx(1e3 / STATS.decode_tok_s)
    assert pace.step_ms == pytest.approx(2.0)
    assert pace.step_ms + pace.rest_ms == pytest.approx(pace.token_ms)


def test_the_steps_of_drafted_tokens_are_shared_among_them():
    """A step of 6 ms that brings three tokens is 2 ms a token."""
    state = replace(
        AppState(),
        tree=ConversationTree((Message("user", "hello"),)),
        running=Running(Generate(()), 9.9),
    )
    for number in range(90):
        step = 6.0 if number % 3 == 0 else 0.0
        now = 10 + number // 3 * 0.05
        state = fold_reports(state, TokenDecoded(number, "x", 1.0, number, step_ms=step), now=now)
    assert all(span.token_step_ms == pytest.approx(2.0, rel=0.15) for span in state.rates)


def test_an_answer_that_came_at_once_is_told_by_its_mean():
    state = answer(AppState(), 20, 0.0, 10.0)
    (mean,) = state.rates
    assert (mean.begin, mean.tokens, mean.rate) == (10.0, 19, pytest.approx(400.0))


def test_tokens_that_came_with_the_first_count_too():
    """An answer of which the window hears in two frames is as fast in the plot as in the table."""
    state = ASKED

    def came(state, numbers, now):
        events = (TokenDecoded(number, "x", 1.0, number, step_ms=1.25) for number in numbers)
        return fold([Report(event, state.running.asked) for event in events], state, now)

    state = came(state, range(64), 10.0)
    assert state.rates[0].rate == pytest.approx(800.0)
    state = came(state, range(64, 80), 10.02)
    assert state.rates[0].rate == pytest.approx(800.0, rel=0.02)
    stats = replace(STATS, new_tokens=80, decode_tok_s=785.0)
    state = fold_reports(state, GenerationFinished("end", stats), now=10.03)
    (mean,) = state.rates
    assert (mean.tokens, mean.rate) == (79, pytest.approx(785.0))
    assert mean.token_step_ms == pytest.approx(1.25)


def test_an_answer_ends_when_the_engine_says_so():
    """Not when a busy window hears of its last token."""
    state = ASKED
    times = [10 + n * 0.05 for n in range(20)] + [12.5]
    for number, now in enumerate(times):
        state = fold_reports(state, TokenDecoded(number, "x", 1.0, number, step_ms=40.0), now=now)
    stats = replace(STATS, new_tokens=21, decode_tok_s=20.0)
    state = fold_reports(state, GenerationFinished("end", stats), now=12.6)
    assert state.rates[-1].time == pytest.approx(11.0)
    assert all(span.rate == pytest.approx(20.0, rel=0.1) for span in state.rates)
    assert sum(span.tokens for span in state.rates) == 20


def test_answers_that_follow_at_once_stand_apart():
    state = answer(answer(AppState(), 101, 0.01, 10.0), 101, 0.01, 11.1)
    strips = Strips.of(state.rates)
    last = sum(span.answer == state.rates[0].answer for span in state.rates) - 1
    assert len(strips.parting) == 1
    assert strips.ends[last] < strips.parting[0] < strips.begins[last + 1]
    assert strips.ends[-1] == pytest.approx(2.0, rel=0.05), "the pause between is left out"


def test_old_answers_go_whole_and_spans_of_long_ones_are_joined():
    state = answer(AppState(), 3000, RATE_PERIOD + 0.01, 0.0)
    assert state.rates[0].begin == 0.0
    assert len(state.rates) <= RATE_SAMPLES
    assert sum(span.tokens for span in state.rates) == 2999
    assert all(one.time == other.begin for one, other in pairwise(state.rates))
    state = answer(state, 3000, RATE_PERIOD + 0.01, 1000.0)
    assert all(span.begin >= 1000.0 for span in state.rates), "of the newer answer"
    assert state.rates[0].begin == 1000.0


def test_the_first_token_has_one_time():
    state = replace(
        AppState(),
        running=Running(Generate(()), 1.0),
        tree=ConversationTree((Message("user", "hello"),)),
    )
    event = TokenDecoded(3, "x", 1.0, 3, ttft_ms=33.0)
    state = fold_reports(state, event, now=9.0)  # the window hears of it much later
    assert state.running.ttft_ms == 33.0
    state = fold_reports(state, TokenDecoded(4, "y", 1.0, 4), now=9.1)
    assert state.running.ttft_ms == 33.0
    state = fold_reports(state, GenerationFinished("end", STATS), now=9.2)
    assert state.last_stats.ttft_ms == 33.0


def test_nearly_nothing_is_not_told_as_nothing():
    shown = [percent(share) for share in (0, 0.004, 0.006, 0.5, 0.994, 0.999, 1)]
    assert shown == ["0%", "<1%", "1%", "50%", "99%", ">99%", "100%"]
