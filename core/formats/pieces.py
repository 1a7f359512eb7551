"""Writes tensors to a file one after the other, a piece at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import BinaryIO, Protocol

import numpy as np
from numpy.typing import NDArray

Pieces = Callable[[], Iterable[NDArray[np.uint8]]]


class InPieces(Protocol):
    """A tensor in pieces; `pieces` gives `nbytes` bytes in order when the tensor's turn comes."""

    @property
    def name(self) -> str: ...

    @property
    def nbytes(self) -> int: ...

    @property
    def pieces(self) -> Pieces: ...


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
