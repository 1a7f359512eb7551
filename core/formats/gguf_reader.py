"""GGUF files (versions 2 and 3, little endian): metadata and tensors, mapped and not copied.

Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md. Nothing in the file is
trusted: every count, length and offset is held against the file's size before it is used. It is our
own because the `gguf` package visits every vocabulary entry: seconds for SmolLM2, here 0.01 s.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import Any, overload

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from llm_lite.core.errors import FileError, UnsupportedError
from llm_lite.core.files.json_text import found
from llm_lite.core.files.mapping import MappedFile, mapped
from llm_lite.core.formats.companions import other_kind
from llm_lite.core.formats.header import HeaderReader
from llm_lite.core.formats.tensor_file import TensorFile
from llm_lite.core.plain_text import quote
from llm_lite.core.quant.registry import FORMATS, GGML_TYPES, GGUF_FORMATS
from llm_lite.core.quant.tensor import TensorData
from llm_lite.core.records import replace

EXPERTS = "_exps.weight"  # ends the names of the matrices of all experts of a layer

# The usual names of the weight types that `general.file_type` stands for. Numbers: enum llama_ftype
# of https://github.com/ggml-org/llama.cpp/blob/master/include/llama.h
FILE_TYPES = {
    0: "F32",
    1: "F16",
    2: "Q4_0",
    3: "Q4_1",
    7: "Q8_0",
    8: "Q5_0",
    9: "Q5_1",
    10: "Q2_K",
    11: "Q3_K_S",
    12: "Q3_K_M",
    13: "Q3_K_L",
    14: "Q4_K_S",
    15: "Q4_K_M",
    16: "Q5_K_S",
    17: "Q5_K_M",
    18: "Q6_K",
    19: "IQ2_XXS",
    20: "IQ2_XS",
    21: "Q2_K_S",
    22: "IQ3_XS",
    23: "IQ3_XXS",
    24: "IQ1_S",
    25: "IQ4_NL",
    26: "IQ3_S",
    27: "IQ3_M",
    28: "IQ2_S",
    29: "IQ2_M",
    30: "IQ4_XS",
    31: "IQ1_M",
    32: "BF16",
    36: "TQ1_0",
    37: "TQ2_0",
    38: "MXFP4_MOE",
}

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
_NAME = re.compile(r"(.*)-([0-9]{5})-of-([0-9]{5})\.gguf", re.IGNORECASE)
_MOST = 10_000
NUMBER, COUNT, TENSORS = "split.no", "split.count", "split.tensors.count"
_MAGIC = b"GGUF"
_KIND_BYTES = 32  # that tell another kind of file
_VERSIONS = (2, 3)
_MAX_DIMENSIONS = 4
_DEFAULT_ALIGNMENT = 32

# Types that GGUF numbers and that are no weights, or none any more.
_OF_ACTIVATIONS = "which is of activations and never of a file's weights"
_NO_WEIGHTS = "which is not of weights"
_REMOVED = "which was withdrawn from GGUF"
_NOT_READ = {
    **dict.fromkeys(("q8_1", "q8_k"), _OF_ACTIVATIONS),
    **dict.fromkeys(("i8", "i16", "i32", "i64", "f64"), _NO_WEIGHTS),
    **dict.fromkeys(("q4_2", "q4_3", "q4_0_4_4", "q4_0_4_8", "q4_0_8_8"), _REMOVED),
    **dict.fromkeys(("iq4_nl_4_4", "iq4_nl_4_8", "iq4_nl_8_8"), _REMOVED),
    "q2_0": "of which there are two layouts",
}
_MIN_PAIR_BYTES = 8 + 4 + 1  # length of a key, type, the shortest value
_MIN_INFO_BYTES = 8 + 4 + 8 + 4 + 8  # length of a name, n_dims, one dimension, type, offset


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


class GgufFile(TensorFile, eq=False):
    """An open GGUF file, or the parts of one model. Values of metadata: int, float, bool, str, or a
    MetadataArray."""

    version: int
    nbytes: int  # of all parts


def open_gguf(path: str | Path, progress: Callable[[float], None] | None = None) -> GgufFile:
    """Map a file and read its header; `progress` is called with the part done, 0 to 1. Of a model
    in parts this is the first, and the others are mapped with it.

    Raises FileError for whatever is wrong with the file, UnsupportedError for a tensor whose
    block type is known to GGUF and not to us. What `progress` raises (to cancel) passes through.
    """
    file = Path(path)
    with mapped(file, "a GGUF file") as mapping:
        first = _read(file, mapping, progress)
    others = parts_behind(file, first.metadata)
    return _joined(first, others) if others else first


def _joined(first: GgufFile, others: list[Path]) -> GgufFile:
    tensors, nbytes = dict(first.tensors), first.nbytes
    for number, path in enumerate(others, 1):
        with mapped(path, "a GGUF file") as mapping:
            part = _read(path, mapping, None)
        check_part(path, part.metadata, number, len(others) + 1)
        if twice := sorted(tensors.keys() & part.tensors.keys()):
            raise FileError(path, f"tensor {quote(twice[0])} is in an earlier part too")
        tensors |= part.tensors
        nbytes += part.nbytes
    check_tensors(first.path, first.metadata, len(tensors))
    return GgufFile(first.path, first.metadata, MappingProxyType(tensors), first.version, nbytes)


def _read(file: Path, mapping: MappedFile, progress: Callable[[float], None] | None) -> GgufFile:
    reader = HeaderReader(file, memoryview(mapping))
    version = _read_version(reader)
    tensor_count = reader.count("number of tensors", _MIN_INFO_BYTES)
    pair_count = reader.count("number of metadata pairs", _MIN_PAIR_BYTES)
    report = _reporter(progress, pair_count + tensor_count)
    metadata: dict[str, Any] = {}
    for index in range(pair_count):
        _read_pair(reader, index, metadata)
        report(index + 1)
    infos: dict[str, _TensorInfo] = {}
    for index in range(tensor_count):
        _read_info(reader, index, infos)
        report(pair_count + index + 1)
    data = np.frombuffer(mapping, np.uint8)
    tensors = _place(reader, data, _alignment(reader, metadata), infos)
    return GgufFile(
        file, MappingProxyType(metadata), MappingProxyType(tensors), version, len(mapping)
    )


def read_metadata(path: str | Path) -> dict[str, Any]:
    """Return a file's metadata, whatever its tensors are. FileError."""
    file = Path(path)
    with mapped(file, "a GGUF file") as mapping:
        reader = HeaderReader(file, memoryview(mapping))
        _read_version(reader)
        reader.count("number of tensors", 0)
        metadata: dict[str, Any] = {}
        for index in range(reader.count("number of metadata pairs", _MIN_PAIR_BYTES)):
            _read_pair(reader, index, metadata)
        return metadata


