"""The description of a model by its own files: only headers are read, weights stay on the disk."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from llm_lite.core.errors import FileError, LlmLiteError, UnsupportedError
from llm_lite.core.files.json_text import found, read_bytes, read_object
from llm_lite.core.formats.companions import companion_of
from llm_lite.core.formats.gguf_reader import FILE_TYPES, open_gguf, read_metadata, unstacked
from llm_lite.core.formats.huggingface_config import CheckpointConfig
from llm_lite.core.formats.huggingface_reader import (
    CONFIG_FILE,
    OF_EXPERTS,
    check_types,
    open_huggingface,
)
from llm_lite.core.formats.variant_reader import is_variant, open_variant
from llm_lite.core.messages.library import Form
from llm_lite.core.models import registry
from llm_lite.core.models.description.slices import SLICE_FILE
from llm_lite.core.models.model import Model
from llm_lite.core.plain_text import one_line
from llm_lite.core.quant.tensor import TensorData
from llm_lite.core.records import replace

_LONGEST = 60  # characters of a word that is shown
_CARD = "README.md"
_CARD_BYTES = 1 << 20
_LICENCE = re.compile(rb"^license:[ \t]*[\"']?([\w .+-]{1,60})", re.MULTILINE)


class Header(Struct, frozen=True):
    architecture: str = ""
    runnable: bool = True
    format: str = ""
    parameters: int = 0
    context: int = 0
    vocabulary: int = 0
    licence: str = ""
    problem: str = ""
    companion: bool = False  # belongs to a model, and is none


def read_header(form: Form, path: Path) -> Header:
    """Read a header. Never raises for the contents of files: that is the header's `problem`."""
    try:
        return _READERS[form](path)
    except UnsupportedError as error:
        return Header(runnable=False, problem=str(error))
    except LlmLiteError as error:
        return Header(problem=str(error))
    except (OSError, RuntimeError, ValueError) as error:  # a loop of links, a null in a path
        return Header(problem=f"{path}: cannot be read: {error}")


def _gguf(path: Path) -> Header:
    try:
        file = open_gguf(path)
    except UnsupportedError as error:  # a tensor of a kind that we do not have
        known = _of_metadata(read_metadata(path))
        return known if known.companion else replace(known, runnable=False, problem=str(error))
    with file:
        header = _of_metadata(file.metadata)
        header = replace(header, parameters=_count(file.tensors.values()))
        if not header.format:
            header = replace(header, format=_most(file.tensors.values()))
        if header.companion:
            return header
        try:
            tensors = registry.complete(file.metadata, unstacked(file.tensors), path)
            model = registry.read_model(file.metadata, tensors, path)
        except UnsupportedError as error:
            return replace(header, runnable=False, problem=str(error))
        except LlmLiteError as error:
            return replace(header, problem=str(error))
        return replace(header, vocabulary=_vocabulary(model))


def _vocabulary(model: Model) -> int:
    """Return the vocabulary of a model that continues texts; 0 for another one."""
    return model.shape.vocabulary if model.continues else 0


def _of_metadata(metadata: Mapping[str, Any]) -> Header:
    architecture = _word(metadata.get("general.architecture"))
    context = metadata.get(f"{architecture}.context_length")
    what = companion_of(metadata)
    file_type = metadata.get("general.file_type")
    return Header(
        architecture=architecture,
        runnable=not what,
        format=FILE_TYPES.get(file_type, "") if isinstance(file_type, int) else "",
        context=context if type(context) is int and context > 0 else 0,
        licence=_word(metadata.get("general.license")),
        problem="" if not what else f"is no model by itself: it is {what}",
        companion=bool(what),
    )


def _huggingface(folder: Path) -> Header:
    kind = _word(read_object(folder / CONFIG_FILE).get("model_type"))
    header = Header(architecture=kind, licence=_licence(folder))
    try:
        file = open_huggingface(folder)
    except UnsupportedError as error:
        return replace(header, runnable=False, problem=str(error))
    except LlmLiteError as error:
        return replace(header, problem=str(error))
    header = replace(
        header, parameters=_count(file.tensors.values()), format=_most(file.tensors.values())
    )
    try:
        if any(OF_EXPERTS in name for name in file.tensors):  # to join them, all would be read
            return _of_mixture(header, file.fields.part("text_config"))
        translated = registry.translate(file.fields, file.tensors)
        check_types(folder, translated.tensors)
        model = registry.read_model(translated.metadata, translated.tensors, folder)
        known = _of_metadata(translated.metadata)
        return replace(
            header,
            architecture=known.architecture,
            context=known.context,
            vocabulary=_vocabulary(model),
        )
    except UnsupportedError as error:
        return replace(header, runnable=False, problem=str(error))
    except LlmLiteError as error:
        return replace(header, problem=str(error))
    finally:
        file.close()


def _of_mixture(header: Header, config: CheckpointConfig) -> Header:
    metadata = registry.architecture_by_config(config).metadata_of(config)
    known, vocabulary = _of_metadata(metadata), config.integer("vocab_size")
    return replace(
        header, architecture=known.architecture, context=known.context, vocabulary=vocabulary
    )


def _licence(folder: Path) -> str:
    """Return the licence in the head of the model's card: `license: apache-2.0`."""
    try:
        raw = read_bytes(folder / _CARD, _CARD_BYTES)
    except LlmLiteError:
        return ""
    head = raw.split(b"\n---", 1)[0] if raw.startswith(b"---") else b""
    match = _LICENCE.search(head)
    return match[1].decode(errors="replace").strip() if match else ""


def _variant(folder: Path) -> Header:
    variant = open_variant(folder)
    header = _of_metadata(variant.metadata)
    tensors = variant.tensors.values()
    return replace(header, format=variant.mode, parameters=_count(tensors))


def _slice(folder: Path) -> Header:
    """Describe a slice mostly by its source; how many weights stay would have to be cut to know."""
    source_path = read_object(folder / SLICE_FILE).get("source")
    if not isinstance(source_path, str) or not source_path or "\0" in source_path:
        raise FileError(folder / SLICE_FILE, f"source is {found(source_path)}, expected a path")
    source = folder / source_path
    if not source.exists():
        raise FileError(folder / SLICE_FILE, f"its source {source.resolve()} is not there")
    if (source / SLICE_FILE).is_file():
        raise FileError(folder / SLICE_FILE, "its source is a view itself, expected a model")
    form: Form = "variant" if is_variant(source) else "huggingface"
    header = read_header("gguf" if source.is_file() else form, source)
    return replace(header, parameters=0)


def _count(tensors: Iterable[TensorData]) -> int:
    return sum(math.prod(tensor.shape) for tensor in tensors)


def _most(tensors: Iterable[TensorData]) -> str:
    """Return the format of most weights."""
    counts: Counter[str] = Counter()
    for tensor in tensors:
        counts[tensor.dtype] += math.prod(tensor.shape)
    return counts.most_common(1)[0][0].upper() if counts else ""


def _word(value: object) -> str:
    return one_line(value[:_LONGEST]) if isinstance(value, str) else ""


_READERS = {"gguf": _gguf, "huggingface": _huggingface, "variant": _variant, "slice": _slice}
