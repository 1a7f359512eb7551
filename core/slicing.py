"""MatFormer slices: a smaller model cut out of a Gemma 3n checkpoint, no weight changed.

Layers are left out and feed-forwards keep a prefix of their width (Devvrit et al. 2023,
"MatFormer"; the cuts are those of google-gemini/gemma-cookbook, MatFormer_Lab). A slice is a
Hugging Face directory of the text model alone.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from core.errors import FileError, RequestError, UnsupportedError
from core.formats.huggingface import CONFIG_FILE, open_huggingface
from core.formats.json_text import found, read_object
from core.formats.safetensors import SINGLE_FILE
from core.formats.safetensors_writer import TensorToWrite, write_safetensors
from core.formats.tensor import TensorData
from core.models.gemma3n import Config, config_of

_PIECE_BYTES = 8 << 20
_BESIDE = (
    *("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"),
    *("generation_config.json", "chat_template.jinja", "chat_template.json"),
)
_LAYER = re.compile(r"(.*\blayers\.)(\d+)(\..+)")

Progress = Callable[[float], None]


@dataclass(frozen=True, slots=True)
class Slice:
    """skip: layers left out. feed_forward: width of each layer that stays, or one for all."""

    skip: tuple[int, ...]
    feed_forward: int | tuple[int, ...]


def _e4b(skip: range, wide: tuple[int, ...]) -> Slice:
    """Of E4B: 35 layers of 16384; those not `wide` keep half."""
    kept = [layer for layer in range(35) if layer not in skip]
    return Slice(tuple(skip), tuple(16384 if layer in wide else 8192 for layer in kept))


# Rows of the slicing table for E4B (google/gemma3n-slicing-configs) by their names there.
KNOWN: Mapping[str, Slice] = {
    "E2B": _e4b(range(20, 25), ()),
    "E1.96B": _e4b(range(20, 25), (4,)),
    "E2.54B": _e4b(range(0), (4, 20, 21, 22, 23, 24)),
}


def find_slice(text: str) -> Slice:
    """A name of the table, or a JSON file {"skip": [...], "feed_forward": width or [...]}."""
    for name, known in KNOWN.items():
        if name.lower() == text.lower():
            return known
    path = Path(text)
    if path.suffix != ".json" and not path.exists():
        raise RequestError(
            f"unknown slice {text[:60]!r}: expected {', '.join(KNOWN)}, or the path of a JSON file"
        )
    value = read_object(path)
    skip, widths = value.get("skip", []), value.get("feed_forward")
    if not isinstance(skip, list) or not all(type(layer) is int for layer in skip):
        raise FileError(path, f"skip is {found(skip)}, expected a list of layers")
    if type(widths) is int:
        return Slice(tuple(skip), widths)
    if not isinstance(widths, list) or not all(type(width) is int for width in widths):
        problem = f"feed_forward is {found(widths)}, expected a width or a list of widths"
        raise FileError(path, problem)
    return Slice(tuple(skip), tuple(widths))


def slice_model(source: Path, target: Path, cut: Slice, progress: Progress | None = None) -> None:
    """Write the directory `target`, which must not exist; whole or not at all.

    Raises FileError and UnsupportedError for the source, RequestError for a cut that does not fit
    it or that would leave layers without the keys and values that they share.
    """
    opened = open_huggingface(source)
    if opened.metadata["general.architecture"] != "gemma3n":
        raise UnsupportedError(f"{opened.path}: is no Gemma 3n, the only kind that can be sliced")
    config = config_of(opened.metadata, opened.tensors, opened.path)
    cutter = _Cutter(config, cut)
    text = dict(opened.config.get("text_config") or opened.config)
    partial_target = target.with_name(f".{target.name}.part")
    try:
        if target.exists():
            raise FileError(target, "exists already, expected a new directory's name")
        shutil.rmtree(partial_target, ignore_errors=True)
        partial_target.mkdir(parents=True)
        (partial_target / CONFIG_FILE).write_text(json.dumps(cutter.config(text), indent=2))
        tensors = [t for name, data in opened.originals.items() for t in cutter.cut(name, data)]
        with (partial_target / SINGLE_FILE).open("wb") as file:
            write_safetensors(file, tensors, {"format": "pt"}, progress)
        for name in _BESIDE:
            if (opened.path / name).exists():
                shutil.copyfile(opened.path / name, partial_target / name)
        partial_target.rename(target)
    except OSError as error:
        raise FileError(target, f"cannot be written: {error.strerror or error}") from None
    finally:
        shutil.rmtree(partial_target, ignore_errors=True)


class _Cutter:
    """What a slice makes of each tensor and of the config."""

    def __init__(self, config: Config, cut: Slice) -> None:
        layers = config.shape.layers
        for layer in cut.skip:
            if not 0 <= layer < layers:
                raise RequestError(f"layer {layer} cannot be left out: there are {layers}")
            self._check_owner(config, layer)
        self.kept = [layer for layer in range(layers) if layer not in cut.skip]
        self.new_index = {layer: i for i, layer in enumerate(self.kept)}
        widths = cut.feed_forward
        self.widths = [widths] * len(self.kept) if isinstance(widths, int) else list(widths)
        self.source = config
        self._check_widths(config)

    @staticmethod
    def _check_owner(config: Config, layer: int) -> None:
        readers = range(config.own_caches, config.shape.layers)
        if layer in {config.cache_of(reader) for reader in readers}:
            raise RequestError(
                f"layer {layer} cannot be left out: later layers share its keys and values"
            )

    def _check_widths(self, config: Config) -> None:
        if not self.kept or len(self.widths) != len(self.kept):
            raise RequestError(
                f"the slice has {len(self.widths)} feed-forward widths for {len(self.kept)} layers"
            )
        for layer, width in zip(self.kept, self.widths, strict=True):
            if not 1 <= width <= config.feed_forward[layer]:
                raise RequestError(
                    f"layer {layer}: expected a feed-forward of 1 to {config.feed_forward[layer]}, "
                    f"found {width}"
                )

    def config(self, old: Mapping[str, Any]) -> dict[str, Any]:
        """The text model's config.json."""
        source, kept = self.source, self.kept
        shared = sum(layer >= source.own_caches for layer in kept)
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
            "num_kv_shared_layers": shared,
            "activation_sparsity_pattern": [shares[layer] for layer in kept],
        }

    def cut(self, name: str, tensor: TensorData) -> list[TensorToWrite]:
        """The tensor under its new name; none where its layer goes."""
        item = tensor.format.block_bytes
        columns = tensor.shape[-1]
        bytes_of = tensor.data.reshape(-1, columns * item)  # [rows, bytes of a row]
        rows, wanted, shape = len(bytes_of), slice(None), tensor.shape
        match = _LAYER.fullmatch(name)
        if match:
            layer = int(match[2])
            if layer not in self.new_index:
                return []
            name = f"{match[1]}{self.new_index[layer]}{match[3]}"
            width = self.widths[self.new_index[layer]]
            if name.endswith(("mlp.gate_proj.weight", "mlp.up_proj.weight")):
                rows, shape = width, (width, columns)
            elif name.endswith("mlp.down_proj.weight"):
                shape, wanted = (tensor.shape[0], width), slice(width * item)
        elif name.endswith("per_layer_model_projection.weight"):
            bytes_of, shape = self._layers_of_rows(bytes_of, columns)
            rows = len(bytes_of)
        elif name.endswith("embed_tokens_per_layer.weight"):
            n = self.source.layer_width * item
            parts = bytes_of.reshape(rows, self.source.shape.layers, n)
            shape = (rows, len(self.kept) * self.source.layer_width)
            pieces = partial(_layers_of_columns, parts, self.kept)
            return [TensorToWrite(name, tensor.dtype.upper(), shape, pieces)]
        pieces = partial(_pieces, bytes_of[:rows], wanted)
        return [TensorToWrite(name, tensor.dtype.upper(), shape, pieces)]

    def _layers_of_rows(
        self, rows: NDArray[np.uint8], columns: int
    ) -> tuple[NDArray[np.uint8], tuple[int, int]]:
        n = self.source.layer_width
        kept = rows.reshape(self.source.shape.layers, n, -1)[self.kept].reshape(-1, rows.shape[1])
        return kept, (len(kept), columns)


def _pieces(rows: NDArray[np.uint8], columns: slice) -> Iterator[NDArray[np.uint8]]:
    step = max(1, _PIECE_BYTES // max(1, rows.shape[1]))
    for at in range(0, len(rows), step):
        yield rows[at : at + step, columns]


def _layers_of_columns(parts: NDArray[np.uint8], kept: list[int]) -> Iterator[NDArray[np.uint8]]:
    """[rows, layers, bytes] -> the kept layers of each row, some rows at a time."""
    step = max(1, _PIECE_BYTES // (parts.shape[1] * parts.shape[2]))
    for at in range(0, len(parts), step):
        yield parts[at : at + step, kept]
