"""Ctrl-C: one ends what goes on, in order; the next ones do not disturb that.

The first raises KeyboardInterrupt. Code that catches it and goes on calls `answered`, and the next
is a first one again. Otherwise the program is ending: it closes the engine and removes half-written
files, and further ones could only break that off. Once it has taken longer than PATIENCE, one more
leaves at once.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from types import FrameType

CODE = 130  # the shell's code for Ctrl-C
PATIENCE = 3.0  # seconds
AGAIN = 0.05  # seconds

_ending_since: float | None = None


def install() -> None:
    """From now on; where the program was started to ignore Ctrl-C, not at all."""
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, _interrupt)
        if hasattr(signal, "setitimer"):  # all systems but Windows
            signal.signal(signal.SIGALRM, _again)


def answered() -> None:
    """An interrupt was caught, and the program goes on."""
    global _ending_since
    _ending_since = None


def lost() -> None:
    """An interrupt was raised where Python lets no exception through, as in a finalizer: it comes
    once more when that is over."""
    answered()
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_REAL, AGAIN)


def pressed() -> bool:
    """Whether there was one that nobody answered: what fails now may have failed of it."""
    return _ending_since is not None


def end() -> None:
    """There is nothing left to interrupt; one that comes now would only change the exit code."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


class Noted:
    """Whether Ctrl-C was pressed: without a lock, as a handler may be interrupted by the next one,
    which would wait for the lock that the first holds."""

    def __init__(self) -> None:
        self._pressed = False

    def set(self) -> None:
        self._pressed = True

    def is_set(self) -> bool:
        return self._pressed


@contextlib.contextmanager
def noted() -> Iterator[Noted]:
    """Inside, the first Ctrl-C is only noted, so that no token is lost; the second is as one
    outside."""
    pressed = Noted()
    before = signal.getsignal(signal.SIGINT)
    if not callable(before):  # ignored
        yield pressed
        return

    def note(number: int, frame: FrameType | None) -> None:
        if pressed.is_set():
            before(number, frame)
        pressed.set()

    signal.signal(signal.SIGINT, note)
    try:
        yield pressed
    finally:
        signal.signal(signal.SIGINT, before)


def _again(_number: int, frame: FrameType | None) -> None:
    handler = signal.getsignal(signal.SIGINT)
    if callable(handler):
        handler(signal.SIGINT, frame)


def _interrupt(number: int, frame: FrameType | None) -> None:
    global _ending_since
    if _ending_since is None:
        _ending_since = time.monotonic()
        raise KeyboardInterrupt
    if time.monotonic() - _ending_since > PATIENCE:
        os._exit(CODE)
