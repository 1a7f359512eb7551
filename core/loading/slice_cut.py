"""What a MatFormer slice leaves of each tensor and field of a Gemma 3n, under GGUF's names.

Blocks are taken as they are: a cut of a quantized matrix must fall on their edges.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from llm_lite.core.errors import RequestError
from llm_lite.core.models.gemma3n import PER_LAYER_TABLE, Gemma3nConfig
from llm_lite.core.quant.tensor import TensorData

_PIECE_BYTES = 8 << 20
_LAYER = re.compile(r"blk\.(\d+)\.(.+)")


@dataclass(frozen=True, slots=True)
class Slice:
    """skip: layers left out. feed_forward: width of each layer that stays, or one for all."""

    skip: tuple[int, ...]
    feed_forward: int | tuple[int, ...]


@dataclass(frozen=True)
class CutTensor:
    """`units` [n, ...] are the bytes that stay, where they lie in the file: a row of blocks each,
    or with `kept` [n, layers, bytes], of which these layers stay."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    units: NDArray[np.uint8] = field(repr=False)
    kept: list[int] | None = None

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
        """Mapped where what stays lies together, else a copy."""
        units = self.units if self.kept is None else self.units[:, self.kept]
        data = np.ascontiguousarray(units).reshape(-1)
        data.flags.writeable = False
        return TensorData(self.name, self.dtype, self.shape, data)


class Cutter:
    """RequestError for a cut that does not fit the model, or that would leave layers without the
    keys and values that they share."""

    def __init__(self, config: Gemma3nConfig, cut: Slice) -> None:
        layers = config.shape.layers
        for layer in cut.skip:
            if not 0 <= layer < layers:
                raise RequestError(f"layer {layer} cannot be left out: there are {layers}")
            _check_owner(config, layer)
        self.source = config
        self.kept = [layer for layer in range(layers) if layer not in cut.skip]
        self.new_index = {layer: i for i, layer in enumerate(self.kept)}
        widths = cut.feed_forward
        self.widths = [widths] * len(self.kept) if isinstance(widths, int) else list(widths)
        self._check_widths()

    def _check_widths(self) -> None:
        if not self.kept or len(self.widths) != len(self.kept):
            raise RequestError(
                f"the slice has {len(self.widths)} feed-forward widths for {len(self.kept)} layers"
            )
        for layer, width in zip(self.kept, self.widths, strict=True):
            most = self.source.feed_forward[layer]
            if not 1 <= width <= most:
                raise RequestError(
                    f"layer {layer}: expected a feed-forward of 1 to {most}, found {width}"
                )

    @property
    def shared(self) -> int:
        """Layers of the slice without keys and values of their own."""
        return sum(layer >= self.source.own_caches for layer in self.kept)

    def metadata(self, old: Mapping[str, Any]) -> dict[str, Any]:
        source, kept = self.source, self.kept
        changes = {
            "block_count": len(kept),
            "feed_forward_length": self.widths,
            "attention.sliding_window_pattern": [source.sliding[layer] for layer in kept],
            "attention.shared_kv_layers": self.shared,
            "activation_sparsity_scale": [source.sparsity[layer] for layer in kept],
        }
        return {**old, **{f"gemma3n.{key}": value for key, value in changes.items()}}

    def cut(self, tensor: TensorData) -> CutTensor | None:
        """The tensor under its new name; None where its layer goes."""
        match = _LAYER.fullmatch(tensor.name)
        if match is None:
            if tensor.name == "per_layer_model_proj.weight":
                return self._layers_of_rows(tensor)
            return self._table(tensor) if tensor.name == PER_LAYER_TABLE else _all(tensor)
        index = self.new_index.get(int(match[1]))
        if index is None:
            return None
        name, width = f"blk.{index}.{match[2]}", self.widths[index]
        if match[2] in ("ffn_gate.weight", "ffn_up.weight"):
            return _first_rows(tensor, name, width)
        if match[2] == "ffn_down.weight":
            return _first_columns(tensor, name, width)
        return _all(tensor, name)

    def _layers_of_rows(self, tensor: TensorData) -> CutTensor:
        n, together = self.source.layer_width, tensor.format.tile_rows
        _check_edge(tensor, n, together)
        units = _units(tensor)
        layers = units.reshape(self.source.shape.layers, n // together, -1)
        units = layers[self.kept].reshape(-1, units.shape[1])
        shape = (len(self.kept) * n, tensor.shape[1])
        return CutTensor(tensor.name, tensor.dtype, shape, units)

    def _table(self, tensor: TensorData) -> CutTensor:
        n, form = self.source.layer_width, tensor.format
        _check_edge(tensor, n, form.block_size)
        units = _units(tensor)
        layers = units.reshape(len(units), -1, form.nbytes((form.tile_rows, n)))
        of_layers = [self.source.table_layers[layer] for layer in self.kept]
        shape = (tensor.shape[0], len(self.kept) * n)
        return CutTensor(tensor.name, tensor.dtype, shape, layers, of_layers)


def _check_owner(config: Gemma3nConfig, layer: int) -> None:
    readers = range(config.own_caches, config.shape.layers)
    if layer in {config.cache_of(reader) for reader in readers}:
        raise RequestError(
            f"layer {layer} cannot be left out: later layers share its keys and values"
        )


def _units(tensor: TensorData) -> NDArray[np.uint8]:
    """[rows, bytes of a row], of tiles [rows of tiles, bytes]."""
    together = tensor.format.tile_rows
    size = tensor.format.nbytes((together, tensor.shape[-1]))
    return tensor.data.reshape(-1, size)


def _all(tensor: TensorData, name: str | None = None) -> CutTensor:
    rows = math.prod(tensor.shape[:-1]) // tensor.format.tile_rows or 1
    units = tensor.data.reshape(rows if tensor.nbytes % rows == 0 else 1, -1)
    return CutTensor(name or tensor.name, tensor.dtype, tensor.shape, units)


def _first_rows(tensor: TensorData, name: str, count: int) -> CutTensor:
    if count == tensor.shape[0]:
        return _all(tensor, name)
    together = tensor.format.tile_rows
    _check_edge(tensor, count, together)
    shape = (count, tensor.shape[1])
    return CutTensor(name, tensor.dtype, shape, _units(tensor)[: count // together])


def _first_columns(tensor: TensorData, name: str, count: int) -> CutTensor:
    form = tensor.format
    _check_edge(tensor, count, form.block_size)
    size = form.nbytes((form.tile_rows, count))
    return CutTensor(name, tensor.dtype, (tensor.shape[0], count), _units(tensor)[:, :size])


def _check_edge(tensor: TensorData, at: int, block: int) -> None:
    if at % block:
        raise RequestError(
            f"tensor {tensor.name}: a cut at {at} does not fall on the edge of a block of {block} "
            f"{tensor.dtype} values; slice a float checkpoint, then quantize the slice"
        )
