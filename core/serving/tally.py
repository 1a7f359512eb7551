"""`Tally` counts what a server has done since it began."""

from __future__ import annotations

from msgspec import Struct

from llm_lite.core.serving.answer import ServedAnswer


class Tally(Struct):
    """The engine's thread writes it, any thread reads it."""

    finished: int = 0
    cancelled: int = 0
    failed: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    new_tokens: int = 0
    steps: int = 0  # that answers shared, the chat's among them
    step_seconds: float = 0.0

    def count(self, answer: ServedAnswer) -> None:
        """Count an answer that has ended."""
        if answer.reason == "stopped":
            self.cancelled += 1
        elif answer.reason == "error":
            self.failed += 1
        else:
            self.finished += 1
        if answer.writer.is_begun:
            self.prompt_tokens += answer.writer.prompt_tokens
        self.cached_tokens += answer.writer.reused
        self.new_tokens += answer.new_tokens

    def count_step(self, seconds: float) -> None:
        self.steps += 1
        self.step_seconds += seconds
