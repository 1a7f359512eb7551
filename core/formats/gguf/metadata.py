"""Metadata of a GGUF header: typed scalars, strings and arrays.

Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from llm_lite.core.formats.header import HeaderReader
from llm_lite.core.plain_text import quote

# Type number -> little-endian numpy code, in the order of gguf.md.
_NUMBER_CODES = dict(
    zip(
        (0, 1, 2, 3, 4, 5, 6, 7, 10, 11, 12),
        ("u1", "i1", "<u2", "<i2", "<u4", "<i4", "<f4", "u1", "<u8", "<i8", "<f8"),
        strict=True,
    )
)
_NUMBERS = {number: np.dtype(code) for number, code in _NUMBER_CODES.items()}
_BOOL, _STRING, _ARRAY = 7, 8, 9
_MAX_NESTING = 4
_MIN_STRING_BYTES = 8
_MIN_ARRAY_BYTES = 12


class MetadataArray(Sequence[Any]):
    """An array of the header, decoded when first used; equal to a list of the same values.

    Elements are int, float, bool, str or MetadataArray. Bytes that are not UTF-8 (vocabularies
    may hold them) decode with surrogateescape.
    """

    def __init__(self, reader: HeaderReader, kind: int, count: int, depth: int) -> None:
        self._reader, self._kind, self._count, self._depth = reader, kind, count, depth

    @cached_property
    def _values(self) -> list[Any] | NDArray[Any]:
        # A fresh reader: the array may be decoded long after the header was read.
        reader = HeaderReader(self._reader.path, self._reader.buffer, self._reader.position)
        if self._kind == _STRING:
            return _decode_strings(reader, self._count)
        if self._kind == _ARRAY:
            return [read_array(reader, "nested array", self._depth + 1) for _ in range(self._count)]
        numbers = np.frombuffer(reader.buffer, _NUMBERS[self._kind], self._count, reader.position)
        return numbers != 0 if self._kind == _BOOL else numbers  # stay in the file, not objects

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> Any: ...
    @overload
    def __getitem__(self, index: slice) -> list[Any]: ...
    def __getitem__(self, index: int | slice) -> Any:
        found = self._values[index]
        return found.tolist() if isinstance(found, np.ndarray | np.generic) else found

    def __iter__(self) -> Iterator[Any]:
        return iter(self[:])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, list | tuple | MetadataArray):
            return NotImplemented
        return len(self) == len(other) and self[:] == list(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"MetadataArray({self._count} of type {self._kind})"


def read_value(reader: HeaderReader, key: str) -> Any:
    """Return the value of `key`, which is a type number and the value itself."""
    what = f"value of metadata key {quote(key)}"
    kind = reader.u32(f"type of the {what}")
    if kind == _STRING:
        return reader.string(what).decode(errors="replace")
    if kind == _ARRAY:
        return read_array(reader, what)
    if kind not in _NUMBERS:
        reader.fail(f"the {what} has type {kind}, expected 0 to 12")
    dtype = _NUMBERS[kind]
    value = np.frombuffer(reader.buffer, dtype, 1, reader.skip(dtype.itemsize, what)).item()
    if kind != _BOOL:
        return value
    if value not in (0, 1):
        reader.fail(f"the {what} is a bool of byte {value}, expected 0 or 1")
    return bool(value)


def read_array(reader: HeaderReader, what: str, depth: int = 1) -> MetadataArray:
    """Check that an array ends within the file and step over it; it is decoded later."""
    if depth > _MAX_NESTING:
        reader.fail(f"the {what} nests arrays deeper than {_MAX_NESTING} levels")
    kind = reader.u32(f"element type of the {what}")
    if kind not in _NUMBERS and kind not in (_STRING, _ARRAY):
        reader.fail(f"the {what} is an array of type {kind}, expected 0 to 12")
    item_bytes = {_STRING: _MIN_STRING_BYTES, _ARRAY: _MIN_ARRAY_BYTES}
    count = reader.count(
        f"number of elements of the {what}",
        _NUMBERS[kind].itemsize if kind in _NUMBERS else item_bytes[kind],
    )
    start = HeaderReader(reader.path, reader.buffer, reader.position)
    if kind == _STRING:
        reader.skip_strings(count, f"the strings of the {what}")
    elif kind == _ARRAY:
        for _ in range(count):
            read_array(reader, what, depth + 1)
    else:
        reader.skip(count * _NUMBERS[kind].itemsize, what)
    return MetadataArray(start, kind, count, depth)


def _decode_strings(reader: HeaderReader, count: int) -> list[str]:
    buffer, position, strings = reader.buffer, reader.position, []
    length_at = struct.Struct("<Q").unpack_from
    for _ in range(count):
        start = position + 8
        position = start + length_at(buffer, position)[0]
        strings.append(str(buffer[start:position], "utf-8", "surrogateescape"))
    return strings
