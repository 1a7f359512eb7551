"""The sources of a model: a file or a directory, in one form for all that follows.

Metadata has the keys of GGUF files and tensors have their names, whatever the source calls them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from msgspec import Struct, field

from llm_lite.core.errors import FileError, LlmLiteError, UnsupportedError
from llm_lite.core.files.json_text import found, read_bytes, read_object
from llm_lite.core.formats.companions import (
    ADAPTER_FILE,
    refuse_adapter,
    refuse_companion,
)
from llm_lite.core.formats.gguf_reader import GgufFile, open_gguf, unstacked
from llm_lite.core.formats.huggingface_reader import (
    CONFIG_FILE,
    OF_EXPERTS,
    HuggingFaceFolder,
    check_types,
    open_huggingface,
)
from llm_lite.core.formats.safetensors_reader import holds_weights
from llm_lite.core.formats.variant_reader import (
    MANIFEST_FILE,
    VariantFolder,
    open_variant,
    was_variant,
)
from llm_lite.core.loading.model_source import ModelSource, repository_of
from llm_lite.core.loading.verification import Part, tensor_parts, variant_parts
from llm_lite.core.memory import available_bytes
from llm_lite.core.models import registry
from llm_lite.core.models.description.slices import SLICE_FILE
from llm_lite.core.plain_text import quote
from llm_lite.core.quant.tensor import TensorData
from llm_lite.core.text import template_files
from llm_lite.core.text.chat_template import TOOL_USE, ChatTemplate
from llm_lite.core.text.special_tokens import named_tokens
from llm_lite.core.text.tokenizer import Tokenizer


def open_source(path: Path, progress: Callable[[float], None] | None = None) -> ModelSource:
    """Read headers; `progress` is called with the part done, 0 to 1. FileError,
    UnsupportedError."""
    folder = folder_of(path)
    if folder is not None:
        if (folder / SLICE_FILE).is_file():
            from llm_lite.core.loading.slice_view import open_view

            return open_view(folder, open_source)
        if was_variant(folder):
            return VariantSource(open_variant(folder))
        if (folder / ADAPTER_FILE).is_file() and not holds_weights(folder):
            refuse_adapter(folder)
        return _translated(open_huggingface(folder))
    file = open_gguf(path, progress)
    try:
        refuse_companion(path, file.metadata)
        tensors = registry.complete(file.metadata, unstacked(file.tensors), path)
    except LlmLiteError:
        file.close()
        raise
    return GgufSource(file, MappingProxyType(dict(tensors)), file.nbytes)


def _translated(folder: HuggingFaceFolder) -> HuggingFaceSource:
    try:
        _check_room(folder)
        model = registry.translate(folder.fields, folder.tensors)
        check_types(folder.path, model.tensors)
    except LlmLiteError:
        folder.close()
        raise
    if folder.unlisted:
        model.notes.append(
            f"{len(folder.unlisted)} tensors of its shards are not read, as their index does not "
            f"name them ({quote(folder.unlisted[0])})"
        )
    if (folder.path / ADAPTER_FILE).is_file():
        model.notes.append(f"the adapter beside it ({ADAPTER_FILE}) is not applied")
    metadata = {"general.name": _name_of(folder), **model.metadata}
    return HuggingFaceSource(
        folder,
        MappingProxyType(metadata),
        MappingProxyType(model.tensors),
        tuple(model.notes),
        MappingProxyType(model.originals),
    )


def _check_room(folder: HuggingFaceFolder) -> None:
    """Raise UnsupportedError if joining the experts of a mixture takes more memory than there
    is."""
    needed = sum(tensor.nbytes for name, tensor in folder.tensors.items() if OF_EXPERTS in name)
    free = available_bytes()
    if free is not None and needed > free:
        raise UnsupportedError(
            f"{folder.path}: to join its experts takes {needed / 2**30:.1f} GiB of memory, and "
            f"{free / 2**30:.1f} GiB are free; take a GGUF file of the model in fewer bits"
        )


def _name_of(folder: HuggingFaceFolder) -> str:
    name = folder.config.get("_name_or_path")
    last = name.rstrip("/").rpartition("/")[2] if isinstance(name, str) else ""
    return (
        last if re.search(r"\w", last) else repository_of(folder.path) or folder.path.resolve().name
    )


def folder_of(path: Path) -> Path | None:
    """Return the directory that `path` is, or that its manifest, config or index belongs to."""
    try:
        if path.is_dir():
            return path
        beside = path.name == CONFIG_FILE or path.suffix in (".safetensors", ".json")
        names = (MANIFEST_FILE, CONFIG_FILE, SLICE_FILE, ADAPTER_FILE)
        marks = [path.parent / name for name in names]
        return path.parent if beside and any(mark.is_file() for mark in marks) else None
    except (OSError, ValueError):  # its reader says what is wrong with the path
        return None


class GgufSource(Struct, frozen=True):
    file: GgufFile
    tensors: Mapping[str, TensorData]
    nbytes: int
    notes: tuple[str, ...] = ()
    checked_later: bool = False

    @property
    def path(self) -> Path:
        return self.file.path

    @property
    def parts(self) -> tuple[Part, ...]:
        return tensor_parts(self.path, self.tensors.values())

    @property
    def metadata(self) -> Mapping[str, Any]:
        return self.file.metadata

    def tokenizer(self, rows: int) -> Tokenizer:
        return _gguf_tokenizer(self.metadata, self.path, rows)

    def template(self, tokenizer: Tokenizer) -> ChatTemplate:
        return _gguf_template(self.metadata, self.path, tokenizer)

    def close(self) -> None:
        self.file.close()


class HuggingFaceSource(Struct, frozen=True):
    """A checkpoint from transformers; `originals`: the tensors under names that transformers
    would give the text model alone."""

    folder: HuggingFaceFolder
    metadata: Mapping[str, Any]
    tensors: Mapping[str, TensorData]
    notes: tuple[str, ...] = ()
    originals: Mapping[str, TensorData] = field(default_factory=dict)
    checked_later: bool = False

    @property
    def path(self) -> Path:
        return self.folder.path

    @property
    def nbytes(self) -> int:
        return self.folder.nbytes

    @property
    def parts(self) -> tuple[Part, ...]:
        return tensor_parts(self.path, self.tensors.values())

    def close(self) -> None:
        self.folder.close()

    def tokenizer(self, rows: int) -> Tokenizer:
        return Tokenizer.from_huggingface(self.path, rows)

    def template(self, tokenizer: Tokenizer) -> ChatTemplate:
        return _folder_template(self.path, tokenizer)


class VariantSource(Struct, frozen=True):
    """Has the vocabulary of a GGUF file in its metadata, or a Hugging Face tokenizer's files."""

    folder: VariantFolder
    notes: tuple[str, ...] = ()
    checked_later: bool = True

    @property
    def path(self) -> Path:
        return self.folder.path

    @property
    def metadata(self) -> Mapping[str, Any]:
        return self.folder.metadata

    @property
    def tensors(self) -> Mapping[str, TensorData]:
        return self.folder.tensors

    @property
    def nbytes(self) -> int:
        return self.folder.nbytes

    def close(self) -> None:
        self.folder.close()

    @property
    def parts(self) -> tuple[Part, ...]:
        return variant_parts(self.folder)

    def tokenizer(self, rows: int) -> Tokenizer:
        if "tokenizer.ggml.model" in self.metadata:
            tokenizer = _gguf_tokenizer(self.metadata, self.path, rows)
        else:
            tokenizer = Tokenizer.from_huggingface(self.path, rows)
        expected = self.folder.manifest["tokenizer"]
        if tokenizer.identity != expected:
            raise FileError(
                self.path,
                f"the tokenizer is not the one that this variant was made with: expected identity "
                f"{expected[:32]}, found {tokenizer.identity}",
            )
        return tokenizer

    def template(self, tokenizer: Tokenizer) -> ChatTemplate:
        if "tokenizer.ggml.model" in self.metadata:
            return _gguf_template(self.metadata, self.path, tokenizer)
        return _folder_template(self.path, tokenizer)


