"""What wrote an answer: the model that was loaded then, and how it computed."""

from __future__ import annotations

from dataclasses import dataclass

from llm_lite.core.messages import ExecutorInfo, Gains, ModelInfo


@dataclass(frozen=True, slots=True)
class Written:
    """0 and "" stand for what is not known."""

    model: str = ""  # its name
    path: str = ""
    bytes: int = 0  # of its file
    mode: str = ""  # of the weights
    activations: str = ""
    keys: str = ""  # of the cache
    values: str = ""
    backend: str = ""
    device: str = ""
    threads: int = 0
    gains: Gains | None = None  # None: all were 1
    thinking: bool = True  # what the template's switch was set to

    @classmethod
    def by(
        cls,
        model: ModelInfo | None,
        executor: ExecutorInfo | None,
        gains: Gains | None = None,
        thinking: bool = True,
    ) -> Written | None:
        if model is None or executor is None:
            return None
        return cls(
            model.name,
            model.path,
            model.file_bytes,
            executor.mode,
            executor.activations,
            executor.keys,
            executor.values,
            executor.backend,
            executor.device,
            executor.threads,
            gains,
            thinking,
        )

    def is_like(self, other: Written | None) -> bool:
        """Whether the other would compute the same, with the same gains."""
        return other is not None and (self.model, self.path, self.mode, self.activations) == (
            other.model,
            other.path,
            other.mode,
            other.activations,
        )
