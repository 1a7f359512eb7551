"""Safetensors files, one or several shards with an index: named tensors, mapped and not copied.

Format: https://github.com/huggingface/safetensors#format. The `safetensors` package parses and
checks the header; it tells types and shapes in the order of the data, which have no holes, so that
each tensor begins where the one before it ends. The bytes are mapped here: the package copies each
tensor that it gives to NumPy, and kernels read the map itself.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from llm_lite.core.errors import FileError
from llm_lite.core.files.json_text import MAX_BYTES, found, parse_object, read_object
from llm_lite.core.files.mapping import MappedFile, mapped
from llm_lite.core.formats.tensor_file import TensorFile
from llm_lite.core.plain_text import quote
from llm_lite.core.quant.tensor import TensorData

VALUE_BITS = {
    "F4": 4,
    **dict.fromkeys(("F6_E2M3", "F6_E3M2"), 6),
    **dict.fromkeys(("BOOL", "U8", "I8", "F8_E5M2", "F8_E4M3", "F8_E8M0"), 8),
    **dict.fromkeys(("F8_E4M3FNUZ", "F8_E5M2FNUZ"), 8),
    **dict.fromkeys(("U16", "I16", "F16", "BF16"), 16),
    **dict.fromkeys(("U32", "I32", "F32"), 32),
    **dict.fromkeys(("U64", "I64", "F64", "C64"), 64),
}
MAX_DIMENSIONS = 8
DATA_END = "the tensors end at byte {} of the data"


SINGLE_FILE = "model.safetensors"
INDEX_FILE = "model.safetensors.index.json"
_MAX_SHARDS = 10_000
_LENGTH_BYTES = 8  # of the header's length, before it
_Entry = tuple[str, str, tuple[int, ...]]  # a tensor's name, dtype and shape


class SafetensorsFile(TensorFile, eq=False):
    """An open file, or several that are one model.

    A tensor's dtype is the file's in lower case: "f32", "f16", "bf16" are formats to compute with,
    others ("u8", "i8", ...) are raw bytes. metadata: the strings of `__metadata__`; of shards, of
    all together. unlisted: names of tensors of shards that their index does not name; they are not
    read.
    """

    nbytes: int  # of the files
    unlisted: tuple[str, ...] = ()


def open_safetensors(path: str | Path) -> SafetensorsFile:
    """Map one file and read its header. Raises FileError for whatever is wrong with it."""
    file = Path(path)
    with mapped(file, "a safetensors file") as mapping:
        return _read(file, mapping)


def _read(file: Path, mapping: MappedFile) -> SafetensorsFile:
    begin = _header_end(file, mapping)
    data = np.frombuffer(mapping, np.uint8)[begin:]
    metadata, entries = _parsed(file, mapping, begin)
    tensors: dict[str, TensorData] = {}
    end = 0
    for name, dtype, shape in entries:
        start, end = end, end + _nbytes(file, name, dtype, shape, len(data))
        tensors[name] = TensorData(name, dtype.lower(), shape, data[start:end])
    if end != len(data):  # replaced by another one while it was opened
        raise FileError(file, f"{DATA_END.format(end)}, but the file has {len(data)}")
    return SafetensorsFile(
        file, MappingProxyType(metadata), MappingProxyType(tensors), len(mapping)
    )


def _header_end(file: Path, mapping: MappedFile) -> int:
    """Return the offset of the data, in bytes."""
    if len(mapping) < _LENGTH_BYTES:
        raise FileError(
            file,
            f"truncated: the length of the header needs {_LENGTH_BYTES} bytes, "
            f"the file has {len(mapping)}",
        )
    size = int.from_bytes(mapping[:_LENGTH_BYTES], "little")
    if size > MAX_BYTES:
        raise FileError(
            file,
            f"is not a safetensors file: its header would have {size} bytes, "
            f"expected at most {MAX_BYTES}",
        )
    if size > len(mapping) - _LENGTH_BYTES:
        raise FileError(
            file,
            f"truncated: the header at byte {_LENGTH_BYTES} needs {size} bytes, "
            f"the file has {len(mapping) - _LENGTH_BYTES} more",
        )
    return _LENGTH_BYTES + size


def _parsed(file: Path, mapping: MappedFile, begin: int) -> tuple[dict[str, str], list[_Entry]]:
    """Return the strings of `__metadata__`, and the tensors in the order of their bytes."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(mapping.reopened, framework="numpy") as opened:
            slices = ((name, opened.get_slice(name)) for name in opened.offset_keys())
            entries = [(name, s.get_dtype(), tuple(s.get_shape())) for name, s in slices]
            return opened.metadata() or {}, entries
    except SafetensorError as error:
        raw = mapping[_LENGTH_BYTES:begin]
        raise refused_header(file, raw, len(mapping) - begin, str(error)) from None
    except OSError as error:
        raise FileError(file, f"cannot be read: {error.strerror or error}") from error


