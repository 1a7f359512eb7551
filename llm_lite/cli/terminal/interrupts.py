"""Signals that end a command: Ctrl-C, SIGTERM and SIGHUP. What is half made is taken away first.

Ctrl-C: one ends what goes on, in order; the next ones do not disturb that.

The first raises KeyboardInterrupt. Code that catches it and goes on calls `answered`, and the next
is a first one again. Otherwise the program is ending: it closes the engine and removes half-written
files, and further ones could only break that off. Once it has taken longer than PATIENCE, one more
leaves at once.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from types import FrameType
from typing import ParamSpec

from llm_lite.cli.terminal import output

_SIGNALS = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))
_TOGETHER = 2.0  # seconds in which more signals mean the same end: a terminal sends several
_WORDS = {"SIGTERM": "terminated", "SIGHUP": "the terminal hung up"}
P = ParamSpec("P")

CODE = 130  # the shell's code for Ctrl-C
PATIENCE = 3.0  # seconds
AGAIN = 0.05  # seconds
_ending_since: float | None = None


def install() -> None:
    """Handle Ctrl-C from now on, unless the program was started to ignore it."""
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, _interrupt)
        if hasattr(signal, "setitimer"):  # all systems but Windows
            signal.signal(signal.SIGALRM, _again)


def answered() -> None:
    """An interrupt was caught, and the program goes on."""
    global _ending_since
    _ending_since = None


def lost() -> None:
    """Raise an interrupt once more later: it came where Python lets no exception through, as in a
    finalizer."""
    answered()
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_REAL, AGAIN)


def pressed() -> bool:
    """Return True if there was an interrupt that no code answered: what fails now may have failed
    because of it."""
    return _ending_since is not None


def end() -> None:
    """There is nothing left to interrupt; one that comes now would only change the exit code."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


class Noted:
    """A flag for Ctrl-C without a lock: a handler may be interrupted by the next one, which would
    wait for the lock that the first holds."""

    def __init__(self) -> None:
        self._pressed = False

    def set(self) -> None:
        self._pressed = True

    def is_set(self) -> bool:
        return self._pressed


@contextlib.contextmanager
def noted() -> Iterator[Noted]:
    """Note the first Ctrl-C inside, so that no token is lost; the second acts as one outside."""
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


class Ended(SystemExit):
    """The end by a signal, with the exit code that a shell gives to it."""

    def __init__(self, number: int) -> None:
        super().__init__(128 + number)
        self.number = signal.Signals(number)


def ends_in_order(main: Callable[P, int]) -> Callable[P, int]:
    """Wrap a command's `main`, so that it cleans up at SIGTERM and SIGHUP and returns 143 or
    129."""

    @wraps(main)
    def ended(*words: P.args, **named: P.kwargs) -> int:
        try:
            with raised():
                return main(*words, **named)
        except Ended as end:
            output.say("")
            output.warn(_WORDS[end.number.name])
            return 128 + end.number

    return ended


@contextmanager
def raised() -> Iterator[None]:
    """Raise `Ended` for signals in the main thread; a signal that is ignored, as by nohup, stays
    so.

    A second one long after the first ends the process at once: cleaning up must have failed."""
    first: float | None = None

    def end(number: int, frame: FrameType | None) -> None:
        nonlocal first
        if first is None:
            first = time.monotonic()
            raise Ended(number)
        if time.monotonic() - first > _TOGETHER:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {n: signal.getsignal(n) for n in _SIGNALS}
    mine = [n for n, handler in before.items() if handler is signal.SIG_DFL]
    for number in mine:
        signal.signal(number, end)
    try:
        yield
    finally:
        for number in mine if first is None else ():  # else the process is about to end
            signal.signal(number, before[number])
