"""The context of long tasks with the loaded model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from llm_lite.core.errors import RequestError
from llm_lite.core.generation.answer import Emit
from llm_lite.core.loading import loader
from llm_lite.core.loading.encoder_starting import AnyRunner
from llm_lite.core.loading.model_file import ModelFile
from llm_lite.core.loading.runner import Runner
from llm_lite.core.messages import EngineOptions

if TYPE_CHECKING:
    from llm_lite.core.gpu.device import Device


class TaskContext(Struct, frozen=True):
    """The model, the runner of the chat, and callbacks to emit and to stop."""

    file: ModelFile
    loaded: AnyRunner  # the chat's
    options: EngineOptions  # the chat's
    device: Device | None  # that also draws
    emit: Emit
    should_stop: Callable[[], bool]  # the person wants an end
    closing: Callable[[], bool]  # the program ends
    cache_wanted: Callable[[], bool]  # a command waits that reads or replaces the chat's cache
    variants: Path | None = None  # where they are kept
    between: Callable[[], object] = lambda: None  # to be called between two steps: others have one

    @property
    def runner(self) -> Runner:
        """Return the chat's runner, which writes text. RequestError for an encoder."""
        if not isinstance(self.loaded, Runner):
            raise RequestError(loader.encoder_refusal(self.file))
        return self.loaded
