"""Slices: a smaller model cut out of a larger one, no weight changed.

Layers are left out and feed-forwards keep a prefix of their width. The slice of a Hugging Face
directory is one, of the text model alone; that of another model is a variant.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, cast

from llm_lite.core.errors import RequestError
from llm_lite.core.files.folders import NewFolder, check_folder
from llm_lite.core.files.json_text import MAX_TOKENIZER_BYTES, read_bytes, read_object
from llm_lite.core.formats.huggingface_reader import CONFIG_FILE
from llm_lite.core.formats.safetensors_reader import SINGLE_FILE
from llm_lite.core.formats.safetensors_writer import TensorToWrite, write_safetensors
from llm_lite.core.formats.variant_reader import MANIFEST_FILE, METADATA_FILE, identity_of, to_json
from llm_lite.core.formats.variant_writer import Slot, VariantWriter
from llm_lite.core.loading.model_source import ModelSource
from llm_lite.core.loading.slice_view import SliceSource, slice_of, write_view
from llm_lite.core.loading.sources import HuggingFaceSource, VariantSource, open_source
from llm_lite.core.loading.verification import Part, require_sound, tensor_parts
from llm_lite.core.models.description.slices import CutTensor, Cutter
from llm_lite.core.models.gemma3n.cut import SLICES
from llm_lite.core.models.model import Slice
from llm_lite.core.models.registry import cutter_of
from llm_lite.core.quant.tensor import files_of
from llm_lite.core.text import template_files

_BESIDE = (
    *("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"),
    "generation_config.json",
)
_HF_LAYER = re.compile(r"(.*\blayers\.)([0-9]{1,5})(\..+)")

Progress = Callable[[float], None]


def find_slice(text: str) -> Slice:
    """Return the slice of a name in the table, or of a JSON file {"skip": [...], "feed_forward":
    width or [...]}."""
    for name, known in SLICES.items():
        if name.lower() == text.lower():
            return known
    path = Path(text)
    if path.suffix != ".json" and not path.exists():
        raise RequestError(
            f"unknown slice {text[:60]!r}: expected {', '.join(SLICES)}, or the path of a JSON file"
        )
    return slice_of(read_object(path), path)


def slice_model(
    source: Path,
    target: Path,
    cut: Slice,
    *,
    view: bool = False,
    progress: Progress | None = None,
) -> None:
    """Write the directory `target`, which must not exist; whole or not at all. A `view` takes no
    disk: it uses the source's files.

    Raises FileError and UnsupportedError for the source, also where it is damaged or changes
    meanwhile, and RequestError for a cut that does not fit it, that would leave layers without the
    keys and values that they share, or that does not fall on the edges of blocks.
    """
    opened = open_source(source)
    try:
        if isinstance(opened, SliceSource):
            raise RequestError(f"{source}: is a view of {opened.base.path}; slice that instead")
        cutter = cutter_of(opened.metadata, opened.tensors, opened.path, cut)
        check_folder(target)
        if view:
            write_view(opened, target, cutter)
        elif isinstance(opened, HuggingFaceSource):
            _write_folder(opened, target, cutter, progress)
        else:
            _write_variant(opened, target, cutter, progress)
    finally:
        opened.close()


def _write_variant(
    source: ModelSource, target: Path, cutter: Cutter, progress: Progress | None
) -> None:
    whole = [(tensor.name, cutter.cut(tensor)) for tensor in source.tensors.values()]
    cuts = {name: cut for name, cut in whole if cut is not None}
    slots = [Slot(cut.name, cut.dtype, cut.shape, cut.nbytes) for cut in cuts.values()]
    metadata = cutter.metadata(source.metadata)
    documents, mode = {METADATA_FILE: to_json(metadata)}, "as-stored"
    if isinstance(source, VariantSource):
        mode = source.folder.mode
        own = {SINGLE_FILE, METADATA_FILE, MANIFEST_FILE}
        for name in set(source.folder.manifest["files"]) - own:
            documents[name] = read_bytes(source.path / name, MAX_TOKENIZER_BYTES)
    about = {
        "tokenizer": source.tokenizer(cutter.vocabulary).identity,
        "source": {
            "name": source.path.name,
            "bytes": source.nbytes,
            "identity": identity_of(source.metadata, source.tensors),
        },
        "report": {},
    }
    total, done = sum(slot.nbytes for slot in slots), 0
    parts = _parts(source)
    with VariantWriter(target, slots, documents, mode) as writer:
        with files_of(source.tensors.values()).unchanged():
            for name, cut in cuts.items():
                require_sound(parts[name])
                for data in cut.pieces():
                    writer.add(data.reshape(-1))
                    done += data.nbytes
                    if progress:
                        progress(done / total)
        writer.finish(about)


def _parts(source: ModelSource) -> dict[str, Part]:
    """Return the parts of the source by tensor name; parts without one are checked at once."""
    for part in source.parts:
        if part.tensor is None:
            require_sound(part)
    return {part.name: part for part in source.parts if part.tensor is not None}


def _write_folder(
    source: HuggingFaceSource, target: Path, cutter: Cutter, progress: Progress | None
) -> None:
    text = dict(source.folder.config.get("text_config") or source.folder.config)
    for part in tensor_parts(source.path, source.tensors.values()):
        require_sound(part)
    cuts = zip(source.originals, map(cutter.cut, source.tensors.values()), strict=True)
    tensors = [_to_write(name, cut, cutter) for name, cut in cuts if cut is not None]
    beside = {
        name: read_bytes(source.path / name, MAX_TOKENIZER_BYTES)
        for name in _BESIDE
        if (source.path / name).is_file()
    }
    beside |= template_files.in_one_folder(source.path)
    files = files_of(source.tensors.values())
    with NewFolder(target) as folder:
        folder.write(CONFIG_FILE, json.dumps(cutter.checkpoint_config(text), indent=2).encode())
        with files.unchanged(), folder.create(SINGLE_FILE) as file:
            write_safetensors(cast(BinaryIO, file), tensors, {"format": "pt"}, progress)
            file.finish()
        for name, content in beside.items():
            folder.write(name, content)
        folder.put()


def _to_write(name: str, cut: CutTensor, cutter: Cutter) -> TensorToWrite:
    """Return the tensor to be written under its own name, with the new number of its layer."""
    if match := _HF_LAYER.fullmatch(name):
        name = f"{match[1]}{cutter.new_index[int(match[2])]}{match[3]}"
    return TensorToWrite(name, cut.dtype.upper(), cut.shape, cut.pieces)
