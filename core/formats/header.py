"""Bounded reads over the bytes of a mapped file: every length is checked before it is used."""

from __future__ import annotations

import os
import struct
from typing import NoReturn

from llm_lite.core.errors import FileError
from llm_lite.core.plain_text import quote

_U32 = struct.Struct("<I")
_U64 = struct.Struct("<Q")


class HeaderReader:
    """Reads little-endian values at `position`; anything past the end is a FileError."""

    def __init__(self, path: str | os.PathLike[str], buffer: memoryview, position: int = 0) -> None:
        self.path = path
        self.buffer = buffer
        self.position = position

    @property
    def remaining(self) -> int:
        return len(self.buffer) - self.position

    def fail(self, problem: str) -> NoReturn:
        raise FileError(self.path, problem)

    def skip(self, size: int, what: str) -> int:
        """Step over `size` bytes and return where they begin."""
        start = self.position
        if size > len(self.buffer) - start:
            self.fail(
                f"truncated: {what} at byte {start} needs {size} bytes, "
                f"the file has {len(self.buffer) - start} more"
            )
        self.position = start + size
        return start

    def u32(self, what: str) -> int:
        return int(_U32.unpack_from(self.buffer, self.skip(4, what))[0])

    def u64(self, what: str) -> int:
        return int(_U64.unpack_from(self.buffer, self.skip(8, what))[0])

    def count(self, what: str, item_bytes: int) -> int:
        """Read a uint64 count of items of at least `item_bytes` each, which fit in the file."""
        count = self.u64(what)
        if count * item_bytes > self.remaining:
            self.fail(
                f"{what} is {count}, which needs at least {count * item_bytes} bytes; "
                f"the file has {self.remaining} more"
            )
        return count

    def string(self, what: str) -> bytes:
        length = self.count(f"length of {what}", 1)
        start = self.skip(length, what)
        return bytes(self.buffer[start : start + length])

    def name(self, what: str) -> str:
        """Read a string that must be UTF-8: a metadata key or the name of a tensor."""
        raw = self.string(what)
        try:
            return raw.decode()
        except UnicodeDecodeError as error:
            self.fail(f"{what} is not valid UTF-8 (byte {error.start} of {quote(repr(raw))})")

    def skip_strings(self, count: int, what: str) -> None:
        """Step over `count` strings. Tight, because vocabularies hold half a million."""
        buffer, position, last = self.buffer, self.position, len(self.buffer) - 8
        length_at = _U64.unpack_from
        for index in range(count):
            if position > last:
                self.fail(f"truncated: {what} ends at entry {index}, expected {count}")
            position += 8 + length_at(buffer, position)[0]
        if position > len(buffer):
            self.fail(f"truncated: the last of {what} ends at byte {position}, past the file's end")
        self.position = position
