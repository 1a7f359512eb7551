"""The files of sentence-transformers that describe how an encoder's hidden states become a vector.

    modules.json               [{"path": "1_Pooling", "type": "...models.Pooling"}, ...]
    <path>/config.json         of a Pooling: which modes; of a Dense: its widths and activation
    sentence_bert_config.json  {"max_seq_length": tokens}
    config_sentence_transformers.json  {"prompts": {"query": "task: search result | query: "}}

Source: https://sbert.net/docs/package_reference/sentence_transformer/models.html. Functions take
the config.json of the encoder and look beside it; None where nothing is said.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from llm_lite.core.errors import FileError, UnsupportedError
from llm_lite.core.files.json_text import MAX_BYTES, found, parse_json, read_bytes, read_object
from llm_lite.core.formats.huggingface_config import CheckpointConfig
from llm_lite.core.formats.huggingface_reader import CONFIG_FILE
from llm_lite.core.formats.ranges import LARGEST_CONTEXT, LARGEST_WIDTH
from llm_lite.core.formats.safetensors_reader import open_folder
from llm_lite.core.models.description.rows import Known
from llm_lite.core.plain_text import quote
from llm_lite.core.quant.tensor import TensorData

MODULES_FILE, PROMPTS_FILE = "modules.json", "config_sentence_transformers.json"
_LENGTHS = {
    "sentence_bert_config.json": "max_seq_length",
    "tokenizer_config.json": "model_max_length",
}
_MODES = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len",
    "pooling_mode_weightedmean_tokens": "weighted_mean",
    "pooling_mode_lasttoken": "last",
}
_NAMED = {
    "weightedmean": "weighted_mean",
    "lasttoken": "last",
    "mean_sqrt_len_tokens": "mean_sqrt_len",
}
_KINDS = ("Transformer", "Pooling", "Dense", "Normalize", "Dropout")
_MOST_MODULES = 16
_DENSE_ACTIVATIONS = {"Tanh": "tanh", "Identity": "identity"}


def poolings(config: CheckpointConfig, known: Known) -> list[str] | None:
    folders = [folder for kind, folder in _modules(config.path.parent) if kind == "Pooling"]
    if not folders:
        return None
    file = folders[0] / "config.json"
    values = read_object(file)
    named = values.get("pooling_mode")
    if named is not None:  # of version 5 and on: one name, or a list
        listed = named if isinstance(named, list) else [named]
        return [_NAMED.get(str(one), str(one)) for one in listed]
    modes = [mode for key, mode in _MODES.items() if values.get(key) is True]
    if not modes:
        raise FileError(file, "expected a pooling mode that is true, found none")
    return modes


def reads_prompt(config: CheckpointConfig, known: Known) -> bool | None:
    folders = [folder for kind, folder in _modules(config.path.parent) if kind == "Pooling"]
    if not folders:
        return None
    file = folders[0] / "config.json"
    values = CheckpointConfig(read_object(file), file)
    return values.flag("include_prompt", True)


def is_normalized(config: CheckpointConfig, known: Known) -> bool | None:
    kinds = [kind for kind, _ in _modules(config.path.parent)]
    return "Normalize" in kinds if kinds else None


def most_tokens(config: CheckpointConfig, known: Known) -> int | None:
    """Return the limit in its own file, or the tokenizer's, which stands for none if it is huge."""
    if _beside(config.path.parent, MODULES_FILE) is None:
        return None
    for name, key in _LENGTHS.items():
        file = config.path.parent / name
        values = CheckpointConfig(read_object(file) if file.is_file() else {}, file)
        found = values.get(key)
        if found is not None and not (type(found) in (int, float) and found > LARGEST_CONTEXT):
            return values.integer(key, at_most=LARGEST_CONTEXT)
    return None


def prompts(config: CheckpointConfig, known: Known) -> list[list[str]] | None:
    """Return pairs of a task and the text that stands before texts of it."""
    file = _beside(config.path.parent, PROMPTS_FILE)
    named = None if file is None else read_object(file).get("prompts")
    if file is None or named is None:
        return None
    if not isinstance(named, dict) or not all(isinstance(one, str) for one in named.values()):
        raise FileError(file, f"prompts is {found(named)}, expected an object of texts")
    return [[task, text] for task, text in named.items() if text]


def dense_widths(config: CheckpointConfig, known: Known) -> list[int] | None:
    layers = _dense(config.path.parent)
    return [one.integer("out_features", at_most=LARGEST_WIDTH) for one in layers] or None


def dense_activations(config: CheckpointConfig, known: Known) -> list[str] | None:
    names = []
    for one in _dense(config.path.parent):
        name = one.text("activation_function", "torch.nn.modules.activation.Tanh")
        last = name.rpartition(".")[2]
        if last not in _DENSE_ACTIVATIONS:
            raise UnsupportedError(
                f"{one.path}: activation_function {quote(name)} is not known here"
            )
        names.append(_DENSE_ACTIVATIONS[last])
    return names or None


def dense_tensors(config: CheckpointConfig, known: Known) -> list[TensorData]:
    """Return `dense.{i}.weight` and `.bias`, from the safetensors file of each Dense."""
    tensors = []
    for index, one in enumerate(_dense(config.path.parent)):
        with open_folder(one.path.parent) as weights:
            for name, tensor in weights.tensors.items():
                last = name.removeprefix("linear.")
                if last not in ("weight", "bias"):
                    raise FileError(one.path.parent, f"tensor {quote(name)} is of no Dense layer")
                own = f"dense.{index}.{last}"
                tensors.append(TensorData(own, tensor.dtype, tensor.shape, tensor.data))
    return tensors


def _beside(folder: Path, name: str) -> Path | None:
    """Return a file beside a config.json; None where there is no such file, and where the config is
    not of this folder, as that of a model that was not fetched."""
    file = folder / name
    return file if file.is_file() and (folder / CONFIG_FILE).is_file() else None


def _dense(folder: Path) -> list[CheckpointConfig]:
    files = [at / "config.json" for kind, at in _modules(folder) if kind == "Dense"]
    return [CheckpointConfig(read_object(file), file) for file in files]


def _modules(folder: Path) -> Iterator[tuple[str, Path]]:
    """Yield (kind, folder) of each module in its order; none if there is no modules.json."""
    file = _beside(folder, MODULES_FILE)
    if file is None:
        return
    modules = parse_json(read_bytes(file, MAX_BYTES), file, "the file")
    if not isinstance(modules, list) or len(modules) > _MOST_MODULES:
        raise FileError(file, f"is {found(modules)}, expected a list of modules")
    for module in modules:
        yield _module(file, module)


def _module(file: Path, module: Any) -> tuple[str, Path]:
    """Return kind and folder of a module. FileError if the folder is outside; UnsupportedError for
    another kind."""
    kind = module.get("type") if isinstance(module, dict) else None
    path = module.get("path") if isinstance(module, dict) else None
    if not isinstance(kind, str) or not isinstance(path, str):
        raise FileError(file, f"has {found(module)}, expected an object with a type and a path")
    name = kind.rpartition(".")[2]
    if name not in _KINDS:
        raise UnsupportedError(f"{file}: a module of type {quote(kind)} is not known here")
    if Path(path).is_absolute() or ".." in Path(path).parts:
        raise FileError(file, f"path {quote(path)} leads out of the folder")
    return name, file.parent / path
