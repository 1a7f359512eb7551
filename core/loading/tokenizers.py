"""Tokenizers of models that are not loaded: of a GGUF file's header, of a directory, or of a
tokenizer.json alone. No weights are read."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from llm_lite.core.errors import FileError, RequestError, UnsupportedError
from llm_lite.core.files.places import expanded
from llm_lite.core.formats.gguf_reader import read_metadata
from llm_lite.core.hub import catalog
from llm_lite.core.loading.sources import folder_of, open_source
from llm_lite.core.messages.inspecting.tokenizing import TokenizedText
from llm_lite.core.models.registry import read_model
from llm_lite.core.plain_text import one_line
from llm_lite.core.text.stages import TokenizerFile, tokenized
from llm_lite.core.text.tokenizer import Tokenizer
from llm_lite.core.text.tokenizer_files import TOKENIZER_FILE


class NamedTokenizer(Struct, frozen=True):
    name: str
    tokenizer: Tokenizer | TokenizerFile

    def stages(self, text: str, control: bool) -> TokenizedText:
        """Return the stages of tokenizing a text; `control`: names of control tokens in it count as
        these. LlmLiteError."""
        if isinstance(self.tokenizer, TokenizerFile):
            return self.tokenizer.tokenized(text, control=control)
        return tokenized(self.tokenizer, self.name, [(text, control)])

    def count(self, text: str) -> int:
        """Count the tokens of a typed text, without those around it. LlmLiteError."""
        if isinstance(self.tokenizer, TokenizerFile):
            return self.tokenizer.count(text)
        return len(self.tokenizer.encode(text, parse_special=False))


def open_tokenizer(source: str | None) -> NamedTokenizer:
    """Open a tokenizer by the path of a tokenizer.json, or by what a load takes: a path or name of
    a model.

    RequestError, FileError, UnsupportedError where there is none that can be read.
    """
    path = expanded(source) if source and source.endswith(".json") else catalog.resolve(source)
    if path.suffix == ".json" and path.is_file():
        return _of_file(path)
    folder = folder_of(path)
    if folder is None:
        if not path.exists():
            raise RequestError(f"{path}: no such file")
        return _of_gguf(path)
    try:
        return _of_folder(folder)
    except (FileError, UnsupportedError):
        if not (folder / TOKENIZER_FILE).is_file():
            raise
        return _of_file(folder / TOKENIZER_FILE)  # of a model that this build does not run


def _of_gguf(path: Path) -> NamedTokenizer:
    metadata = read_metadata(path)
    tokenizer = Tokenizer.from_gguf(metadata, path)
    tokenizer.load()
    return NamedTokenizer(name_of(path, metadata.get("general.name")), tokenizer)


def _of_folder(folder: Path) -> NamedTokenizer:
    file = open_source(folder)
    try:
        rows = read_model(file.metadata, file.tensors, file.path).shape.vocabulary
        tokenizer = file.tokenizer(rows)
        tokenizer.load()
        return NamedTokenizer(name_of(folder, file.metadata.get("general.name")), tokenizer)
    finally:
        file.close()


def _of_file(path: Path) -> NamedTokenizer:
    file = TokenizerFile(path)
    return NamedTokenizer(file.name, file)


def name_of(path: Path, name: object = "") -> str:
    """Return the catalogue's name, else the file's own, else that of the path; on one line."""
    own = name if isinstance(name, str) and name else path.stem
    return one_line(catalog.title_of(path) or own)
