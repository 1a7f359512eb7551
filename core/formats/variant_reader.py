"""Variants: a model's weights in our own formats, in a directory, mapped and not copied.

    variant.json        the manifest: layout version, mode, source, files with their sizes, the
                        tokenizer's identity, checksums, and the quantizer's report
    metadata.json       the model's metadata under the keys of GGUF files, vocabulary included
    model.safetensors   every tensor as U8, its bytes as kernels read them, each from a multiple of
                        64 bytes on and filled up to one; `__metadata__` has formats and shapes
    tokenizer.json ...  the files of a Hugging Face directory, where the source was one

A directory is a variant by its manifest, which is written last.
"""

from __future__ import annotations

import hashlib
import json
import math
from array import array
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from msgspec import Struct

from llm_lite.core.errors import FileError
from llm_lite.core.files.json_text import MAX_TOKENIZER_BYTES, found, parse_object, read_object
from llm_lite.core.formats.safetensors_reader import SINGLE_FILE, SafetensorsFile, open_safetensors
from llm_lite.core.formats.variant_checksums import Checksums, check_tensor_names, read_checksums
from llm_lite.core.plain_text import quote
from llm_lite.core.quant.registry import FORMATS
from llm_lite.core.quant.tensor import TensorData
from llm_lite.core.records import repr_without

LAYOUT_VERSION = 1
ALIGNMENT = 64  # bytes
MANIFEST_FILE = "variant.json"
METADATA_FILE = "metadata.json"
_MAX_DIMENSIONS = 4
_FLOAT, _NOT_FINITE = "float", ("inf", "-inf", "nan")


class VariantFolder(Struct, eq=False):
    """An open variant. `manifest` is its variant.json; tensors stay valid after `close`. Older ones
    have no checksums."""

    path: Path
    mode: str
    manifest: Mapping[str, Any]
    metadata: Mapping[str, Any]
    tensors: Mapping[str, TensorData]
    nbytes: int  # of all files
    checksums: Checksums | None = None
    __repr__ = repr_without("manifest", "metadata", "tensors", "checksums")

    def close(self) -> None:
        self.tensors = MappingProxyType({})


def is_variant(folder: Path) -> bool:
    return (folder / MANIFEST_FILE).is_file()


def listed_files(folder: Path) -> tuple[str, ...]:
    """Return the names of a variant's files as its manifest lists them, whatever their layout
    version, and at last the manifest's. FileError if the directory is no variant."""
    if not is_variant(folder):
        raise FileError(folder, "exists and is no variant; only a variant is replaced")
    path = folder / MANIFEST_FILE
    files = read_object(path).get("files")
    if not isinstance(files, dict):
        raise FileError(path, f"files is {found(files)}, expected an object")
    for name in files:
        if not _is_name(name):
            raise FileError(path, f"files: {quote(name)} is no name of a file")
    return (*files, MANIFEST_FILE)


def was_variant(folder: Path) -> bool:
    """Return True for a variant, even if its manifest is lost: no other directory has both of these
    files."""
    return is_variant(folder) or all(
        (folder / name).is_file() for name in (METADATA_FILE, SINGLE_FILE)
    )


def open_variant(folder: str | Path) -> VariantFolder:
    """Read the manifest and the headers, and hold every file's size against the manifest; checksums
    are read and not compared.

    Raises FileError for a missing or wrong file, another layout version, tensors that do not fit.
    """
    path = Path(folder)
    manifest = read_manifest(path)
    nbytes = _check_files(path, manifest)
    checksums = read_checksums(manifest, path / MANIFEST_FILE)
    metadata = from_json(read_object(path / METADATA_FILE, limit=MAX_TOKENIZER_BYTES))
    with open_safetensors(path / SINGLE_FILE) as file:
        tensors = _tensors(file)
        if checksums is not None:
            check_tensor_names(checksums, path / MANIFEST_FILE, tensors)
        return VariantFolder(
            path,
            manifest["mode"],
            MappingProxyType(manifest),
            MappingProxyType(metadata),
            MappingProxyType(tensors),
            nbytes,
            checksums,
        )


def read_manifest(folder: Path) -> dict[str, Any]:
    """Read variant.json and check its layout version and its fields' types. Raises FileError."""
    path = folder / MANIFEST_FILE
    manifest = read_object(path)
    version = manifest.get("layout_version")
    if type(version) is not int:
        raise FileError(path, f"layout_version is {found(version)}, expected an integer")
    if version != LAYOUT_VERSION:
        advice = (
            "quantize the source again with `llm-lite quantize`"
            if version < LAYOUT_VERSION
            else "it was written by a newer llm-lite"
        )
        raise FileError(
            path, f"layout version: expected {LAYOUT_VERSION}, found {version}; {advice}"
        )
    for key, kind, what in (
        ("mode", str, "a string"),
        ("files", dict, "an object"),
        ("tokenizer", str, "a string"),
        ("source", dict, "an object"),
        ("report", dict, "an object"),
    ):
        if not isinstance(manifest.get(key), kind):
            raise FileError(path, f"{key} is {found(manifest.get(key))}, expected {what}")
    return manifest


