"""The thoughts that an answer begins with, found in its tokens as they come."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from llm_lite.core.messages import Thinking, TokenDecoded
from llm_lite.core.records import replace
from llm_lite.core.text.thinking import MARKS, Split

Effort = Literal["", "low", "medium", "high"]  # of thinking; "": as the template has it


class Thought(Struct, frozen=True):
    split: Split
    tokens: int = 0  # of thoughts, with their marks
    seconds: float = 0.0  # from its first token to its last
    unfolded: bool = False

    @classmethod
    def of(cls, thinking: Thinking) -> Thought:
        return cls(Split.of(thinking))

    @classmethod
    def of_texts(cls, thought: str, text: str) -> Thought:
        """Return the thoughts of an answer that was read from a file; `text` followed them."""
        before, after = MARKS["think"].written
        raw = before + thought + after + text
        split = Split(Thinking("think"), raw, "after", thought, text, marked=True, is_ended=True)
        return cls(split)

    @property
    def text(self) -> str:
        return self.split.thought

    @property
    def going_on(self) -> bool:
        """Tell whether what comes next is a thought, and not the answer."""
        return self.split.is_thinking and not self.split.is_ended

    def with_tokens(self, events: Sequence[TokenDecoded], seconds: float) -> Thought:
        """Add tokens that came together, `seconds` after those before them."""
        split, tokens = self.split, self.tokens
        for event in events:
            split = split.fed(event.text)
            tokens += split.marked and split.phase != "after"
        more = seconds if tokens > self.tokens else 0.0
        return replace(self, split=split, tokens=tokens, seconds=self.seconds + more)

    def ended(self) -> Thought:
        return replace(self, split=self.split.ended())
