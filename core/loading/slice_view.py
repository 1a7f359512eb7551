"""Slices that take no disk: a directory with slice.json, which names a model and its parts in use.

    {"layout_version": 1, "source": path, relative to the directory, "identity": of the source,
     "skip": [layers], "feed_forward": [widths]}

Prefixes of rows and whole layers are mapped where they lie. Prefixes of columns are copied into
memory, as are per-layer projections: for E2B of E4B in int4 a tenth of the slice.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from msgspec import Struct

from llm_lite.core.errors import FileError, LlmLiteError
from llm_lite.core.files.folders import NewFolder
from llm_lite.core.files.json_text import found, read_object
from llm_lite.core.formats.variant_reader import identity_of
from llm_lite.core.loading.model_source import ModelSource
from llm_lite.core.loading.verification import Part, require_sound
from llm_lite.core.models.description.slices import SLICE_FILE, Cutter
from llm_lite.core.models.model import Slice
from llm_lite.core.models.registry import cutter_of
from llm_lite.core.plain_text import quote
from llm_lite.core.quant.tensor import TensorData, files_of
from llm_lite.core.text.chat_template import ChatTemplate
from llm_lite.core.text.tokenizer import Tokenizer

_LAYOUT_VERSION = 1


class SliceSource(Struct, frozen=True):
    path: Path
    base: ModelSource
    metadata: Mapping[str, Any]
    tensors: Mapping[str, TensorData]

    @property
    def nbytes(self) -> int:
        return sum(tensor.nbytes for tensor in self.tensors.values())

    @property
    def notes(self) -> tuple[str, ...]:
        return self.base.notes

    @property
    def checked_later(self) -> bool:
        return self.base.checked_later

    @property
    def parts(self) -> tuple[Part, ...]:
        return self.base.parts

    def tokenizer(self, rows: int) -> Tokenizer:
        return self.base.tokenizer(rows)

    def template(self, tokenizer: Tokenizer) -> ChatTemplate:
        return self.base.template(tokenizer)

    def close(self) -> None:
        self.base.close()


def write_view(source: ModelSource, target: Path, cutter: Cutter) -> None:
    """Write the directory `target`, which must not exist. FileError if it cannot be written, or if
    the source is damaged."""
    _cut_tensors(source, cutter)  # whether it can be cut at all
    for part in source.parts:
        require_sound(part)
    kept = set(cutter.kept)
    value = {
        "layout_version": _LAYOUT_VERSION,
        "source": Path(os.path.relpath(source.path.absolute(), target.absolute())).as_posix(),
        "identity": _identity(source),
        "skip": [i for i in range(cutter.layers) if i not in kept],
        "feed_forward": cutter.widths,
    }
    with NewFolder(target) as folder:
        folder.write(SLICE_FILE, json.dumps(value).encode())
        folder.put()


def open_view(folder: Path, open_source: Callable[[Path], ModelSource]) -> SliceSource:
    """Open the view in a folder; `open_source` opens its source. FileError if slice.json is wrong,
    or its source is gone or another one now."""
    path = folder / SLICE_FILE
    value = read_object(path)
    if value.get("layout_version") != _LAYOUT_VERSION:
        version = found(value.get("layout_version"))
        raise FileError(path, f"layout version: expected {_LAYOUT_VERSION}, found {version}")
    if not isinstance(value.get("source"), str):
        raise FileError(path, f"source is {found(value.get('source'))}, expected a path")
    place = _source_of(folder, value["source"])
    base = open_source(place)
    try:
        with files_of(base.tensors.values()).unchanged():  # some of it is copied
            if _identity(base) != value.get("identity"):
                problem = f"its source {place} is another model than the slice was made of"
                raise FileError(path, problem)
            cutter = cutter_of(base.metadata, base.tensors, base.path, slice_of(value, path))
            metadata = MappingProxyType(cutter.view_metadata(base.metadata))
            return SliceSource(folder, base, metadata, _cut_tensors(base, cutter))
    except LlmLiteError:
        base.close()
        raise


def _source_of(folder: Path, text: str) -> Path:
    """Return the path of the model that slice.json names. FileError if it is not there, or a view
    itself."""
    path = folder / SLICE_FILE
    try:
        place = (folder / text).resolve()
        is_view, is_there = (place / SLICE_FILE).is_file(), place.exists()
    except (OSError, ValueError, RuntimeError):  # too long, a null character, a loop of links
        raise FileError(path, f"source is {quote(text)}, which cannot be a path") from None
    if is_view:
        raise FileError(path, f"source {place} is a view itself, expected a model")
    if not is_there:
        raise FileError(path, f"its source {place} is not there")
    return place


def slice_of(value: Mapping[str, Any], path: Path) -> Slice:
    """Return the slice of {"skip": [...], "feed_forward": width or [...]}. FileError for anything
    else."""
    skip, widths = value.get("skip", []), value.get("feed_forward")
    if not isinstance(skip, list) or not all(type(layer) is int for layer in skip):
        raise FileError(path, f"skip is {found(skip)}, expected a list of layers")
    if type(widths) is int:
        return Slice(tuple(skip), widths)
    if not isinstance(widths, list) or not all(type(width) is int for width in widths):
        problem = f"feed_forward is {found(widths)}, expected a width or a list of widths"
        raise FileError(path, problem)
    return Slice(tuple(skip), tuple(widths))


def _cut_tensors(base: ModelSource, cutter: Cutter) -> Mapping[str, TensorData]:
    cuts = map(cutter.view, base.tensors.values())
    return MappingProxyType({cut.name: cut for cut in cuts if cut is not None})


def _identity(source: ModelSource) -> str:
    """Hash the source without the vocabulary, which is large."""
    fields = {k: v for k, v in source.metadata.items() if not k.startswith("tokenizer.")}
    return identity_of(fields, source.tensors)
