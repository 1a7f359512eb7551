"""The interface of every source of a model, whatever its format."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from llm_lite.core.loading.verification import Part
from llm_lite.core.quant.tensor import TensorData, files_of
from llm_lite.core.text.chat_template import ChatTemplate
from llm_lite.core.text.tokenizer import Tokenizer

SAMPLE = 4096  # bytes of each tensor


def repository_of(path: Path) -> str:
    """Return the repository's name of a directory in the cache of huggingface_hub, whose own name
    is a commit: models--owner--NAME/snapshots/COMMIT; "" for another one."""
    name = path.parent.parent.name
    held = path.parent.name == "snapshots" and name.startswith("models--")
    return name.rpartition("--")[2] if held else ""


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
        """Return the size of the files, as they were when they were opened."""
        ...

    @property
    def notes(self) -> tuple[str, ...]:
        """Return a sentence for each part that was left out."""
        ...

    @property
    def checked_later(self) -> bool:
        """Return True if weights were found to be finite numbers when the file was written, so that
        it is enough to check the files while the model is in use."""
        ...

    @property
    def parts(self) -> tuple[Part, ...]:
        """Return the parts of the files that can be checked."""
        ...

    def tokenizer(self, rows: int) -> Tokenizer:
        """Return a tokenizer with as many ids as the embedding has rows. FileError if it cannot."""
        ...

    def template(self, tokenizer: Tokenizer) -> ChatTemplate: ...
    def close(self) -> None: ...


def identity_of(source: ModelSource, size: int) -> str:
    """Hash a file's size, header and tokenizer, and how each tensor begins: 64 hexadecimal digits.
    It takes a tenth of a second or more. FileChangedError."""
    with files_of(source.tensors.values()).unchanged():
        return _digest(source, size)


def _digest(source: ModelSource, size: int) -> str:
    digest = hashlib.sha256(str(size).encode())
    for key, value in sorted(source.metadata.items()):
        plain = list(value) if isinstance(value, Sequence) and not isinstance(value, str) else value
        digest.update(f"{key}={plain!r}\n".encode())
    for tensor in source.tensors.values():
        digest.update(f"{tensor.name} {tensor.dtype} {tensor.shape}\n".encode())
        digest.update(tensor.data[:SAMPLE].tobytes())
    return digest.hexdigest()