def _nbytes(file: Path, name: str, dtype: str, shape: tuple[int, ...], most: int) -> int:
    """Return the bytes of a tensor. `most`: bytes of data; an empty tensor is bounded by it too."""
    what = f"tensor {quote(name)}"
    if len(shape) > MAX_DIMENSIONS:
        problem = f"{what} has {len(shape)} dimensions, expected at most {MAX_DIMENSIONS}"
        raise FileError(file, problem)
    if max(shape, default=0) > 8 * most:  # values of at least a bit
        raise FileError(
            file, f"{what} has shape {list(shape)}, but the file has {most} bytes of data"
        )
    if dtype not in VALUE_BITS:  # of a newer package
        raise FileError(file, f"{what} has dtype {dtype}, expected one of {', '.join(VALUE_BITS)}")
    return math.prod(shape) * VALUE_BITS[dtype] // 8


def open_sharded(index: str | Path) -> SafetensorsFile:
    """Open the shards that an index (`model.safetensors.index.json`) names, as one file.

    What a shard holds besides is not read. Raises FileError where a shard is missing, broken, or
    not the one that the index means.
    """
    path = Path(index)
    places = _read_places(path)
    tensors: dict[str, TensorData] = {}
    metadata: dict[str, str] = {}
    nbytes, unlisted = 0, []
    for name in sorted(set(places.values())):
        shard = _open_shard(path, name, places)
        tensors |= {one: shard.tensors[one] for one in shard.tensors if places.get(one) == name}
        unlisted += [one for one in shard.tensors if one not in places]
        metadata |= shard.metadata
        nbytes += shard.nbytes
    return SafetensorsFile(
        path,
        MappingProxyType(metadata),
        MappingProxyType(tensors),
        nbytes,
        tuple(unlisted),
    )


def holds_weights(folder: Path) -> bool:
    return any((folder / name).exists() for name in (INDEX_FILE, SINGLE_FILE))


def open_folder(folder: str | Path) -> SafetensorsFile:
    """Open a directory's model: its index and shards, else its single file."""
    path = Path(folder)
    if (path / INDEX_FILE).exists():
        return open_sharded(path / INDEX_FILE)
    if (path / SINGLE_FILE).exists():
        return open_safetensors(path / SINGLE_FILE)
    raise FileError(path, f"holds no weights: expected {SINGLE_FILE} or {INDEX_FILE}")


def _read_places(index: Path) -> dict[str, str]:
    """Return the shard's file name by tensor; shards must be in the folder of the index."""
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
    """Return True for a name in the same folder, which leads nowhere else."""
    special = any(char in "/\\:\0" or "\ud800" <= char <= "\udfff" for char in name)
    return name not in ("", ".", "..") and not special and len(name.encode()) <= 255


