"""A named tensor of a file: its bytes as they lie there, mapped and never copied."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from llm_lite.core.errors import FileError
from llm_lite.core.files.mapping import MappedFiles
from llm_lite.core.quant.registry import QuantFormat, named_format
from llm_lite.core.records import repr_without


class TensorData(Struct, frozen=True, eq=False, weakref=True):
    """A tensor in a file; shape is row-major: a matrix is (N output features, K input features).

    dtype names a format of `core.quant.registry`; data is uint8 [nbytes], read-only.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    data: NDArray[np.uint8]
    __repr__ = repr_without("data")

    @property
    def nbytes(self) -> int:
        return int(self.data.nbytes)

    @property
    def format(self) -> QuantFormat:
        return named_format(self.name, self.dtype)

    def dequantize(self) -> NDArray[np.float32]:
        """float32 [*shape], a copy."""
        return self.format.dequantize(self.data, self.shape)

    def rows(self, indices: NDArray[np.integer]) -> NDArray[np.float32]:
        """float32 [len(indices), K]: single rows of a matrix, nothing else is read."""
        columns, together = self.shape[1], self.format.tile_rows
        unit = self.format.nbytes((together, columns))  # bytes of rows that lie together
        out = np.empty((len(indices), columns), np.float32)
        for i, row in enumerate(int(index) for index in indices):
            at = row // together * unit
            piece = self.format.dequantize(self.data[at : at + unit], (together, columns))
            out[i] = piece[row % together]
        return out


def float_tensor(name: str, values: NDArray[Any]) -> TensorData:
    """Return a float32 tensor that no file has."""
    data = np.ascontiguousarray(values, "<f4").reshape(-1).view(np.uint8)
    data.flags.writeable = False
    return TensorData(name, "f32", values.shape, data)


def with_own_vectors(tensors: Mapping[str, TensorData]) -> dict[str, TensorData]:
    """Return the tensors, the vectors among them in memory of their own.

    Norms and biases lie scattered between matrices in a file, and a page that is read brings up to
    some hundred KiB around it along: 60 norms held 40 MB of a file of 98 MB in memory. So copy them
    first, and release the matrices once they are elsewhere.
    """
    return {name: _copied(t) if len(t.shape) == 1 else t for name, t in tensors.items()}


def _copied(tensor: TensorData) -> TensorData:
    data = tensor.data.copy()
    data.flags.writeable = False
    return TensorData(tensor.name, tensor.dtype, tensor.shape, data)


def files_of(tensors: Iterable[TensorData]) -> MappedFiles:
    return MappedFiles.under(tensor.data for tensor in tensors)


_SCAN_BLOCKS = 1 << 18  # at most about 1 MiB of temporary memory at a time


def find_non_finite(tensor: TensorData) -> bool:
    """Return True if a weight is NaN or infinite, by float values, and by the scales of blocks."""
    step = _SCAN_BLOCKS * tensor.format.block_bytes  # whole tiles too
    return any(
        tensor.format.non_finite(tensor.data[start : start + step])
        for start in range(0, tensor.nbytes, step)
    )


def not_finite(file: object, name: str) -> FileError:
    """Return the error for a weight that is not finite."""
    return FileError(file, f"tensor {name}: expected finite weights, found NaN or infinity")
