"""Safetensors files, one or several shards with an index: named tensors, mapped and not copied.

Format: https://github.com/huggingface/safetensors#format. Nothing in the files is trusted: every
length and offset is held against the file's size before it is used. It is our own because the
`safetensors` package copies each tensor that it gives to NumPy, and kernels read the map itself.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from llm_lite.core.errors import FileError
from llm_lite.core.files.json_text import MAX_BYTES, found, parse_object, read_object
from llm_lite.core.files.mapping import MappedFile, mapped
from llm_lite.core.formats.header import HeaderReader
from llm_lite.core.formats.tensor_file import TensorFile
from llm_lite.core.plain_text import quote
from llm_lite.core.quant.tensor import TensorData
from llm_lite.core.records import dataclass

SINGLE_FILE = "model.safetensors"
INDEX_FILE = "model.safetensors.index.json"
_MAX_DIMENSIONS = 8
_MAX_SHARDS = 10_000
_VALUE_BYTES = {
    **dict.fromkeys(("BOOL", "U8", "I8", "F8_E5M2", "F8_E4M3"), 1),
    **dict.fromkeys(("U16", "I16", "F16", "BF16"), 2),
    **dict.fromkeys(("U32", "I32", "F32"), 4),
    **dict.fromkeys(("U64", "I64", "F64"), 8),
}


@dataclass(eq=False)
class SafetensorsFile(TensorFile):
    """An open file, or several that are one model.

    A tensor's dtype is the file's in lower case: "f32", "f16", "bf16" are formats to compute with,
    others ("u8", "i8", ...) are raw bytes. metadata: the strings of `__metadata__`; of shards, of
    all together.
    """

    nbytes: int  # of the files


def open_safetensors(path: str | Path) -> SafetensorsFile:
    """Map one file and read its header. Raises FileError for whatever is wrong with it."""
    file = Path(path)
    with mapped(file, "a safetensors file") as mapping:
        return _read(file, mapping)


def _read(file: Path, mapping: MappedFile) -> SafetensorsFile:
    reader = HeaderReader(file, memoryview(mapping))
    header = _read_header(reader)
    metadata = _read_metadata(reader, header.pop("__metadata__", {}))
    data = np.frombuffer(mapping, np.uint8)[reader.position :]
    entries = [_read_entry(reader, name, entry, len(data)) for name, entry in header.items()]
    _check_cover(reader, entries, len(data))
    tensors = {entry.name: entry.tensor(data) for entry in entries}
    return SafetensorsFile(
        file, MappingProxyType(metadata), MappingProxyType(tensors), len(reader.buffer)
    )


def open_sharded(index: str | Path) -> SafetensorsFile:
    """The shards that an index (`model.safetensors.index.json`) names, as one.

    Raises FileError where a shard is missing, broken, or not the one that the index means.
    """
    path = Path(index)
    places = _read_places(path)
    tensors: dict[str, TensorData] = {}
    metadata: dict[str, str] = {}
    nbytes = 0
    for name in sorted(set(places.values())):
        shard = _open_shard(path, name, places)
        tensors |= shard.tensors
        metadata |= shard.metadata
        nbytes += shard.nbytes
    return SafetensorsFile(path, MappingProxyType(metadata), MappingProxyType(tensors), nbytes)


def open_folder(folder: str | Path) -> SafetensorsFile:
    """A directory's model: its index and shards, else its single file."""
    path = Path(folder)
    if (path / INDEX_FILE).exists():
        return open_sharded(path / INDEX_FILE)
    if (path / SINGLE_FILE).exists():
        return open_safetensors(path / SINGLE_FILE)
    raise FileError(path, f"holds no weights: expected {SINGLE_FILE} or {INDEX_FILE}")


@dataclass(frozen=True, slots=True)
class _Entry:
    name: str
    dtype: str
    shape: tuple[int, ...]
    begin: int  # bytes from the end of the header
    end: int

    def tensor(self, data: NDArray[np.uint8]) -> TensorData:
        return TensorData(self.name, self.dtype.lower(), self.shape, data[self.begin : self.end])


def _read_header(reader: HeaderReader) -> dict[str, Any]:
    size = reader.u64("the length of the header")
    if size > MAX_BYTES:
        reader.fail(
            f"is not a safetensors file: its header would have {size} bytes, "
            f"expected at most {MAX_BYTES}"
        )
    start = reader.skip(size, "the header")
    return parse_object(bytes(reader.buffer[start : start + size]), Path(reader.path), "the header")


def _read_metadata(reader: HeaderReader, value: object) -> dict[str, str]:
    if not isinstance(value, dict):
        reader.fail(f"__metadata__ is {found(value)}, expected an object of strings")
    for key, text in value.items():
        if not isinstance(text, str):
            reader.fail(f"__metadata__ {quote(key)} is {found(text)}, expected a string")
    return value


