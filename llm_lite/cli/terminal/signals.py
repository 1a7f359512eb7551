"""SIGTERM and SIGHUP end a command as Ctrl-C does: what is half made is taken away first."""

from __future__ import annotations

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


class Ended(SystemExit):
    """By a signal; the exit code is the one that a shell gives to that."""

    def __init__(self, number: int) -> None:
        super().__init__(128 + number)
        self.number = signal.Signals(number)


def ends_in_order(main: Callable[P, int]) -> Callable[P, int]:
    """A command's `main`, that cleans up at SIGTERM and SIGHUP and returns 143 or 129."""

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
    """Signals raise `Ended` in the main thread; one that is ignored, as by nohup, stays so.

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
