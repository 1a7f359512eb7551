import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from llm_lite.desktop.widgets.frame_times import CAPACITY, FrameTimes, quantiles


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


@given(
    st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=50),
    st.lists(st.floats(0, 1), min_size=1, max_size=4),
)
def test_quantiles_are_those_of_numpy(values, shares):
    found = quantiles(np.array(values), shares)
    assert np.allclose(found, np.quantile(values, shares), rtol=1e-9, atol=1e-6)
