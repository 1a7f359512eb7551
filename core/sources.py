"""Where a model comes from: a file or a directory, in one form for all that follows.

Metadata has the keys of GGUF files and tensors have their names, whatever the source calls them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from core.chat_template import ChatTemplate
from core.errors import FileError, UnsupportedError
from core.formats.gguf import GgufFile, open_gguf
from core.formats.tensor import TensorData
from core.tokenizer import Tokenizer


class ModelSource(Protocol):
    """Tensors handed out stay valid after `close`."""

    @property
    def path(self) -> Path: ...
    @property
    def metadata(self) -> Mapping[str, Any]: ...
    @property
    def tensors(self) -> Mapping[str, TensorData]: ...
    @property
    def nbytes(self) -> int:
        """Size of the files, as they were when they were opened."""
        ...

    @property
    def notes(self) -> tuple[str, ...]:
        """What was left out, a sentence each."""
        ...

    def tokenizer(self, rows: int) -> Tokenizer:
        """One that has as many ids as the embedding has rows; FileError where it cannot."""
        ...

    def template(self, tokenizer: Tokenizer) -> ChatTemplate: ...
    def close(self) -> None: ...


def open_source(path: Path, progress: Callable[[float], None] | None = None) -> ModelSource:
    """Read the headers; `progress` hears of the part done, 0 to 1. FileError, UnsupportedError."""
    return GgufSource(open_gguf(path, progress), path.stat().st_size)


@dataclass(frozen=True, slots=True)
class GgufSource:
    file: GgufFile
    nbytes: int
    notes: tuple[str, ...] = ()

    @property
    def path(self) -> Path:
        return self.file.path

    @property
    def metadata(self) -> Mapping[str, Any]:
        return self.file.metadata

    @property
    def tensors(self) -> Mapping[str, TensorData]:
        return self.file.tensors

    def tokenizer(self, rows: int) -> Tokenizer:
        tokenizer = Tokenizer.from_gguf(self.metadata, self.path)
        if tokenizer.vocab_size != rows:
            raise FileError(
                self.path,
                f"tokenizer.ggml.tokens: expected {rows} entries, one a row of "
                f"token_embd.weight, found {tokenizer.vocab_size}",
            )
        return tokenizer

    def template(self, tokenizer: Tokenizer) -> ChatTemplate:
        try:
            return ChatTemplate.from_gguf(self.metadata, tokenizer)
        except UnsupportedError as error:
            raise FileError(self.path, f"tokenizer.chat_template: {error}") from None

    def close(self) -> None:
        self.file.close()
