"""Writes a safetensors file piece by piece: no tensor need be in memory whole.

Format: https://github.com/huggingface/safetensors#format. The `safetensors` package writes only
tensors that are in memory whole, and pads its header to 8 bytes.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import BinaryIO

from msgspec import Struct

from llm_lite.core.formats.pieces import Pieces, write_pieces

_VALUE_BYTES = {"F32": 4, "F16": 2, "BF16": 2, "U8": 1, "I8": 1}
_ALIGNMENT = 64  # bytes of the header: its first tensor then begins at a line of the cache


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
