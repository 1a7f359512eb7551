"""Submits of a recording by the times of its segments, on a queue and a clock of the test's own."""

from types import SimpleNamespace

import pytest

from llm_lite.core.errors import CancelledError
from llm_lite.core.exec.vulkan import pacing
from llm_lite.core.exec.vulkan.pacing import TARGET_S, Pacer


class Device:
    """A queue that takes `seconds` for each segment, and `latency` for each submit."""

    def __init__(self, monkeypatch, seconds, latency=0.0):
        self.seconds, self.latency = seconds, latency
        self.now = self.free_at = 0.0
        self.done = [0.0]  # by the value of a submit: when it ends
        self.sizes = []
        monkeypatch.setattr(pacing, "time", SimpleNamespace(perf_counter=lambda: self.now))

    def submit(self, segments):
        self.sizes.append(len(segments))
        self.free_at = max(self.free_at, self.now) + self.latency + sum(map(self.seconds, segments))
        self.done.append(self.free_at)
        return len(self.done) - 1

    def wait(self, value):
        self.now = max(self.now, self.done[value])


def sizes(device, pacer, count):
    device.sizes = []
    pacer.run(range(count), None)
    assert sum(device.sizes) == count
    return device.sizes


def test_a_slow_device_gets_a_segment_a_submit(monkeypatch):
    device = Device(monkeypatch, lambda _: 0.6 * TARGET_S)
    pacer = Pacer(device, 20)
    assert sizes(device, pacer, 20) == [1] * 20
    assert sizes(device, pacer, 20) == [1] * 20


def test_a_fast_device_gets_many_already_the_first_time(monkeypatch):
    device = Device(monkeypatch, lambda _: TARGET_S / 50, latency=TARGET_S / 20)
    pacer = Pacer(device, 150)
    first = sizes(device, pacer, 150)
    assert first[:2] == [1, 1], "nothing is known yet"
    assert len(first) < 20
    assert len(sizes(device, pacer, 150)) <= len(first)


def test_no_submit_takes_much_longer_than_a_frame_may_wait(monkeypatch):
    """Where segments become slower than the first ones were, by as much as is allowed for."""
    device = Device(monkeypatch, lambda n: TARGET_S / 40 * (2 if n >= 30 else 1))
    taken, pacer = [], Pacer(device, 100)
    submit = device.submit

    def timed(segments):
        before = device.free_at
        value = submit(segments)
        taken.append(device.free_at - max(before, device.now))
        return value

    device.submit = timed
    sizes(device, pacer, 100)
    assert max(taken) <= TARGET_S * (1 + 1e-9)


def test_a_stop_leaves_nothing_in_flight(monkeypatch):
    device = Device(monkeypatch, lambda _: 0.6 * TARGET_S)
    pacer = Pacer(device, 9)
    with pytest.raises(CancelledError):
        pacer.run(range(9), lambda: len(device.sizes) == 4)
    assert device.now == device.free_at
    assert sizes(device, pacer, 9) == [1] * 9