def padded(nbytes: int) -> int:
    return -(-nbytes // ALIGNMENT) * ALIGNMENT


def _check_files(folder: Path, manifest: Mapping[str, Any]) -> int:
    files = manifest["files"]
    for name in (SINGLE_FILE, METADATA_FILE):
        if name not in files:
            raise FileError(folder / MANIFEST_FILE, f"files does not name {name}")
    for name, size in files.items():
        if type(size) is not int or size < 0 or not _is_name(name):
            raise FileError(folder / MANIFEST_FILE, f"files: {quote(name)} is {found(size)}")
        check_size(folder / name, size)
    return sum(files.values()) + (folder / MANIFEST_FILE).stat().st_size


def _is_name(name: str) -> bool:
    """Return True for the name of a file in the directory itself; lone surrogates and the null
    character are refused as not printable."""
    return name.isprintable() and not set(name) & set("/\\:") and name.strip(".") != ""


def check_size(path: Path, expected: int) -> None:
    """Raise FileError unless the file has so many bytes."""
    try:
        size = path.stat().st_size
    except FileNotFoundError:
        raise FileError(path, "the file is missing from the variant") from None
    except OSError as error:
        raise FileError(path, f"cannot be read: {error.strerror}") from None
    if size != expected:
        raise FileError(path, f"expected {expected} bytes, as {MANIFEST_FILE} says, found {size}")


def _tensors(file: SafetensorsFile) -> dict[str, TensorData]:
    if file.metadata.get("layout_version") != str(LAYOUT_VERSION):
        version = quote(file.metadata.get("layout_version", "none"))
        raise FileError(file.path, f"layout version: expected {LAYOUT_VERSION}, found {version}")
    raw = file.metadata.get("tensors", "{}").encode(errors="replace")
    described = parse_object(raw, file.path, "__metadata__ tensors")
    if described.keys() != file.tensors.keys():
        odd = sorted(described.keys() ^ file.tensors.keys())[0]
        raise FileError(
            file.path, f"tensor {quote(odd)} is not both in the data and in __metadata__"
        )
    return {name: _tensor(file, name, described[name]) for name in file.tensors}


def _tensor(file: SafetensorsFile, name: str, described: object) -> TensorData:
    what = f"tensor {quote(name)}"
    dtype, shape = (
        described if isinstance(described, list) and len(described) == 2 else (None, None)
    )
    if not isinstance(dtype, str) or dtype not in FORMATS:
        known = ", ".join(FORMATS)
        raise FileError(file.path, f"{what} has format {found(dtype)}, expected one of {known}")
    if (
        not isinstance(shape, list)
        or not 1 <= len(shape) <= _MAX_DIMENSIONS
        or not all(type(n) is int and 0 < n < 1 << 40 for n in shape)
        or shape[-1] % FORMATS[dtype].block_size
    ):
        sizes = ", ".join(map(found, shape[:8])) if isinstance(shape, list) else found(shape)
        raise FileError(file.path, f"{what} has shape ({sizes}), which {dtype} cannot have")
    form, data = FORMATS[dtype], file.tensors[name].data
    size = form.nbytes((math.prod(shape[:-1]), shape[-1]))
    if padded(size) != data.nbytes:
        raise FileError(
            file.path,
            f"{what} of {dtype} {tuple(shape)}: expected {padded(size)} bytes, found {data.nbytes}",
        )
    if data.ctypes.data % ALIGNMENT:
        raise FileError(file.path, f"{what} does not begin at a multiple of {ALIGNMENT} bytes")
    return TensorData(name, dtype, tuple(shape), data[:size])


def identity_of(metadata: Mapping[str, Any], tensors: Mapping[str, TensorData]) -> str:
    """Hash what identifies a model but for the values of its weights, as 32 hex digits."""
    digest = hashlib.sha256(to_json(metadata))
    table = sorted((t.name, t.dtype, list(t.shape)) for t in tensors.values())
    digest.update(json.dumps(table).encode())
    return digest.hexdigest()[:32]


def to_json(metadata: Mapping[str, Any]) -> bytes:
    """Return metadata as JSON; arrays become lists, and -inf, which JSON lacks, an object."""
    return json.dumps(_sayable(metadata), allow_nan=False).encode()


def from_json(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return what `to_json` was given; lists of floats are packed: a vocabulary has 262,144
    scores."""
    return {key: _decoded(value) for key, value in metadata.items()}


def _sayable(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return {_FLOAT: str(value)}
    if isinstance(value, Mapping):
        return {str(key): _sayable(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return [_sayable(item) for item in value]
    return value


def _decoded(value: Any) -> Any:
    if isinstance(value, list):
        kinds = set(map(type, value))
        if not kinds.isdisjoint((dict, list)):
            value = [_decoded(item) for item in value]
            kinds = set(map(type, value))
        return array("d", value) if kinds == {float} else value
    if isinstance(value, dict) and value.get(_FLOAT) in _NOT_FINITE:
        return float(value[_FLOAT])
    return value
