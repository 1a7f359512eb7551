"""The description of a model before it is loaded: its fields, and every tensor's name, format and
shape."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from llm_lite.core.messages import Mode
from llm_lite.core.models.model import Model
from llm_lite.core.models.registry import read_model
from llm_lite.core.quant.modes import (
    WeightOfFormat,
    loaded_table_dtype,
    promoted,
    target_dtype,
)
from llm_lite.core.quant.registry import FORMATS, QuantFormat, named_format
from llm_lite.core.quant.tensor import TensorData


class TensorSpec(Struct, frozen=True):
    """The name, format and shape of a tensor, without its data."""

    name: str
    dtype: str
    shape: tuple[int, ...]

    @property
    def format(self) -> QuantFormat:
        return named_format(self.name, self.dtype)

    @property
    def nbytes(self) -> int:
        return FORMATS[self.dtype].nbytes(self.shape)


class LoadedTensor(Struct, frozen=True):
    """A tensor as executors are given it: mapped if the file has it so, else converted in
    memory."""

    spec: TensorSpec
    stored_bytes: int  # in the file
    made: bool
    table: bool  # single rows of it are read on disk


class ModelDescription(Struct, frozen=True):
    """A model to be judged for fit; `kept`: the modes with a variant on disk, which is mapped
    instead of converted."""

    path: Path
    metadata: Mapping[str, Any]
    tensors: Mapping[str, WeightOfFormat]
    kept: frozenset[Mode] = frozenset()
    # Whether weights are read when the file is opened, which brings all of it into memory
    read_at_opening: bool = True
    note: str = ""  # a sentence on what is only guessed
    data: Mapping[str, TensorData] = field(default_factory=dict)  # where there are weights

    @property
    def merges(self) -> int:
        """Return the number of merges of the vocabulary; 0 if they are in a tokenizer.json, which
        another process reads."""
        return len(self.metadata.get("tokenizer.ggml.merges", ()))

    def model(self) -> Model:
        """Return the model's definition. FileError, UnsupportedError."""
        return read_model(self.metadata, self.tensors, self.path)

    def loaded(self, mode: Mode, on_disk: frozenset[str]) -> dict[str, LoadedTensor]:
        """Return all tensors in a mode; `on_disk` names those whose rows are read on disk."""
        finer = promoted(self.tensors.values(), mode)
        found = {}
        for name, tensor in self.tensors.items():
            table = name in on_disk
            dtype = loaded_table_dtype(tensor) if table else target_dtype(tensor, mode, finer)
            spec = TensorSpec(name, dtype, tensor.shape)
            mapped = dtype == tensor.dtype or (mode in self.kept and not table)
            stored = spec.nbytes if mapped else tensor.nbytes
            found[name] = LoadedTensor(spec, stored, not mapped, table)
        return found
