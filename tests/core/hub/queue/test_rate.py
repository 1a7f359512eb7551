"""The rate of a stage is that of the last seconds, or of the last steps of a slow one."""

import pytest

from llm_lite.core.hub.queue import commands, running
from llm_lite.core.hub.queue import running as rate_module
from llm_lite.core.hub.queue.running import Rate


def told(points):
    rate = Rate()
    for now, done in points:
        rate.add(done, now)
    return rate


def test_what_lay_here_before_is_no_rate_of_a_download(monkeypatch):
    clock = iter(range(100))
    monkeypatch.setattr(rate_module.time, "monotonic", lambda: next(clock))
    monkeypatch.setattr(running, "StageProcess", lambda *_: None)
    job = commands.fetch("a/b", "m.gguf").job
    stage = running.RunningStage(job, {}, lambda _: None, "")
    for done in (0, 40_000):  # a partial file, read to be compared; its end is not told of
        stage.handle({"done": done, "total": 100_000, "no_rate": True})
        assert stage.progress()["rate"] == 0 and stage.progress()["left"] is None
    for done in (81_000, 82_000, 83_000):
        stage.handle({"done": done, "total": 100_000, "no_rate": False})
    assert stage.progress()["rate"] < 2000


def test_a_rate_is_that_of_the_last_seconds():
    rate = told([*((t, 100 * t) for t in range(20)), *((20 + t, 2000 + 10 * t) for t in range(12))])
    assert rate.value == pytest.approx(10, rel=0.2)
    assert rate.left(2110, 2210) == pytest.approx(10, rel=0.2)


def test_slow_steps_of_different_length_are_averaged():
    rate = told([(0, 0), (10, 1), (40, 2), (50, 3), (80, 4), (90, 5)])
    assert rate.value == pytest.approx(5 / 90)


def test_what_stands_still_changes_nothing_and_a_beginning_forgets():
    rate = told([(0, 0), (2, 20), (3, 20), (4, 20)])
    assert rate.value == pytest.approx(10)
    rate.add(0, 5)
    assert rate.value == 0 and rate.left(0, 10) is None


def test_a_rate_is_not_told_at_once():
    assert told([(0, 0), (0.5, 100)]).value == 0


def test_a_download_that_rests_says_so():
    rate = told([(0, 0), (2, 20)])
    assert not rate.rests(9) and rate.rests(11) and not Rate().rests(99)