def _gguf_tokenizer(metadata: Mapping[str, Any], path: Path, rows: int) -> Tokenizer:
    tokenizer = Tokenizer.from_gguf(metadata, path)
    if tokenizer.vocab_size != rows:
        raise FileError(
            path,
            f"tokenizer.ggml.tokens: expected {rows} entries, one a row of "
            f"token_embd.weight, found {tokenizer.vocab_size}",
        )
    return tokenizer


def _gguf_template(metadata: Mapping[str, Any], path: Path, tokenizer: Tokenizer) -> ChatTemplate:
    try:
        return ChatTemplate.from_gguf(metadata, tokenizer)
    except UnsupportedError as error:
        raise FileError(path, f"tokenizer.chat_template: {error}") from None


def _folder_template(folder: Path, tokenizer: Tokenizer) -> ChatTemplate:
    file, templates = _find_templates(folder)
    source, with_tools = templates.get("default", ""), templates.get(TOOL_USE, "")
    try:
        return ChatTemplate.of(source, tokenizer, named_tokens(folder), with_tools)
    except UnsupportedError as error:
        raise FileError(file, f"chat_template: {error}") from None


def _find_templates(folder: Path) -> tuple[Path, dict[str, str]]:
    """Return (file, templates by name): files of their own, or a field of tokenizer_config.json, or
    none. The usual one is called default."""
    file = folder / template_files.TEMPLATE
    if file.exists():
        more = folder / template_files.FOR_TOOLS
        named = {TOOL_USE: _template_text(more)} if more.exists() else {}
        return file, {"default": _template_text(file), **named}
    for name in (template_files.LISTED, "tokenizer_config.json"):
        file = folder / name
        value = read_object(file).get("chat_template") if file.exists() else None
        if value is not None:
            return file, _named_templates(file, value)
    return file, {}


def _template_text(file: Path) -> str:
    try:
        return read_bytes(file, 1 << 20).decode()
    except UnicodeDecodeError as error:
        raise FileError(file, f"is not valid UTF-8 at byte {error.start}") from None


def _named_templates(file: Path, value: object) -> dict[str, str]:
    """Return the text, or those of a list of {name, template}, by name."""
    given = {"default": value}
    if isinstance(value, list):
        given = {str(v.get("name")): v.get("template") for v in value if isinstance(v, dict)}
    named = {name: text for name, text in given.items() if isinstance(text, str)}
    if "default" not in named:
        value = given.get("default")
        problem = f"chat_template is {found(value)}, expected a text or a list with one 'default'"
        raise FileError(file, problem)
    return named
