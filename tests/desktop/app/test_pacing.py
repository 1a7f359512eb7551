"""Frames only when there is something to see."""

import pytest

from llm_lite.desktop.app.pacing import FRAME, SETTLE, SOFTWARE_FRAME, TURNS, Pacer


def drawn(pacer, start, seconds, step=0.001):
    count, now = 0, start
    while now < start + seconds:
        count += pacer.take(now)
        now += step
    return count


def test_rests_without_a_reason():
    pacer = Pacer()
    assert pacer.wait(5.0, 60.0) == 60.0
    assert drawn(pacer, 5.0, 2.0) == 0


def test_input_is_drawn_at_once_and_settles():
    pacer = Pacer()
    pacer.on_input(1.0)
    assert pacer.wait(1.0, 60.0) == 0.0
    assert drawn(pacer, 1.0, 10.0) == TURNS + len(SETTLE)
    assert pacer.wait(11.0, 60.0) == 60.0


def test_a_change_is_drawn_and_settles():
    pacer = Pacer()
    pacer.on_change(1.0)
    assert pacer.wait(1.0, 60.0) == 0.0
    assert drawn(pacer, 1.0, 10.0) == 2


@pytest.mark.parametrize("frame", [FRAME, SOFTWARE_FRAME])
def test_the_engine_gets_some_frames_a_second(frame):
    pacer, frames = Pacer(frame), 0
    for millisecond in range(1000):
        pacer.on_change(millisecond / 1000)
        frames += pacer.take(millisecond / 1000)
    assert 1 / frame * 0.8 <= frames <= 1 / frame + 1


def test_knows_when_a_change_would_be_shown_anyway():
    pacer = Pacer(0.1)
    assert not pacer.expects(), "nothing is planned"
    pacer.on_change(1.0)
    assert pacer.take(1.0)
    assert pacer.expects(), "the frame that settles it"
    assert pacer.take(1.1)
    assert not pacer.expects()
    pacer.again(1.15)
    assert pacer.expects()
    pacer.again(1.25)
    assert not pacer.expects(), "a change would have one sooner"


def test_sleeps_until_the_next_moment():
    pacer = Pacer()
    pacer.again(3.0, float("inf"))
    assert pacer.wait(1.0, 60.0) == 2.0
    assert not pacer.take(2.9)
    assert pacer.take(3.0)


def test_frames_that_want_another_do_not_multiply():
    """A view that asks for a frame in a while, in each of the frames that the engine causes."""
    pacer, frames = Pacer(), 0
    for millisecond in range(1000):
        now = millisecond / 1000
        pacer.on_change(now)
        if pacer.take(now):
            frames += 1
            pacer.again(now + 0.1)
    assert frames <= 1 / FRAME + 1
    assert drawn(pacer, 1.0, 5.0) <= 3, "and the last of them ends"


def test_frames_that_only_follow_the_engine():
    pacer = Pacer(0.1)
    pacer.on_change(1.0)
    assert pacer.take(1.0) and pacer.following
    pacer.on_change(1.05)
    assert pacer.take(1.1) and pacer.following, "as long as the engine goes on"
    assert pacer.take(1.21) and not pacer.following, "the last one settles"


@pytest.mark.parametrize("cost", [0.0, 0.03, 0.05, 0.1])
def test_input_is_drawn_in_turn_and_wholly_when_it_settles(cost):
    """However many seconds a frame takes."""
    pacer = Pacer(0.1)
    pacer.on_change(2.0)
    pacer.on_input(2.0)
    frames, now = [], 2.0
    while now < 5.0:
        if pacer.take(now):
            frames.append((now - 2.0, pacer.following))
            now += cost
        now += 0.001
    whole = next(i for i, (_, following) in enumerate(frames) if not following)
    assert whole == TURNS or frames[whole][0] < 0.21, "each view had its turn, or all at once"
    if cost < 0.05:
        assert frames[TURNS - 1][0] < 0.1
    assert frames[-1][1] is False, "all of it is as it should be in the end"


def test_what_a_resting_view_wants_waits_for_the_next_frame():
    pacer = Pacer(0.1)
    pacer.on_change(1.0)
    assert pacer.take(1.0) and pacer.following
    pacer.again(0.5)
    assert pacer.wait(1.0, 60.0) == pytest.approx(0.1)
    assert pacer.take(1.1) and not pacer.following
    pacer.again(1.1)
    assert pacer.wait(1.1, 60.0) == 0.0
