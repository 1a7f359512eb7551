"""The plot of the speed: whole answers, marked apart, and one clock for the first token."""

from dataclasses import replace

import pytest

from llm_lite.core.messages import GenerationFinished, GenerationStats, TokenDecoded
from llm_lite.desktop.state.apply import apply
from llm_lite.desktop.state.plots.speed import RATE_SAMPLES
from llm_lite.desktop.state.state import AppState, Message, Running
from llm_lite.desktop.state.units import percent
from llm_lite.desktop.views.program.performance import places

STATS = GenerationStats(new_tokens=20, decode_tok_s=400.0, ttft_ms=33.0)


def answer(state, request, count, each, start, ttft_ms=33.0):
    """The state after an answer of `count` tokens that come every `each` seconds."""
    messages = (*state.messages, Message("user", "hello"))
    state = replace(state, messages=messages, running=Running(request, start - 0.05))
    for number in range(count):
        first = ttft_ms if number == 0 else 0.0
        event = TokenDecoded(request, number, "x", 1.0, number, step_ms=2.0, ttft_ms=first)
        state = apply(event, state, start + number * each)
    return apply(GenerationFinished(request, "length", STATS), state, start + count * each)


def test_the_line_of_an_answer_begins_and_ends_with_it():
    state = answer(AppState(), 1, 101, 0.01, 10.0)
    assert state.rates[0].time == 10.0
    assert state.rates[-1].time == pytest.approx(11.0)
    assert all(point.rate == pytest.approx(100, rel=0.05) for point in state.rates)


def test_a_short_answer_is_told_by_its_mean():
    state = answer(AppState(), 1, 20, 0.0025, 10.0)
    assert [(p.time, p.rate) for p in state.rates] == [(10.0, 400.0), (10.0475, 400.0)]


def test_answers_that_follow_at_once_stand_apart():
    state = answer(answer(AppState(), 1, 101, 0.01, 10.0), 2, 101, 0.01, 11.1)
    times, parting = places(state.rates)
    last = sum(point.answer == 1 for point in state.rates) - 1
    assert len(parting) == 1
    assert times[last] < parting[0] < times[last + 1]
    assert times[-1] == pytest.approx(2.0, rel=0.05), "the pause between them is left out"


def test_old_answers_go_whole_and_long_ones_are_thinned():
    state = answer(AppState(), 1, 3000, 0.2, 0.0)
    assert state.rates[0].time == 0.0
    assert len(state.rates) <= RATE_SAMPLES
    state = answer(state, 2, 3000, 0.2, 1000.0)
    assert {point.answer for point in state.rates} == {2}
    assert state.rates[0].time == 1000.0


def test_the_first_token_has_one_time():
    state = replace(AppState(), running=Running(1, 1.0), messages=(Message("user", "hello"),))
    event = TokenDecoded(1, 3, "x", 1.0, 3, ttft_ms=33.0)
    state = apply(event, state, 9.0)  # the window hears of it much later
    assert state.running.ttft_ms == 33.0
    state = apply(TokenDecoded(1, 4, "y", 1.0, 4), state, 9.1)
    assert state.running.ttft_ms == 33.0
    state = apply(GenerationFinished(1, "end", STATS), state, 9.2)
    assert state.last_stats.ttft_ms == 33.0


def test_nearly_nothing_is_not_told_as_nothing():
    shown = [percent(share) for share in (0, 0.004, 0.006, 0.5, 0.994, 0.999, 1)]
    assert shown == ["0%", "<1%", "1%", "50%", "99%", ">99%", "100%"]
