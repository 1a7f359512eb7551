"""The cut of a MatFormer slice: what it leaves of each tensor and field of a Gemma 3n (Devvrit et
al. 2023, "MatFormer"; the cuts are those of google-gemini/gemma-cookbook, MatFormer_Lab)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from llm_lite.core.errors import RequestError
from llm_lite.core.models.description.slices import (
    CutTensor,
    check_edge,
    first_columns,
    first_rows,
    units_of,
    whole,
)
from llm_lite.core.models.gemma3n.config import PER_LAYER_TABLE, TABLE_LAYERS, Gemma3nConfig
from llm_lite.core.models.model import Slice
from llm_lite.core.quant.tensor import TensorData

_LAYER = re.compile(r"blk\.([0-9]{1,5})\.(.+)")


def _e4b(*wide: int, skip: range = range(0)) -> Slice:
    """Return a slice of E4B, which has 35 layers of 16384; those not `wide` keep half."""
    kept = [layer for layer in range(35) if layer not in skip]
    return Slice(tuple(skip), tuple(16384 if layer in wide else 8192 for layer in kept))


# The slicing table for E4B (google/gemma3n-slicing-configs on Hugging Face): names are effective
# parameters. Two rows there have the same size, cut by layers or by blocks of five.
_TAIL = range(20, 25)  # between the layers that own caches and the last ten
SLICES: Mapping[str, Slice] = {
    "E2B": _e4b(skip=_TAIL),
    "E1.96B": _e4b(4, skip=_TAIL),
    "E2.49B": _e4b(*_TAIL),
    "E2.54B": _e4b(4, *_TAIL),
    "E2.69B": _e4b(4, 9, 14, 19, *_TAIL),
    "E2.73B": _e4b(*range(15, 25)),
    "E2.98B-block": _e4b(*range(10, 25)),
    "E2.98B-layer": _e4b(*range(15, 25), *range(30, 35)),
    "E3.18B": _e4b(4, *range(9, 25), 29, 34),
    "E3.24B": _e4b(*range(10, 30)),
    "E3.39B": _e4b(4, *range(9, 30), 34),
    "E3.49B": _e4b(*range(5, 30)),
    "E3.59B": _e4b(*range(4, 30), 34),
    "E3.79B-block": _e4b(*range(5, 35)),
    "E3.79B-layer": _e4b(*range(4, 35)),
}


def draft_slice(config: Gemma3nConfig) -> Slice | None:
    """Return the slice of a model like E4B that is like its E2B: feed-forwards of four times the
    width, and the first third of the layers without caches of their own left out. None for a model
    that is no wider than such a slice."""
    width = 4 * config.width
    if min(config.feed_forward) <= width:
        return None
    own = config.own_caches
    return Slice(tuple(range(own, own + config.shared_caches // 3)), width)


class Gemma3nCutter:
    """The cutter of a Gemma 3n. RequestError for a cut that does not fit the model, or that would
    leave layers without the keys and values that they share."""

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
    def layers(self) -> int:
        return self.source.layers

    @property
    def vocabulary(self) -> int:
        return self.source.vocabulary

    @property
    def shared(self) -> int:
        """Return how many layers of the slice have no keys and values of their own."""
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

    def view_metadata(self, old: Mapping[str, Any]) -> dict[str, Any]:
        """Return the metadata of a view, which has the whole table: of its rows the layers that are
        left are read."""
        layers = [self.source.table_layers[layer] for layer in self.kept]
        return self.metadata(old) | {f"gemma3n.{TABLE_LAYERS}": layers}

    def view(self, tensor: TensorData) -> TensorData | None:
        if tensor.name == PER_LAYER_TABLE:
            return tensor
        cut = self.cut(tensor)
        return None if cut is None else cut.whole()

    def cut(self, tensor: TensorData) -> CutTensor | None:
        """Return the tensor under its new name; None if its layer is cut."""
        match = _LAYER.fullmatch(tensor.name)
        if match is None:
            if tensor.name == "per_layer_model_proj.weight":
                return self._layers_of_rows(tensor)
            return self._table(tensor) if tensor.name == PER_LAYER_TABLE else whole(tensor)
        index = self.new_index.get(int(match[1]))
        if index is None:
            return None
        name, width = f"blk.{index}.{match[2]}", self.widths[index]
        if match[2] in ("ffn_gate.weight", "ffn_up.weight"):
            return first_rows(tensor, name, width)
        if match[2] == "ffn_down.weight":
            return first_columns(tensor, name, width)
        return whole(tensor, name)

    def checkpoint_config(self, old: Mapping[str, Any]) -> dict[str, Any]:
        """Return the text model's config.json."""
        source, kept = self.source, self.kept
        kinds = ("full_attention", "sliding_attention")
        pattern = old.get("activation_sparsity_pattern")
        layers = source.shape.layers
        if pattern is None:
            pattern = [0.95 if i < 10 and layers > 10 else 0.0 for i in range(layers)]
        shares = pattern if isinstance(pattern, list) else [pattern] * layers
        return {
            **old,
            "architectures": ["Gemma3nForCausalLM"],
            "model_type": "gemma3n_text",
            "num_hidden_layers": len(kept),
            "intermediate_size": self.widths,
            "layer_types": [kinds[source.sliding[layer]] for layer in kept],
            "num_kv_shared_layers": self.shared,
            "activation_sparsity_pattern": [shares[layer] for layer in kept],
        }

    def _layers_of_rows(self, tensor: TensorData) -> CutTensor:
        n, together = self.source.layer_width, tensor.format.tile_rows
        check_edge(tensor, n, together)
        units = units_of(tensor)
        layers = units.reshape(self.source.shape.layers, n // together, -1)
        units = layers[self.kept].reshape(-1, units.shape[1])
        shape = (len(self.kept) * n, tensor.shape[1])
        return CutTensor(tensor.name, tensor.dtype, shape, units)

    def _table(self, tensor: TensorData) -> CutTensor:
        n, form = self.source.layer_width, tensor.format
        check_edge(tensor, n, form.block_size)
        units = units_of(tensor)
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
