"""A door whose cases fail, one in each way: they prove that the runner sees it."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path

import numpy as np

from llm_lite.core.errors import RequestError
from tests.fuzz.door import Case, Door, Result

KINDS = (
    *("ok", "sentence", "raise", "panic", "None", "repr", "two lines", "segfault", "exit"),
    *("loop", "wait", "allocate", "grow", "nan", "warned", "outside", "spin"),
)


MEMORY_BYTES = 64 << 20  # quickly filled, also on a busy machine


class Panic(BaseException):
    """As pyo3's, which is no Exception."""


def use(case: Case) -> Result | None:
    match KINDS[case.number % len(KINDS)]:
        case "sentence":
            raise RequestError("the number is too large: expected at most 3, found 4")
        case "raise":
            raise KeyError("x")
        case "panic":
            raise Panic("index out of bounds")
        case "None":
            raise RequestError("/tmp/x: cannot be written: None")
        case "repr":
            raise RequestError(f"x: cannot be read: {KeyError('x')!r}")
        case "two lines":
            return _TwoLinesError().say()
        case "segfault":
            os.kill(os.getpid(), signal.SIGSEGV)
        case "exit":
            os._exit(7)
        case "loop":
            while True:
                pass
        case "wait":
            threading.Event().wait()
        case "allocate":
            np.ones(3 << 30, np.uint8)
        case "grow":
            np.ones(2 * MEMORY_BYTES, np.uint8)
        case "nan":
            return Result([np.array([1.0, np.nan])])
        case "warned":
            return Result([np.array([1.0, np.inf])], warned=True)
        case "spin":  # half the limit
            spin(0.5)
        case "outside":
            (Path(__file__).parent / "planted").write_text("x")
    return Result([np.ones(3)])


class _TwoLinesError(RequestError):
    def __str__(self) -> str:
        return "the first line\nand another one"

    def say(self) -> None:
        raise self


def spin(seconds: float) -> None:
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


DOOR = Door("planted", use, seconds=1.0, memory_bytes=MEMORY_BYTES)
