"""A short span of an answer with the tokens that came in it."""

from __future__ import annotations

from llm_lite.core.records import dataclass


@dataclass(frozen=True, slots=True)
class RateSample:
    """Tokens of an answer that came between two moments, both on the window's clock."""

    begin: float  # seconds
    time: float  # its end
    tokens: int
    step_ms: float = 0.0  # that the model's steps for these tokens took, together
    answer: int = 0  # the request that they were of

    @property
    def rate(self) -> float:
        """Tokens per second."""
        return self.tokens / (self.time - self.begin)

    @property
    def token_ms(self) -> float:
        """Milliseconds from one token to the next."""
        return 1e3 * (self.time - self.begin) / self.tokens

    @property
    def token_step_ms(self) -> float:
        """Milliseconds of the model's steps for a token."""
        return self.step_ms / self.tokens
