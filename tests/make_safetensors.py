"""Builders of small safetensors files for tests, without the safetensors package."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from llm_lite.core.quant.blocks.floats import BF16

_DTYPES = {"f4": "F32", "f2": "F16", "u1": "U8", "i1": "I8", "i8": "I64"}

Entry = tuple[str, tuple[int, ...], bytes]  # dtype, shape, data


def entry(values: NDArray[np.generic], dtype: str | None = None) -> Entry:
    """`dtype` "BF16" rounds float32 values; else the array's own."""
    if dtype == "BF16":
        return dtype, values.shape, BF16.quantize(values.astype(np.float32)).tobytes()
    found = _DTYPES[values.dtype.str[1:]]
    return found, values.shape, np.ascontiguousarray(values).tobytes()


def build_raw(header: object, data: bytes = b"") -> bytes:
    """A file with any JSON, or any bytes, for a header."""
    raw = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(raw)) + raw + data


def build_safetensors(
    tensors: Mapping[str, Entry], metadata: Mapping[str, str] | None = None
) -> bytes:
    header: dict[str, object] = {"__metadata__": dict(metadata)} if metadata is not None else {}
    data = b""
    for name, (dtype, shape, raw) in tensors.items():
        offsets = [len(data), len(data) + len(raw)]
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": offsets}
        data += raw
    text = json.dumps(header)
    return build_raw(text.encode() + b" " * (-len(text) % 8), data)


def read_entries(path: Path) -> dict[str, Entry]:
    raw = path.read_bytes()
    (size,) = struct.unpack_from("<Q", raw)
    header, data = json.loads(raw[8 : 8 + size]), raw[8 + size :]
    header.pop("__metadata__", None)
    return {
        name: (one["dtype"], tuple(one["shape"]), data[slice(*one["data_offsets"])])
        for name, one in header.items()
    }


def write_shards(folder: Path, shards: Mapping[str, Mapping[str, Entry]]) -> Path:
    """Shards by file name, and their index, whose path is returned."""
    places = {tensor: name for name, tensors in shards.items() for tensor in tensors}
    for name, tensors in shards.items():
        (folder / name).write_bytes(build_safetensors(tensors))
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"metadata": {"total_size": 0}, "weight_map": places}))
    return index