def _read_entry(reader: HeaderReader, name: str, entry: object, size: int) -> _Entry:
    what = f"tensor {quote(name)}"
    if not isinstance(entry, dict):
        reader.fail(f"{what} is {found(entry)}, expected an object")
    for key in ("dtype", "shape", "data_offsets"):
        if key not in entry:
            reader.fail(f"{what} has no {key}")
    dtype = entry["dtype"]
    if not isinstance(dtype, str) or dtype not in _VALUE_BYTES:
        known = ", ".join(_VALUE_BYTES)
        reader.fail(f"{what} has dtype {found(dtype)}, expected one of {known}")
    shape = _read_shape(reader, what, entry["shape"], size)
    begin, end = _read_offsets(reader, what, entry["data_offsets"], size)
    expected = math.prod(shape) * _VALUE_BYTES[dtype]
    if end - begin != expected:
        reader.fail(f"{what} of {dtype} {shape} has {end - begin} bytes, expected {expected}")
    return _Entry(name, dtype, shape, begin, end)


def _read_shape(reader: HeaderReader, what: str, value: object, size: int) -> tuple[int, ...]:
    if not isinstance(value, list) or not all(type(n) is int for n in value):
        reader.fail(f"{what} has shape {found(value)}, expected a list of integers")
    if len(value) > _MAX_DIMENSIONS:
        reader.fail(f"{what} has {len(value)} dimensions, expected at most {_MAX_DIMENSIONS}")
    # One at a time, so that the product stays small: no dtype has less than a byte a value.
    product = 1
    for n in value:
        product *= n
        if not 0 <= n <= size or product > size:
            shown = str(value)[:80]
            reader.fail(f"{what} has shape {shown}, but the file has {size} bytes of data")
    return tuple(value)


def _read_offsets(reader: HeaderReader, what: str, value: object, size: int) -> tuple[int, int]:
    if not isinstance(value, list) or len(value) != 2 or not all(type(n) is int for n in value):
        reader.fail(f"{what} has data_offsets {found(value)}, expected two integers")
    begin, end = value
    if not 0 <= begin <= end <= size:
        shown = str(value)[:80]
        reader.fail(
            f"{what} has data_offsets {shown}, expected an ascending pair up to {size}, "
            "the bytes of data in the file (truncated?)"
        )
    return begin, end


def _check_cover(reader: HeaderReader, entries: list[_Entry], size: int) -> None:
    """The format allows neither gaps nor overlaps: each byte of data is one tensor's."""
    ordered = sorted(entries, key=lambda entry: (entry.begin, entry.end))
    for before, after in pairwise(ordered):
        if after.begin != before.end:
            reader.fail(
                f"tensor {quote(after.name)} begins at byte {after.begin} of the data, expected "
                f"{before.end}, where tensor {quote(before.name)} ends"
            )
    if ordered and ordered[0].begin:
        first = ordered[0]
        reader.fail(f"tensor {quote(first.name)} begins at byte {first.begin}, expected 0")
    end = ordered[-1].end if ordered else 0
    if end != size:
        reader.fail(f"the tensors end at byte {end} of the data, but the file has {size}")


def _read_places(index: Path) -> dict[str, str]:
    """Tensor -> name of the shard's file, which must lie beside the index."""
    places = read_object(index).get("weight_map")
    if not isinstance(places, dict) or not places:
        raise FileError(index, "weight_map is missing or empty, expected tensors and their shards")
    for tensor, shard in places.items():
        if not isinstance(shard, str) or not _is_plain_name(shard):
            raise FileError(
                index,
                f"weight_map: tensor {quote(tensor)} is in {found(shard)}, expected a file's name",
            )
    shards = len(set(places.values()))
    if shards > _MAX_SHARDS:
        raise FileError(index, f"weight_map names {shards} shards, expected at most {_MAX_SHARDS}")
    return places


def _is_plain_name(name: str) -> bool:
    """A file beside the index, nothing that leads elsewhere."""
    special = any(char in "/\\:\0" or "\ud800" <= char <= "\udfff" for char in name)
    return name not in ("", ".", "..") and not special and len(name.encode()) <= 255


def _open_shard(index: Path, name: str, places: Mapping[str, str]) -> SafetensorsFile:
    wanted = {tensor for tensor, shard in places.items() if shard == name}
    path = index.parent / name
    if not path.exists():
        raise FileError(path, f"no such file, but {index.name} names it as one of its shards")
    shard = open_safetensors(path)
    if lacking := sorted(wanted - set(shard.tensors)):
        _fail_shard(path, index, f"tensor {quote(lacking[0])} is missing, which {index.name} names")
    if foreign := sorted(set(shard.tensors) - wanted):
        _fail_shard(
            path, index, f"has tensor {quote(foreign[0])}, not named for it by {index.name}"
        )
    return shard


def _fail_shard(path: Path, index: Path, problem: str) -> NoReturn:
    raise FileError(path, f"{problem} (a shard of another model?)")
