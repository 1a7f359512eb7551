"""Rows of tensors: names in GGUF and in Hugging Face's checkpoints, and the shape by the config.

`{i}` in a name counts layers, or what `count` says. From these rows come the translation of names,
the check of shapes, and the shapes of models that are yet to be made.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import Struct

from llm_lite.core.errors import FileError, UnsupportedError
from llm_lite.core.plan.builder import WeightSpec
from llm_lite.core.quant.tensor import TensorData
from llm_lite.core.records import replace

Shapes = list[tuple[str, tuple[int, ...]]]
_NUMBER = re.compile(r"(?<=\.)[0-9]{1,5}(?=\.)")


class KnownShape(Struct, frozen=True):
    """The name, type and shape of a weight without data, for a checkpoint that is to be made."""

    name: str
    dtype: str
    shape: tuple[int, ...]


class NameRow(Struct, frozen=True):
    """A row of a tensor. shape: names of the config's attributes; one with a value a layer is taken
    at the layer.

    checkpoint: without the prefix of the text model; None: made, or of GGUF files only. optional:
    whether it may be missing, of a layer. add: what GGUF's values are more than the checkpoint's.
    spread: files may have one value, which stands for all of a vector as wide as the model. flat: a
    vector that files store in more dimensions. changed: what GGUF has of a checkpoint's tensor.
    """

    gguf: str
    checkpoint: str | None
    shape: tuple[str, ...]
    count: str = ""
    optional: bool | Callable[[Any, int], bool] = False
    add: float = 0.0
    spread: bool = False
    transposed: bool = False
    flat: bool = False
    changed: Callable[[TensorData], TensorData] | None = None


class FusedRow(Struct, frozen=True):
    """A matrix whose rows are those of several others, in order. interleaved: checkpoints have
    them in turns, those of a head each. grouped: in turns too, those of a key head each: its
    queries, its key and its value. changed: what GGUF would have of a checkpoint's tensor. ordered:
    the tensor with the rows of each part one behind the other, by the config, of files of both
    kinds that have them in turns; one of another size as it is."""

    gguf: str
    checkpoint: str
    parts: tuple[NameRow, ...]
    transposed: bool = False
    interleaved: bool = False
    grouped: bool = False
    changed: Callable[[TensorData], TensorData] | None = None
    ordered: Callable[[TensorData, Any], TensorData] | None = None


def bias_of(matrix: NameRow) -> NameRow:
    """Return the row of the bias that a matrix or a norm has."""
    name = matrix.checkpoint and matrix.checkpoint.removesuffix("weight") + "bias"
    stem = matrix.gguf.removesuffix("weight")
    return NameRow(stem + "bias", name, matrix.shape[:1], matrix.count, matrix.optional)


def with_bias(matrix: NameRow) -> tuple[NameRow, NameRow]:
    return matrix, bias_of(matrix)


def of_model(
    gguf: str,
    checkpoint: str | None,
    *shape: str,
    count: str = "",
    optional: bool | Callable[[Any, int], bool] = False,
    add: float = 0.0,
) -> NameRow:
    """Return a row of names as they are; with `count` the rows of a stack, which `{i}` numbers."""
    return NameRow(gguf, checkpoint, shape, count, optional, add)


def of_layer(
    gguf: str,
    checkpoint: str | None,
    *shape: str,
    optional: bool | Callable[[Any, int], bool] = False,
    add: float = 0.0,
) -> NameRow:
    """Return a row of names behind "blk.{i}." and "layers.{i}."."""
    full = None if checkpoint is None else f"layers.{{i}}.{checkpoint}"
    return NameRow(f"blk.{{i}}.{gguf}", full, shape, "layers", optional, add)


def shape_of(row: NameRow, config: Any, index: int = 0) -> tuple[int, ...]:
    sizes = (getattr(config, name) for name in row.shape)
    return tuple(size[index] if isinstance(size, tuple) else size for size in sizes)


def shapes_of(rows: Sequence[NameRow], config: Any, present: Callable[[str], bool]) -> Shapes:
    """Return the shapes of all tensors of a model; optional ones only if they are present."""
    shapes = []
    for row, index in in_order(rows, config):
        name = row.gguf.replace("{i}", str(index))
        optional = row.optional(config, index) if callable(row.optional) else row.optional
        if not optional or present(name):
            shapes.append((name, shape_of(row, config, index)))
    return shapes


def in_order(rows: Sequence[NameRow], config: Any) -> Iterator[tuple[NameRow, int]]:
    """Yield each row with the number that its `{i}` counts: the rows of the whole model, then those
    of each layer."""
    for row in rows:
        if row.count != "layers":
            yield from ((row, i) for i in range(getattr(config, row.count) if row.count else 1))
    of_layers = [row for row in rows if row.count == "layers"]
    yield from ((row, layer) for layer in range(config.layers) for row in of_layers)


def check_shapes(
    title: str, expected: Shapes, weights: Mapping[str, WeightSpec], path: Path
) -> None:
    """Raise FileError unless every tensor is there with the shape that the fields imply, and none
    is left over."""
    shapes = dict(expected)
    for name, shape in shapes.items():
        if name not in weights:
            raise FileError(path, f"tensor {name} is missing")
        if weights[name].shape != shape:
            own = weights[name].shape
            raise FileError(path, f"tensor {name}: expected shape {shape}, found {own}")
    for name in weights:
        if name not in shapes:
            raise UnsupportedError(f"{path}: tensor {name[:80]!r} has no place in a {title} model")


def numbered(name: str) -> tuple[str, str]:
    """Return a tensor's name with {i} for its number, and the number as rows write it."""
    found = _NUMBER.search(name)
    if found is None:
        return name, ""
    return f"{name[: found.start()]}{{i}}{name[found.end() :]}", str(int(found[0]))