def _open_shard(index: Path, name: str, places: Mapping[str, str]) -> SafetensorsFile:
    wanted = {tensor for tensor, shard in places.items() if shard == name}
    path = index.parent / name
    if not path.exists():
        raise FileError(path, f"no such file, but {index.name} names it as one of its shards")
    shard = open_safetensors(path)
    if wanted.isdisjoint(shard.tensors):  # one that lacks some is the definition's to refuse
        raise FileError(
            path,
            f"tensor {quote(min(wanted))} is missing, which {index.name} names "
            "(a shard of another model?)",
        )
    return shard


def refused_header(file: Path, raw: bytes, size: int, reason: str) -> FileError:
    """Return the error for a refused header. `size`: bytes of data behind the header; `reason`: the
    package's message."""
    try:
        header = parse_object(raw, file, "the header")
    except FileError as error:
        return error
    problem = next(_problems(header, size), f"is not a safetensors file: {reason[:200]}")
    return FileError(file, problem)


def _problems(header: dict[str, Any], size: int) -> Iterator[str]:
    yield from _metadata_problems(header.pop("__metadata__", {}))
    for name, entry in header.items():
        yield from _entry_problems(f"tensor {quote(name)}", entry, size)
    yield from _cover_problems(header, size)


def _metadata_problems(value: object) -> Iterator[str]:
    if not isinstance(value, Mapping):
        yield f"__metadata__ is {found(value)}, expected an object of strings"
        return
    for key, text in value.items():
        if not isinstance(text, str):
            yield f"__metadata__ {quote(key)} is {found(text)}, expected a string"


def _entry_problems(what: str, entry: object, size: int) -> Iterator[str]:
    """Yield the problems of an entry; only the first one counts, as later checks take earlier
    fields to be right."""
    if not isinstance(entry, Mapping):
        yield f"{what} is {found(entry)}, expected an object"
        return
    for key in ("dtype", "shape", "data_offsets"):
        if key not in entry:
            yield f"{what} has no {key}"
            return
    dtype, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not isinstance(dtype, str) or dtype not in VALUE_BITS:
        yield f"{what} has dtype {found(dtype)}, expected one of {', '.join(VALUE_BITS)}"
    elif not _are_integers(shape):
        yield f"{what} has shape {found(shape)}, expected a list of integers"
    elif len(shape) > MAX_DIMENSIONS:
        yield f"{what} has {len(shape)} dimensions, expected at most {MAX_DIMENSIONS}"
    elif not _are_integers(offsets) or len(offsets) != 2:
        yield f"{what} has data_offsets {found(offsets)}, expected two integers"
    elif not all(0 <= n <= 8 * size for n in shape):
        yield f"{what} has shape {str(shape)[:80]}, but the file has {size} bytes of data"
    elif not 0 <= offsets[0] <= offsets[1] <= size:
        yield (
            f"{what} has data_offsets {str(offsets)[:80]}, expected an ascending pair up to "
            f"{size}, the bytes of data in the file (truncated?)"
        )
    elif (bits := math.prod(shape) * VALUE_BITS[dtype]) != 8 * (offsets[1] - offsets[0]):
        yield (
            f"{what} of {dtype} {str(tuple(shape))[:80]} has {offsets[1] - offsets[0]} bytes, "
            f"expected {bits / 8:g}"
        )


def _are_integers(value: object) -> bool:
    return isinstance(value, list) and all(type(n) is int for n in value)


def _cover_problems(header: Mapping[str, Any], size: int) -> Iterator[str]:
    """Yield gaps and overlaps, which the format does not allow: each byte of data is one
    tensor's."""
    ordered = sorted((*entry["data_offsets"], name) for name, entry in header.items())
    if ordered and ordered[0][0]:
        yield f"tensor {quote(ordered[0][2])} begins at byte {ordered[0][0]}, expected 0"
    for (_, end, before), (begin, _, name) in pairwise(ordered):
        if begin != end:
            yield (
                f"tensor {quote(name)} begins at byte {begin} of the data, expected {end}, "
                f"where tensor {quote(before)} ends"
            )
    end = ordered[-1][1] if ordered else 0
    if end != size:
        yield f"{DATA_END.format(end)}, but the file has {size}"
