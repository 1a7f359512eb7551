"""Smaller models cut out of a larger one: which tensors stay, and which of their bytes.

Blocks are taken as they are: a cut of a quantized matrix must fall on their edges.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, Protocol

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from llm_lite.core.errors import RequestError
from llm_lite.core.quant.tensor import TensorData
from llm_lite.core.records import repr_without

SLICE_FILE = "slice.json"  # makes a directory a view of another model
_PIECE_BYTES = 8 << 20


class CutTensor(Struct, frozen=True):
    """A part of a tensor: `units` [n, ...] are the bytes that stay, where they lie
    in the file: a row of blocks each, or with `kept` [n, layers, bytes], where these layers
    stay."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    units: NDArray[np.uint8]
    kept: list[int] | None = None
    __repr__ = repr_without("units")

    @property
    def nbytes(self) -> int:
        each = self.units[:1].nbytes
        if self.kept is not None:
            each = each // self.units.shape[1] * len(self.kept)
        return len(self.units) * each

    def pieces(self) -> Iterator[NDArray[np.uint8]]:
        step = max(1, _PIECE_BYTES // max(1, self.units[:1].nbytes))
        for at in range(0, len(self.units), step):
            part = self.units[at : at + step]
            yield np.ascontiguousarray(part if self.kept is None else part[:, self.kept])

    def whole(self) -> TensorData:
        """Return the tensor, mapped if its units are adjacent, else a copy."""
        units = self.units if self.kept is None else self.units[:, self.kept]
        data = np.ascontiguousarray(units).reshape(-1)
        data.flags.writeable = False
        return TensorData(self.name, self.dtype, self.shape, data)


class Cutter(Protocol):
    """A cut of one model, checked against its fields.

    kept: its layers that stay; new_index: their numbers in the slice; widths: of their
    feed-forwards.
    """

    kept: list[int]
    new_index: dict[int, int]
    widths: list[int]

    @property
    def layers(self) -> int:
        """Return the number of layers of the model that is cut."""
        ...

    @property
    def vocabulary(self) -> int: ...
    def metadata(self, old: Mapping[str, Any]) -> dict[str, Any]: ...
    def view_metadata(self, old: Mapping[str, Any]) -> dict[str, Any]:
        """Return the metadata of a slice whose tensors are those of `view`."""
        ...

    def checkpoint_config(self, old: Mapping[str, Any]) -> dict[str, Any]:
        """Return the config.json of the slice."""
        ...

    def cut(self, tensor: TensorData) -> CutTensor | None:
        """Return the tensor under its new name; None if its layer is cut."""
        ...

    def view(self, tensor: TensorData) -> TensorData | None:
        """Return the tensor as `cut` does, without a copy if possible."""
        ...


def units_of(tensor: TensorData) -> NDArray[np.uint8]:
    """[rows, bytes of a row], of tiles [rows of tiles, bytes]."""
    together = tensor.format.tile_rows
    size = tensor.format.nbytes((together, tensor.shape[-1]))
    return tensor.data.reshape(-1, size)


def whole(tensor: TensorData, name: str | None = None) -> CutTensor:
    rows = math.prod(tensor.shape[:-1]) // tensor.format.tile_rows or 1
    units = tensor.data.reshape(rows if tensor.nbytes % rows == 0 else 1, -1)
    return CutTensor(name or tensor.name, tensor.dtype, tensor.shape, units)


def first_rows(tensor: TensorData, name: str, count: int) -> CutTensor:
    if count == tensor.shape[0]:
        return whole(tensor, name)
    together = tensor.format.tile_rows
    check_edge(tensor, count, together)
    shape = (count, tensor.shape[1])
    return CutTensor(name, tensor.dtype, shape, units_of(tensor)[: count // together])


def first_columns(tensor: TensorData, name: str, count: int) -> CutTensor:
    form = tensor.format
    check_edge(tensor, count, form.block_size)
    size = form.nbytes((form.tile_rows, count))
    return CutTensor(name, tensor.dtype, (tensor.shape[0], count), units_of(tensor)[:, :size])


def check_edge(tensor: TensorData, at: int, block: int) -> None:
    if at % block:
        raise RequestError(
            f"tensor {tensor.name}: a cut at {at} does not fall on the edge of a block of {block} "
            f"{tensor.dtype} values; slice a float checkpoint, then quantize the slice"
        )
