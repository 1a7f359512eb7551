"""Messages between the program and the processes that match grammars: a kind and some bytes."""

from __future__ import annotations

import struct
from array import array
from collections.abc import Callable, Iterable
from typing import NamedTuple

_HEAD = struct.Struct("<BI")  # kind, bytes that follow

# From the program to the server process:
TABLE, DROP, START, END, LOWER = 1, 2, 3, 4, 12
# From the program to a matcher:
BEGIN, ADVANCE, TOKENS = 5, 6, 7
# Answers. A problem is a sentence; REFUSED tells which of the given tokens does not fit; TOKENIZE
# asks for the tokens of a text.
DONE, PROBLEM, REFUSED, TOKENIZE = 8, 9, 10, 11


class Message(NamedTuple):
    kind: int
    data: bytes


class Channel:
    """One end of a socket or of two pipes. `read(count)` returns up to so many bytes, b"" at the
    end; `write` takes all bytes."""

    def __init__(
        self, read: Callable[[int], bytes], write: Callable[[bytes], object], most_bytes: int
    ) -> None:
        self._read, self._write, self._most = read, write, most_bytes

    def send(self, kind: int, data: bytes = b"") -> None:
        """Send a message. OSError if the other side is gone."""
        self._write(_HEAD.pack(kind, len(data)) + data)

    def receive(self) -> Message:
        """Receive a message. EOFError at the end, and for a message that is too long; OSError."""
        kind, count = _HEAD.unpack(self._exactly(_HEAD.size))
        if count > self._most:
            raise EOFError
        return Message(kind, self._exactly(count))

    def _exactly(self, count: int) -> bytes:
        parts, left = [], count
        while left:
            part = self._read(min(left, 1 << 20))
            if not part:
                raise EOFError
            parts.append(part)
            left -= len(part)
        return b"".join(parts)


def packed(numbers: Iterable[int]) -> bytes:
    """uint32 [n], of tokens or lengths."""
    return array("I", numbers).tobytes()


def unpacked(data: bytes) -> array[int]:
    numbers = array("I")
    numbers.frombytes(data)
    return numbers
