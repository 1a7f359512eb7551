"""Hugging Face directories: config.json and safetensors, under the keys and names of GGUF files.

Fields: https://huggingface.co/docs/transformers, the configuration of each model type; GGUF's keys:
https://github.com/ggml-org/ggml/blob/master/docs/gguf.md. A page in core/models/ then serves both.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from llm_lite.core.errors import UnsupportedError
from llm_lite.core.files.json_text import read_object
from llm_lite.core.formats.huggingface import gemma3n, llama
from llm_lite.core.formats.huggingface.config import CheckpointConfig
from llm_lite.core.formats.safetensors.reader import open_folder
from llm_lite.core.plain_text import quote
from llm_lite.core.quant.tensor import TensorData

CONFIG_FILE = "config.json"

# model_type -> what turns a config and its tensors into GGUF's terms.
Translate = Callable[[CheckpointConfig, Mapping[str, TensorData]], "Translated"]
Translated = llama.Translated
_TRANSLATORS: Mapping[str, Translate] = {
    "llama": llama.translate,
    "mistral": llama.translate,
    "gemma3n": gemma3n.translate,
    "gemma3n_text": gemma3n.translate,
}


@dataclass(eq=False)
class HuggingFaceFolder:
    """An open directory. `config` is its config.json; notes say what was left out; `originals` are
    the tensors under their own names, where the model can be written again (Gemma 3n)."""

    path: Path
    config: Mapping[str, Any] = field(repr=False)
    metadata: Mapping[str, Any] = field(repr=False)
    tensors: Mapping[str, TensorData] = field(repr=False)
    nbytes: int
    notes: tuple[str, ...] = ()
    originals: Mapping[str, TensorData] = field(default_factory=dict, repr=False)

    def close(self) -> None:
        self.tensors = MappingProxyType({})
        self.originals = MappingProxyType({})


def open_huggingface(folder: str | Path) -> HuggingFaceFolder:
    """Read config.json and the headers of the weights.

    Raises FileError naming file and field, UnsupportedError for a model type, a rotary scaling or
    a quantization that is not known here.
    """
    path = Path(folder)
    raw = read_object(path / CONFIG_FILE)
    config = CheckpointConfig(raw, path / CONFIG_FILE)
    kind = config.text("model_type")
    if kind not in _TRANSLATORS:
        raise UnsupportedError(
            f"{config.path}: model_type {quote(kind)} is not known here; "
            f"known are {', '.join(_TRANSLATORS)}"
        )
    if method := _quantization(config):
        raise UnsupportedError(
            f"{config.path}: the weights are quantized ({method[:40]}), which is not read here; "
            "expected BF16, F16 or F32"
        )
    with open_folder(path) as weights:
        translated = _TRANSLATORS[kind](config, weights.tensors)
        _check_types(path, translated.tensors)
        metadata = {"general.name": _name(config, path), **translated.metadata}
        return HuggingFaceFolder(
            path,
            MappingProxyType(raw),
            MappingProxyType(metadata),
            MappingProxyType(dict(translated.tensors)),
            weights.nbytes,
            tuple(translated.notes),
            MappingProxyType(translated.originals),
        )


def _quantization(config: CheckpointConfig) -> str | None:
    value = config.get("quantization_config")
    if value is None:
        return None
    method = value.get("quant_method") if isinstance(value, dict) else None
    return method if isinstance(method, str) else "quantization_config"


def _check_types(path: Path, tensors: Mapping[str, TensorData]) -> None:
    for tensor in tensors.values():
        if tensor.dtype not in ("f32", "f16", "bf16"):
            raise UnsupportedError(
                f"{path}: tensor {quote(tensor.name)} is of type {tensor.dtype}, "
                "expected BF16, F16 or F32"
            )


def _name(config: CheckpointConfig, path: Path) -> str:
    name = config.get("_name_or_path")
    last = name.rstrip("/").rpartition("/")[2] if isinstance(name, str) else ""
    return last if re.search(r"\w", last) else path.resolve().name
