"""Writes a GGUF file (version 3) piece by piece: no tensor need be in memory whole.

Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from typing import BinaryIO

from msgspec import Struct

from llm_lite.core.formats.safetensors_writer import Pieces, write_pieces
from llm_lite.core.quant.registry import FORMATS

_ALIGNMENT = 32
_UINT32, _INT32, _FLOAT32, _BOOL, _STRING, _ARRAY = 4, 5, 6, 7, 8, 9


class GgufTensor(Struct, frozen=True):
    """A tensor to write: `pieces` gives the bytes in order when the tensor's turn comes; shape
    is row-major."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    pieces: Pieces

    @property
    def nbytes(self) -> int:
        return FORMATS[self.dtype].nbytes(self.shape)


def write_gguf(
    file: BinaryIO,
    metadata: Mapping[str, object],
    tensors: Sequence[GgufTensor],
    progress: Callable[[float], None] | None = None,
) -> None:
    """Write a GGUF file; metadata are str, bool, int, float and lists of one of these."""
    infos, at = b"", 0
    for tensor in tensors:
        infos += _info(tensor, at)
        at += -(-tensor.nbytes // _ALIGNMENT) * _ALIGNMENT
    pairs = b"".join(_string(key) + _value(value) for key, value in metadata.items())
    header = struct.pack("<4sIQQ", b"GGUF", 3, len(tensors), len(metadata)) + pairs + infos
    file.write(header + bytes(-len(header) % _ALIGNMENT))
    write_pieces(file, tensors, _ALIGNMENT, progress)


def _info(tensor: GgufTensor, offset: int) -> bytes:
    dims = tensor.shape[::-1]
    kind = FORMATS[tensor.dtype].ggml_type
    assert kind is not None, f"{tensor.dtype} is no format of GGUF files"
    return _string(tensor.name) + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, kind, offset)


def _string(text: str) -> bytes:
    raw = text.encode()
    return struct.pack("<Q", len(raw)) + raw


def _value(value: object) -> bytes:
    if not isinstance(value, list):
        kind, payload = _scalar(value)
        return struct.pack("<I", kind) + payload
    scalars = [_scalar(item) for item in value]
    kinds = {kind for kind, _ in scalars}
    if kinds <= {_UINT32, _INT32}:  # integers of arrays are signed wherever others read them
        kinds = {_INT32}
    if len(kinds) != 1:
        raise ValueError("an array of GGUF has values of one type")
    items = b"".join(payload for _, payload in scalars)
    return struct.pack("<IIQ", _ARRAY, kinds.pop(), len(value)) + items


def _scalar(value: object) -> tuple[int, bytes]:
    if isinstance(value, bool):
        return _BOOL, struct.pack("<?", value)
    if isinstance(value, int):
        return (
            (_UINT32, struct.pack("<I", value))
            if value >= 0
            else (_INT32, struct.pack("<i", value))
        )
    if isinstance(value, float):
        return _FLOAT32, struct.pack("<f", value)
    if isinstance(value, str):
        return _STRING, _string(value)
    raise TypeError(f"{type(value).__name__} has no place in GGUF metadata")
