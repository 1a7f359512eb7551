"""A model file understood: its definition, tokenizer and template, whatever runs it."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path

from msgspec import Struct, field

from llm_lite.core.loading.background import BackgroundWork
from llm_lite.core.loading.model_source import ModelSource, identity_of
from llm_lite.core.messages import Mode, SamplingDefault
from llm_lite.core.models.model import Model
from llm_lite.core.text.chat_template import ChatTemplate
from llm_lite.core.text.tokenizer import Tokenizer


class ModelFile(Struct, frozen=True, dict=True):  # a dict for what is computed once
    """A model file understood, whatever runs it."""

    path: Path
    file: ModelSource
    model: Model
    text: BackgroundWork[tuple[Tokenizer, ChatTemplate]]  # a large vocabulary takes seconds
    size: int  # bytes
    kept: dict[Mode, Path] = field(default_factory=dict)  # variants on disk
    sampling_defaults: tuple[SamplingDefault, ...] = ()

    @cached_property
    def identity(self) -> str:
        """Return what the model is known by, whatever its name is, as of `identity_of`: of files
        that were made of it, and of interventions. FileChangedError."""
        return identity_of(self.file, self.size)

    @property
    def tokenizer(self) -> Tokenizer:
        return self.text.result()[0]

    @property
    def template(self) -> ChatTemplate:
        return self.text.result()[1]

    def close(self) -> None:
        self.text.close()
        self.file.close()


class LoadedModel(Struct, frozen=True):
    """A model by its name and its file, which are not known where nobody said them."""

    name: str = ""
    file: ModelFile | None = None
