"""What is known of a model before it is loaded: its fields, and every tensor's name, format and
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
    """A tensor that nobody has to have."""

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
    """As executors are given it: mapped where the file has it so, else made in memory."""

    spec: TensorSpec
    stored_bytes: int  # in the file
    made: bool
    table: bool  # of which single rows are read where they lie


class ModelDescription(Struct, frozen=True):
    """`kept`: the modes of which a variant lies on disk, which is mapped and not made."""

    path: Path
    metadata: Mapping[str, Any]
    tensors: Mapping[str, WeightOfFormat]
    kept: frozenset[Mode] = frozenset()
    # Whether weights are looked at when the file is opened, which brings all of it into memory
    read_at_opening: bool = True
    note: str = ""  # a sentence on what is only guessed
    data: Mapping[str, TensorData] = field(default_factory=dict)  # where there are weights

    @property
    def merges(self) -> int:
        """Of the vocabulary's tokens; 0 where they are in a tokenizer.json, which a process apart
        reads."""
        return len(self.metadata.get("tokenizer.ggml.merges", ()))

    def model(self) -> Model:
        """FileError, UnsupportedError."""
        return read_model(self.metadata, self.tensors, self.path)

    def loaded(self, mode: Mode, on_disk: frozenset[str]) -> dict[str, LoadedTensor]:
        """All tensors in a mode, `on_disk` those of which rows are read."""
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
