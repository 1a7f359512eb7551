"""`Tally` counts what a server has done since it began."""

from __future__ import annotations

from msgspec import Struct

from llm_lite.core.serving.answer import ServedAnswer
from llm_lite.core.serving.batch import Batch


class Tally(Struct):
    """The engine's thread writes it, any thread reads it."""

    finished: int = 0
    cancelled: int = 0
    failed: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    new_tokens: int = 0
    steps: int = 0  # of batches that are no longer in use
    step_seconds: float = 0.0

    def count(self, answer: ServedAnswer) -> None:
        """Count an answer that has ended."""
        if answer.reason == "stopped":
            self.cancelled += 1
        elif answer.reason == "error":
            self.failed += 1
        else:
            self.finished += 1
        if answer.has_begun:
            self.prompt_tokens += answer.prompt_tokens
        self.cached_tokens += answer.reused_tokens
        self.new_tokens += answer.new_tokens

    def add_batch(self, batch: Batch) -> None:
        self.steps += batch.steps
        self.step_seconds += batch.step_seconds
