"""Hugging Face directories: config.json as it is, and its tensors under their own names.

`core/models/registry.py` knows what they mean.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from msgspec import Struct

from llm_lite.core.errors import FileError, UnsupportedError
from llm_lite.core.files.json_text import read_object
from llm_lite.core.formats.huggingface_config import CheckpointConfig
from llm_lite.core.formats.safetensors_reader import open_folder
from llm_lite.core.plain_text import quote
from llm_lite.core.quant.tensor import TensorData
from llm_lite.core.records import repr_without

CONFIG_FILE = "config.json"
OF_EXPERTS = ".experts."  # in the names of what is joined when a checkpoint is opened
PACKED = ("mxfp4",)  # methods of quantization that are read


class HuggingFaceFolder(Struct, eq=False):
    """An open directory. `config` is its config.json."""

    path: Path
    config: Mapping[str, Any]
    tensors: Mapping[str, TensorData]
    nbytes: int
    unlisted: tuple[str, ...] = ()  # tensors of shards that their index does not name
    __repr__ = repr_without("config", "tensors")

    @property
    def fields(self) -> CheckpointConfig:
        return CheckpointConfig(self.config, self.path / CONFIG_FILE)

    def close(self) -> None:
        self.tensors = MappingProxyType({})


def open_huggingface(folder: str | Path) -> HuggingFaceFolder:
    """Read config.json and the headers of the weights. FileError naming file and field,
    UnsupportedError for quantized weights."""
    path = Path(folder)
    raw = read_object(path / CONFIG_FILE)
    config = CheckpointConfig(raw, path / CONFIG_FILE)
    config.text("model_type")
    method = _quantization(config)
    if method and method not in PACKED:
        raise UnsupportedError(
            f"{config.path}: the weights are quantized ({method[:40]}), which is not read here; "
            f"expected BF16, F16 or F32, or experts of {' or '.join(PACKED)}"
        )
    with open_folder(path) as weights:
        for tensor in weights.tensors.values():
            if 0 in tensor.shape:
                shown = list(tensor.shape)
                problem = f"tensor {quote(tensor.name)} has shape {shown}, expected no size of 0"
                raise FileError(path, problem)
        tensors = MappingProxyType(dict(weights.tensors))
        unlisted = weights.unlisted
        return HuggingFaceFolder(path, MappingProxyType(raw), tensors, weights.nbytes, unlisted)


def _quantization(config: CheckpointConfig) -> str | None:
    value = config.get("quantization_config")
    if value is None:
        return None
    method = value.get("quant_method") if isinstance(value, dict) else None
    return method if isinstance(method, str) else "quantization_config"


def check_types(path: Path, tensors: Mapping[str, TensorData]) -> None:
    """Raise UnsupportedError if a tensor holds no floats, packed or not."""
    for tensor in tensors.values():
        if tensor.dtype not in ("f32", "f16", "bf16", *PACKED):
            raise UnsupportedError(
                f"{path}: tensor {quote(tensor.name)} is of type {tensor.dtype}, "
                "expected BF16, F16 or F32"
            )
