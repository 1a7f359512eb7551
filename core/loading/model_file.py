"""A model file understood: its definition, tokenizer and template, whatever runs it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from llm_lite.core.loading.model_source import ModelSource
from llm_lite.core.messages import Mode
from llm_lite.core.models.model import Model
from llm_lite.core.text.chat_template import ChatTemplate
from llm_lite.core.text.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class ModelFile:
    """A model file understood, whatever runs it."""

    path: Path
    file: ModelSource
    model: Model
    tokenizer: Tokenizer
    template: ChatTemplate
    size: int  # bytes
    kept: dict[Mode, Path] = field(default_factory=dict)  # variants on disk

    def close(self) -> None:
        self.file.close()
