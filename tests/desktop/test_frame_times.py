import numpy as np

from desktop.frame_times import CAPACITY, FrameTimes


def test_nothing_was_timed_yet():
    times = FrameTimes()
    assert times.values().size == 0
    assert times.percentiles() == {"p50": 0.0, "p95": 0.0, "p99": 0.0, "frames": 0}


def test_the_last_ones_are_kept_oldest_first():
    times = FrameTimes()
    for number in range(CAPACITY + 5):
        times.add(number / 1e3)
    assert np.allclose(times.values(), np.arange(5, CAPACITY + 5))
    assert times.percentiles()["frames"] == CAPACITY
    assert times.percentiles()["p50"] == 5 + (CAPACITY - 1) / 2
