"""What every source of a model gives, whatever its format."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from llm_lite.core.loading.checking.verification import Part
from llm_lite.core.quant.tensor import TensorData
from llm_lite.core.text.chat_template import ChatTemplate
from llm_lite.core.text.tokenizer import Tokenizer


def repository_of(path: Path) -> str:
    """The repository's name of a directory in the cache of huggingface_hub, whose own is a commit:
    models--owner--NAME/snapshots/COMMIT; "" of another."""
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
        """Size of the files, as they were when they were opened."""
        ...

    @property
    def notes(self) -> tuple[str, ...]:
        """What was left out, a sentence each."""
        ...

    @property
    def checked_later(self) -> bool:
        """Whether weights were found to be finite numbers when the file was written, so that it is
        enough to check the files while the model is in use."""
        ...

    @property
    def parts(self) -> tuple[Part, ...]:
        """What of the files can be checked."""
        ...

    def tokenizer(self, rows: int) -> Tokenizer:
        """One that has as many ids as the embedding has rows; FileError where it cannot."""
        ...

    def template(self, tokenizer: Tokenizer) -> ChatTemplate: ...
    def close(self) -> None: ...