def added(tensor: TensorData, amount: float) -> TensorData:
    """Return the values plus `amount`, float32, for norms of checkpoints that store how much more
    than 1 they are."""
    data = (tensor.dequantize() + np.float32(amount)).astype("<f4").reshape(-1).view(np.uint8)
    data.flags.writeable = False
    return TensorData(tensor.name, "f32", tensor.shape, data)


def flattened(tensor: TensorData) -> TensorData:
    return replace(tensor, shape=(math.prod(tensor.shape),))


def negated_exp(tensor: TensorData) -> TensorData:
    """Return -exp of the values, float32: checkpoints have logarithms of rates of decay."""
    data = (-np.exp(tensor.dequantize())).astype("<f4").reshape(-1).view(np.uint8)
    data.flags.writeable = False
    return TensorData(tensor.name, "f32", tensor.shape, data)


def transposed(tensor: TensorData) -> TensorData:
    """Return a matrix that a checkpoint stores as [inputs, outputs] transposed; a copy, in the same
    type."""
    size = tensor.nbytes // (tensor.shape[0] * tensor.shape[1])
    values = tensor.data.reshape(*tensor.shape, size).swapaxes(0, 1)
    data = np.ascontiguousarray(values).reshape(-1)
    data.flags.writeable = False
    return TensorData(tensor.name, tensor.dtype, tensor.shape[::-1], data)


def part_by_part(tensor: TensorData, parts: int, heads: int) -> TensorData:
    """Return rows [heads, parts, d] as [parts, heads, d]; a copy, in the same type."""
    size = tensor.nbytes // (parts * heads)
    data = np.ascontiguousarray(tensor.data.reshape(heads, parts, size).swapaxes(0, 1)).reshape(-1)
    data.flags.writeable = False
    return TensorData(tensor.name, tensor.dtype, tensor.shape, data)


def in_groups(tensor: TensorData, groups: int, parts: Sequence[int]) -> TensorData:
    """Return rows that each of `groups` has of every part, so many each, with those of a part one
    behind the other; a copy, in the same type. One of another size stays."""
    if len(tensor.shape) != 2 or tensor.shape[0] != groups * sum(parts):
        return tensor
    rows = tensor.data.reshape(groups, sum(parts), tensor.nbytes // tensor.shape[0])
    ends = np.cumsum(parts)[:-1]
    data = np.concatenate([part.reshape(-1) for part in np.split(rows, ends, axis=1)])
    data.flags.writeable = False
    return replace(tensor, data=data)


def queries_first(tensor: TensorData, heads: int, groups: int) -> TensorData:
    """Return rows [groups, heads / groups + 2, d] as those of all queries, then of all keys, then
    of all values; a copy, in the same type."""
    own = heads // groups
    rows = tensor.data.reshape(groups, own + 2, tensor.nbytes // (groups * (own + 2)))
    parts = (rows[:, :own], rows[:, own], rows[:, own + 1])
    data = np.concatenate([part.reshape(-1) for part in parts])
    data.flags.writeable = False
    return TensorData(tensor.name, tensor.dtype, tensor.shape, data)


def spread(tensor: TensorData, width: int) -> TensorData:
    """Return a vector of one repeated value, [width], float32."""
    data = np.repeat(tensor.dequantize().astype("<f4"), width).view(np.uint8)
    data.flags.writeable = False
    return TensorData(tensor.name, "f32", (width,), data)


def split_rows(tensor: TensorData, parts: Mapping[str, int], path: Path) -> list[TensorData]:
    """Return views of consecutive rows under these names, each with its number of rows."""
    is_matrix = len(tensor.shape) > 1
    together = tensor.format.tile_rows if is_matrix else tensor.format.block_size
    expected = sum(parts.values())
    if not tensor.shape or tensor.shape[0] != expected:
        found = tensor.shape
        raise FileError(
            path, f"tensor {tensor.name}: expected {expected} rows, found shape {found}"
        )
    unit = tensor.format.nbytes((together, *tensor.shape[1:]))
    views, at = [], 0
    for name, rows in parts.items():
        if rows % together:
            raise UnsupportedError(f"{path}: tensor {tensor.name}: {rows} rows are no whole blocks")
        end = at + rows // together * unit
        views.append(TensorData(name, tensor.dtype, (rows, *tensor.shape[1:]), tensor.data[at:end]))
        at = end
    return views