def _reporter(progress: Callable[[float], None] | None, steps: int) -> Callable[[int], None]:
    if progress is None:
        return lambda done: None
    stride = max(1, steps // 100)
    return lambda done: progress(done / steps) if done % stride == 0 or done == steps else None


def _read_version(reader: HeaderReader) -> int:
    start = reader.skip(4, "the magic number")
    magic = bytes(reader.buffer[start : start + 4])
    if magic != _MAGIC:
        if what := other_kind(bytes(reader.buffer[start : start + _KIND_BYTES])):
            reader.fail(f"is not a GGUF file: it is {what}")
        reader.fail(f"is not a GGUF file: it begins with {magic!r}, expected {_MAGIC!r}")
    version = reader.u32("the format version")
    if version and version & 0xFFFF == 0:
        reader.fail("is a big-endian GGUF file, expected little-endian")
    if version not in _VERSIONS:
        reader.fail(f"has GGUF version {version}, expected 2 or 3")
    return version


def _read_pair(reader: HeaderReader, index: int, metadata: dict[str, Any]) -> None:
    key = reader.name(f"key of metadata pair {index}")
    if key in metadata:
        reader.fail(f"metadata key {quote(key)} appears twice")
    metadata[key] = read_value(reader, key)


def _alignment(reader: HeaderReader, metadata: Mapping[str, Any]) -> int:
    alignment = metadata.get("general.alignment", _DEFAULT_ALIGNMENT)
    if type(alignment) is not int or alignment < 8 or alignment & (alignment - 1):
        shown = quote(str(alignment))
        reader.fail(f"general.alignment is {shown}, expected a power of two of at least 8")
    return alignment


class _TensorInfo(Struct, frozen=True):
    name: str
    dtype: str
    shape: tuple[int, ...]  # row-major
    offset: int  # bytes from the beginning of the data section

    @property
    def nbytes(self) -> int:
        return FORMATS[self.dtype].nbytes(self.shape)


def _read_info(reader: HeaderReader, index: int, infos: dict[str, _TensorInfo]) -> None:
    name = reader.name(f"name of tensor {index}")
    what = f"tensor {quote(name)}"
    if name in infos:
        reader.fail(f"{what} appears twice")
    shape = _read_shape(reader, what)
    dtype = _format_name(reader, what, reader.u32(f"type of {what}"))
    block = FORMATS[dtype].block_size
    if shape[-1] % block:
        reader.fail(f"{what} has rows of {shape[-1]} values, expected a multiple of {block}")
    infos[name] = _TensorInfo(name, dtype, shape, reader.u64(f"offset of {what}"))


def _read_shape(reader: HeaderReader, what: str) -> tuple[int, ...]:
    n_dims = reader.u32(f"number of dimensions of {what}")
    if not 1 <= n_dims <= _MAX_DIMENSIONS:
        reader.fail(f"{what} has {n_dims} dimensions, expected 1 to {_MAX_DIMENSIONS}")
    shape = tuple(reader.u64(f"dimensions of {what}") for _ in range(n_dims))[::-1]
    # No format stores fewer than one bit a value, so this also bounds every later product.
    if 0 in shape or math.prod(shape) > 8 * len(reader.buffer):
        reader.fail(
            f"{what} has shape {shape}; expected dimensions from 1 "
            f"and at most as many values as {len(reader.buffer)} bytes can hold (truncated?)"
        )
    return shape


def _format_name(reader: HeaderReader, what: str, ggml_type: int) -> str:
    name, known = GGML_TYPES.get(ggml_type), ", ".join(GGUF_FORMATS)
    if name is None:
        reader.fail(f"{what} has unknown block type {ggml_type}, expected one of {known}")
    if name not in GGUF_FORMATS:
        why = _NOT_READ.get(name, "which is not supported")
        raise UnsupportedError(
            f"{reader.path}: {what} has block type {name} ({ggml_type}), {why}; "
            f"expected one of {known}"
        )
    return name


def _place(
    reader: HeaderReader, data: NDArray[np.uint8], alignment: int, infos: dict[str, _TensorInfo]
) -> dict[str, TensorData]:
    """Cut the tensors out of the data section, which begins aligned after the header."""
    base = -(-reader.position // alignment) * alignment
    for info in infos.values():
        _check_offset(reader, info, base, alignment)
    for before, after in pairwise(sorted(infos.values(), key=lambda info: info.offset)):
        if before.offset + before.nbytes > after.offset:
            reader.fail(
                f"tensor {quote(after.name)} begins at offset {after.offset} and overlaps tensor "
                f"{quote(before.name)}, which ends at {before.offset + before.nbytes}"
            )
    return {
        info.name: TensorData(
            info.name,
            info.dtype,
            info.shape,
            data[base + info.offset : base + info.offset + info.nbytes],
        )
        for info in infos.values()
    }


def _check_offset(reader: HeaderReader, info: _TensorInfo, base: int, alignment: int) -> None:
    if info.offset % alignment:
        reader.fail(
            f"tensor {quote(info.name)} has offset {info.offset}, "
            f"expected a multiple of the alignment {alignment}"
        )
    end = base + info.offset + info.nbytes
    if end > len(reader.buffer):
        reader.fail(
            f"tensor {quote(info.name)} ends at byte {end}, "
            f"but the file has {len(reader.buffer)} bytes (truncated?)"
        )


def parts_behind(path: Path, metadata: Mapping[str, Any]) -> list[Path]:
    """Return the files that belong to the first one, [] for a model in one file. FileError if this
    is not the first, or its name contradicts its metadata."""
    count = metadata.get(COUNT, 0)
    if type(count) is not int or not 0 <= count <= _MOST:
        raise FileError(path, f"{COUNT} is {found(count)}, expected a number up to {_MOST}")
    if count <= 1:
        return []
    match = _NAME.fullmatch(path.name)
    if match is None or int(match[3]) != count:
        raise FileError(
            path,
            f"is one of {count} parts, which find each other by name: expected a name that ends "
            f"with -00001-of-{count:05}.gguf",
        )
    number = metadata.get(NUMBER)
    if number != 0 or int(match[2]) != 1:
        first = path.with_name(f"{match[1]}-00001-of-{count:05}{path.suffix}")
        raise FileError(path, f"is not the first of {count} parts: open {first}")
    return [
        path.with_name(f"{match[1]}-{part:05}-of-{count:05}{path.suffix}")
        for part in range(2, count + 1)
    ]


def check_part(path: Path, metadata: Mapping[str, Any], number: int, count: int) -> None:
    """Raise FileError if the file is not this part of as many."""
    stored = metadata.get(NUMBER), metadata.get(COUNT)
    if stored != (number, count):
        shown = f"{NUMBER} {found(stored[0])} and {COUNT} {found(stored[1])}"
        raise FileError(path, f"expected {NUMBER} {number} and {COUNT} {count}, found {shown}")


def check_tensors(path: Path, metadata: Mapping[str, Any], count: int) -> None:
    """Raise FileError if the parts do not have all tensors together."""
    expected = metadata.get(TENSORS, count)
    if expected != count:
        raise FileError(path, f"{TENSORS}: expected {found(expected)} in all parts, found {count}")


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


def unstacked(tensors: Mapping[str, TensorData]) -> dict[str, TensorData]:
    """Return stacks of matrices as matrices: "altup_proj.weight" [3,N,K] becomes
    "altup_proj.0.weight" [N,K] and so on; experts, whose products are chosen, stay together:
    "ffn_up_exps.weight" [E,N,K] becomes [E*N,K]."""
    result = {}
    for name, tensor in tensors.items():
        if len(tensor.shape) != 3 or not name.endswith(".weight"):
            result[name] = tensor
            continue
        if name.endswith(EXPERTS):
            stacked = tensor.shape[0] * tensor.shape[1], tensor.shape[2]
            result[name] = replace(tensor, shape=stacked)
            continue
        size = tensor.nbytes // tensor.shape[0]
        for i in range(tensor.shape[0]):
            part = f"{name.removesuffix('.weight')}.{i}.weight"
            data = tensor.data[i * size : (i + 1) * size]
            result[part] = TensorData(part, tensor.dtype, tensor.shape[1:], data)
    return result
