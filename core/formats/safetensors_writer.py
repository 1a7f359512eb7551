"""Writes a safetensors file piece by piece: no tensor need be in memory whole.

Format: https://github.com/huggingface/safetensors#format. The `safetensors` package writes only
tensors that are in memory whole, and pads its header to 8 bytes.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import BinaryIO, Protocol

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

Pieces = Callable[[], Iterable[NDArray[np.uint8]]]
_VALUE_BYTES = {"F32": 4, "F16": 2, "BF16": 2, "U8": 1, "I8": 1}
_ALIGNMENT = 64  # bytes of the header: its first tensor then begins at a line of the cache


class InPieces(Protocol):
    """A tensor in pieces; `pieces` gives `nbytes` bytes in order when the tensor's turn comes."""

    @property
    def name(self) -> str: ...

    @property
    def nbytes(self) -> int: ...

    @property
    def pieces(self) -> Pieces: ...


class TensorToWrite(Struct, frozen=True):
    """A tensor to write; `pieces` gives the bytes in order when the tensor's turn comes."""

    name: str
    dtype: str  # as in the file: "BF16"
    shape: tuple[int, ...]
    pieces: Pieces

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * _VALUE_BYTES[self.dtype]


def write_safetensors(
    file: BinaryIO,
    tensors: Sequence[TensorToWrite],
    metadata: Mapping[str, str] | None = None,
    progress: Callable[[float], None] | None = None,
) -> None:
    """Write tensors in the order given; `progress` is called with the part done, 0 to 1."""
    header: dict[str, object] = {"__metadata__": dict(metadata)} if metadata else {}
    at = 0
    for tensor in tensors:
        header[tensor.name] = {
            "dtype": tensor.dtype,
            "shape": list(tensor.shape),
            "data_offsets": [at, at + tensor.nbytes],
        }
        at += tensor.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-(8 + len(text)) % _ALIGNMENT)
    file.write(struct.pack("<Q", len(text)) + text)
    write_pieces(file, tensors, 1, progress)


def write_pieces(
    file: BinaryIO,
    tensors: Sequence[InPieces],
    alignment: int,
    progress: Callable[[float], None] | None = None,
) -> None:
    """Each is padded to `alignment` bytes; `progress` is called with the part done, 0 to 1."""
    done, total = 0, max(1, sum(tensor.nbytes for tensor in tensors))
    for tensor in tensors:
        written = 0
        for piece in tensor.pieces():
            file.write(np.ascontiguousarray(piece).data)
            written += piece.nbytes
            if progress:
                progress((done + written) / total)
        if written != tensor.nbytes:
            raise ValueError(f"{tensor.name}: {written} bytes, expected {tensor.nbytes}")
        file.write(bytes(-written % alignment))
        done += written
