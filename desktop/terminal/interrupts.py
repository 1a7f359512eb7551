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
import threading
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


def answered() -> None:
    """An interrupt was caught, and the program goes on."""
    global _ending_since
    _ending_since = None


def lost() -> None:
    """An interrupt was raised where Python lets no exception through, as in a finalizer: it comes
    once more when that is over."""
    answered()
    again = threading.Timer(AGAIN, _press)
    again.daemon = True
    again.start()


def _press() -> None:
    main = threading.main_thread().ident
    if hasattr(signal, "pthread_kill") and main is not None:  # wakes it where it waits
        signal.pthread_kill(main, signal.SIGINT)
    else:
        signal.raise_signal(signal.SIGINT)


def pressed() -> bool:
    """Whether there was one that nobody answered: what fails now may have failed of it."""
    return _ending_since is not None


def end() -> None:
    """There is nothing left to interrupt; one that comes now would only change the exit code."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


@contextlib.contextmanager
def noted() -> Iterator[threading.Event]:
    """Inside, the first Ctrl-C only sets the event, so that no token is lost; the second is as
    one outside."""
    pressed = threading.Event()
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


def _interrupt(number: int, frame: FrameType | None) -> None:
    global _ending_since
    if _ending_since is None:
        _ending_since = time.monotonic()
        raise KeyboardInterrupt
    if time.monotonic() - _ending_since > PATIENCE:
        os._exit(CODE)
