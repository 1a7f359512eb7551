"""The one door to the terminal: results go to standard output, all else to standard error.

Text from outside (names in files, paths, tokens, refusals of templates) passes `core.plain_text`
here, so that no other part of the program has to think of it. Nothing else in this folder prints.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from llm_lite.core.errors import LlmLiteError
from llm_lite.core.plain_text import lines, one_line


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


def _buffered(stream: io.TextIOWrapper) -> io.TextIOWrapper:
    """Return the stream with a buffer: without one, as PYTHONUNBUFFERED asks for, what a system
    call does not take is lost unseen."""
    encoding, lines = stream.encoding, stream.line_buffering
    raw: Any = stream.detach()
    return io.TextIOWrapper(io.BufferedWriter(raw), encoding, line_buffering=lines)


def _stand_in(number: int, flags: int, mode: str) -> Any:
    opened = os.open(os.devnull, flags)
    if opened != number:
        os.dup2(opened, number)
        os.close(opened)
    return open(number, mode, encoding="utf-8", errors="replace", closefd=False)


def show(text: str = "") -> None:
    """Print lines of a report on standard output."""
    _write(lines(text) + "\n")


def show_json(value: Any) -> None:
    """One object on a line; what is not ASCII is escaped, as a terminal may take it for control.

    Numbers in it are finite: ValueError, a defect of who made them, else.
    """
    _write(json.dumps(value, allow_nan=False) + "\n")


def stream(text: str) -> None:
    """Print a piece of an answer at once. A file or a pipe gets it unchanged: there it is data."""
    _write(lines(text) if sys.stdout.isatty() else text)
    finish()


def shows_thoughts() -> bool:
    """Return True on a terminal: a file or a pipe gets the answer without its thoughts."""
    return sys.stdout.isatty()


def stream_thought(text: str) -> None:
    """Print a piece of a model's thoughts, dimmed; on a terminal only."""
    if not text or not shows_thoughts():
        return
    plain = os.environ.get("TERM") == "dumb"
    _write(lines(text) if plain else f"\x1b[2m{lines(text)}\x1b[22m")
    finish()


def finish() -> None:
    """Write what is buffered, here, where a failure can be told."""
    _tell("")
    try:
        sys.stdout.flush()
    except OSError as error:
        _fail(error)


def say(text: str) -> None:
    """Print a sentence on standard error; a failure to write is ignored."""
    _tell(one_line(text) + "\n")


def tell_lines(text: str) -> None:
    """Print several lines on standard error, as of a traceback."""
    _tell(lines(text).rstrip("\n") + "\n")


def warn(text: str) -> None:
    """Print a sentence on standard error, behind the program's name."""
    say(f"llm-lite: {text}")


def tell(note: str) -> None:
    """Print a note as `warn` does, unless it is empty."""
    if note:
        warn(note)


def tell_written(path: Path, kind: str, shape: Sequence[int]) -> None:
    """Print on standard error what was written into a file."""
    sizes = ", ".join(map(str, shape))
    say(f"{path}: {kind}, float32 [{sizes}]")


def prompt(text: str) -> None:
    """Print the text before the line that is typed."""
    finish()
    _tell(one_line(text))


def overwrite(text: str, *, last: bool = False) -> None:
    """Print a line on standard error that the next one overwrites on a terminal."""
    if not sys.stderr.isatty():
        say(text)
        return
    import shutil  # not before there is something long to wait for

    width = shutil.get_terminal_size().columns - 1
    _tell(f"\r\x1b[K{one_line(text)[:width]}" + ("\n" if last else ""))


def _write(text: str) -> None:
    try:
        sys.stdout.write(text)
    except OSError as error:
        _fail(error)


def _tell(text: str) -> None:
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except OSError:
        with contextlib.suppress(OSError):
            abandon(sys.stderr)


def _fail(error: OSError) -> None:
    """Pass on that the reader left, as of `| head`; raise LlmLiteError for any other failure."""
    abandon(sys.stdout)
    if isinstance(error, BrokenPipeError):
        raise error
    raise LlmLiteError(f"standard output cannot be written: {error.strerror or error}") from None


def abandon(stream: Any) -> None:
    """Let what is still buffered go nowhere: it would fail again when the interpreter ends."""
    try:
        number = stream.fileno()
    except (OSError, ValueError):  # not a file: a test's, say
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, number)
    os.close(nowhere)


def size_text(nbytes: int) -> str:
    """Return a size as people write it: 98 MB, 4.7 GB."""
    if nbytes >= 999_500_000:
        return f"{nbytes / 1e9:.1f} GB"
    return f"{nbytes / 1e6:.0f} MB" if nbytes >= 999_500 else f"{nbytes / 1e3:.0f} kB"


def parameters_text(count: int) -> str:
    """Return a count of parameters as names of models have it: 135M, 4.0B; "" if it is not
    known."""
    if not count:
        return ""
    if count >= 999.5e6:
        return f"{count / 1e9:.1f}B"
    return f"{count / 1e6:.0f}M" if count >= 999.5e3 else f"{count / 1e3:.0f}k"
