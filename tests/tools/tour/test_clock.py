"""When a process began, as it finds out by itself and as whoever starts it knows."""

import subprocess
import sys
import time

import psutil
import pytest

from tests.paths import ROOT
from tools.tour import clock

TELL = "from tools.tour.clock import process_start; print(process_start())"
TICK = 0.02  # the system counts hundredths of a second


@pytest.mark.skipif(sys.platform != "linux", reason="processes share a monotonic clock on Linux")
def test_a_process_began_when_it_was_started():
    before = time.monotonic()
    told = subprocess.run(
        [sys.executable, "-c", TELL], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert before - TICK <= float(told.stdout) <= time.monotonic()


def test_it_lies_before_the_import():
    assert time.monotonic() - 86400 < clock.process_start() <= clock._IMPORTED


def test_where_the_system_does_not_tell_it_is_the_import(monkeypatch):
    def refuse():
        raise psutil.AccessDenied()

    monkeypatch.setattr(psutil, "boot_time", refuse)
    assert clock.process_start() == clock._IMPORTED
