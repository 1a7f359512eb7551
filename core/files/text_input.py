"""Texts from files and standard input: no more is read than a run can use, and strictly UTF-8."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from llm_lite.core.errors import FileError, LlmLiteError, RequestError
from llm_lite.core.files.regular import unreadable

LONGEST_TEXT = 16 << 20  # bytes; what is measured over a text takes hours long before


def read_text(path: Path, most: int = LONGEST_TEXT) -> str:
    """Read the text of a file, FIFO or device of at most `most` bytes.

    FileError where it holds more, cannot be read or is not UTF-8.
    """
    raw = _read_file(path, most)
    if len(raw) > most:
        raise FileError(path, too_long(most))
    return _decoded(raw, lambda problem: FileError(path, problem))


def read_beginning(path: Path, most: int) -> str:
    """Return the characters in the first `most` bytes. FileError as `read_text`, but for size."""
    raw = _read_file(path, most)
    if len(raw) > most:
        raw = _whole_characters(raw[:most])
    return _decoded(raw, lambda problem: FileError(path, problem))


def read_standard_input(most: int) -> str:
    """Read all of standard input. RequestError where `read_text` has FileError."""
    try:
        raw = sys.stdin.buffer.read(most + 1)
    except OSError as error:
        raise RequestError(f"standard input cannot be read: {error.strerror}") from None
    if len(raw) > most:
        raise RequestError(f"standard input {too_long(most)}")
    return _decoded(raw, lambda problem: RequestError(f"standard input {problem}"))


def too_long(most: int) -> str:
    return f"has more than {most} bytes, which is more than can be used"


def _read_file(path: Path, most: int) -> bytes:
    try:
        with path.open("rb") as stream:
            return stream.read(most + 1)  # the writer of a FIFO is waited for
    except FileNotFoundError:
        raise FileError(path, "no such file") from None
    except (OSError, ValueError) as error:  # a null character in the name
        raise unreadable(path, error) from None


def _decoded(raw: bytes, refused: Callable[[str], LlmLiteError]) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise refused(f"is not valid UTF-8 at byte {error.start}") from None


def _whole_characters(raw: bytes) -> bytes:
    """Return the bytes without an incomplete character at the end."""
    for back in range(1, min(4, len(raw)) + 1):
        byte = raw[-back]
        if byte < 0x80:
            return raw
        if byte >= 0xC0:
            length = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return raw if back == length else raw[:-back]
    return raw
