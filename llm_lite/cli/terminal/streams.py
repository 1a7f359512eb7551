"""The three standard streams, whatever state the program was started with."""

from __future__ import annotations

import io
import os
import sys
from typing import Any


def prepare() -> None:
    """Make the streams usable: to be called once, before anything is read or written.

    A stream that was closed (`>&-`) has a descriptor that the next file to be opened would get,
    so that what a library prints would end in it. It gets the null device instead: one that cannot
    be read for standard input and not be written for standard output, so that whoever uses it is
    told, and a silent one for standard error.
    """
    if sys.stdin is None:
        sys.stdin = _stand_in(0, os.O_WRONLY, "r")
    if sys.stdout is None:
        sys.stdout = _stand_in(1, os.O_RDONLY, "w")
    if sys.stderr is None:
        sys.stderr = _stand_in(2, os.O_WRONLY, "w")
    if isinstance(sys.stdout, io.TextIOWrapper):
        own = sys.stdout is sys.__stdout__
        if own and isinstance(sys.stdout.buffer, io.RawIOBase):
            sys.stdout = _buffered(sys.stdout)
        sys.stdout.reconfigure(errors="replace")  # a terminal that lacks a character shows ?


def abandon(stream: Any) -> None:
    """Let what is still buffered go nowhere: it would fail again when the interpreter ends."""
    try:
        number = stream.fileno()
    except (OSError, ValueError):  # not a file: a test's, say
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, number)
    os.close(nowhere)


def _buffered(stream: io.TextIOWrapper) -> io.TextIOWrapper:
    """Without a buffer, as PYTHONUNBUFFERED asks for, what a system call leaves is lost unseen."""
    encoding, lines = stream.encoding, stream.line_buffering
    raw: Any = stream.detach()
    return io.TextIOWrapper(io.BufferedWriter(raw), encoding, line_buffering=lines)


def _stand_in(number: int, flags: int, mode: str) -> Any:
    opened = os.open(os.devnull, flags)
    if opened != number:
        os.dup2(opened, number)
        os.close(opened)
    return open(number, mode, encoding="utf-8", errors="replace", closefd=False)
