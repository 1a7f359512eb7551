"""A model file understood: its definition, tokenizer and template, whatever runs it."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct, field

from llm_lite.core.loading.background import BackgroundWork
from llm_lite.core.loading.model_source import ModelSource
from llm_lite.core.messages import Mode, SamplingDefault
from llm_lite.core.models.model import Model
from llm_lite.core.text.chat_template import ChatTemplate
from llm_lite.core.text.tokenizer import Tokenizer


class ModelFile(Struct, frozen=True):
    """A model file understood, whatever runs it."""

    path: Path
    file: ModelSource
    model: Model
    text: BackgroundWork[tuple[Tokenizer, ChatTemplate]]  # a large vocabulary takes seconds
    size: int  # bytes
    kept: dict[Mode, Path] = field(default_factory=dict)  # variants on disk
    sampling_defaults: tuple[SamplingDefault, ...] = ()

    @property
    def tokenizer(self) -> Tokenizer:
        return self.text.result()[0]

    @property
    def template(self) -> ChatTemplate:
        return self.text.result()[1]

    def close(self) -> None:
        self.text.close()
        self.file.close()
