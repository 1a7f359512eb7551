"""The interface of every source of a model, whatever its format."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from llm_lite.core.loading.verification import Part
from llm_lite.core.quant.tensor import TensorData
from llm_lite.core.text.chat_template import ChatTemplate
from llm_lite.core.text.tokenizer import Tokenizer


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
