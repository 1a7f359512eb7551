"""Files that belong to a model and are none, and what they are."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from llm_lite.core.errors import LlmLiteError, UnsupportedError
from llm_lite.core.files.json_text import read_object
from llm_lite.core.plain_text import quote

ADAPTER_FILE = "adapter_config.json"  # of PEFT, beside adapter_model.safetensors
# What `general.type` and the architecture of GGUF files call them.
_OF_GGUF = {
    "clip": "a projector of images or sound for another model",
    "mmproj": "a projector of images or sound for another model",
    "adapter": "an adapter (LoRA) for another model",
    "controlvector": "a control vector for another model",
    "imatrix": "statistics for quantizing another model",
    "vocab": "a vocabulary without weights",
}
# What other files begin with.
_OLD = "of llama.cpp before GGUF"
_BEGINNINGS = {
    b"algg": f"an adapter (LoRA) {_OLD}",
    **dict.fromkeys((b"lmgg", b"fmgg", b"tjgg"), f"a model {_OLD}; convert it again"),
    b"PK\x03\x04": "a zip archive, as PyTorch's checkpoints are; convert it to safetensors",
}
_PAGES = (b"<!doctype", b"<html")
_LONGEST_NAME = 200  # bytes of a tensor's


def companion_of(metadata: Mapping[str, Any]) -> str:
    """Return what a GGUF file is that is no model, "" for a model."""
    kinds = (metadata.get("general.architecture"), metadata.get("general.type"))
    return next(
        (_OF_GGUF[kind] for kind in kinds if isinstance(kind, str) and kind in _OF_GGUF), ""
    )


def refuse_companion(path: Path, metadata: Mapping[str, Any]) -> None:
    """Raise UnsupportedError if a GGUF file is no model."""
    if what := companion_of(metadata):
        raise UnsupportedError(f"{path}: is no model by itself: it is {what}")


def other_kind(begin: bytes) -> str:
    """Return what a file is by its first bytes that is no GGUF file, "" where they say nothing."""
    if begin[:4] in _BEGINNINGS:
        return _BEGINNINGS[begin[:4]]
    if begin.lstrip().lower().startswith(_PAGES):
        return (
            "a web page, as of an address of the hub with /blob/ in it; the file itself has "
            "/resolve/ there"
        )
    entries, length = struct.unpack("<ii", begin[:8].ljust(8, b"\0"))
    name = begin[8:].startswith((b"blk.", b"output.", b"token_embd."))
    if 0 < entries < 1 << 16 and 0 < length < _LONGEST_NAME and name:
        return _OF_GGUF["imatrix"]
    return ""


def refuse_adapter(folder: Path) -> None:
    """Raise UnsupportedError for a folder of an adapter."""
    base = adapter_base(folder)
    of = f"{quote(base)}, which is the model to open" if base else "another model"
    raise UnsupportedError(
        f"{folder}: is no model by itself: it is an adapter (LoRA) for {of}; adapters are not "
        "applied here: merge it into that model first (PEFT's `merge_and_unload`)"
    )


def adapter_base(folder: Path) -> str:
    """Return the name of the model that an adapter is for, "" where it does not say it."""
    try:
        name = read_object(folder / ADAPTER_FILE).get("base_model_name_or_path")
    except LlmLiteError:
        return ""
    return name if isinstance(name, str) else ""
