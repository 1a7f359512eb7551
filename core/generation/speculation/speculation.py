"""What drafts are made with: sources, and who says how long a draft may be."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from llm_lite.core.generation.speculation.costs import PassCosts
from llm_lite.core.generation.speculation.draft import NO_DRAFT, Draft, DraftSource
from llm_lite.core.generation.speculation.lookup import LookupSource
from llm_lite.core.generation.speculation.policy import DraftPolicy
from llm_lite.core.generation.speculation.timing import PassTiming
from llm_lite.core.messages import Speculate


class LengthPolicy(Protocol):
    """Says how many tokens are drafted, and hears how that went."""

    costs: PassCosts

    def length(self, evidence: int, most: int) -> int: ...

    def judge(self, evidence: int, accepted: int, rejected: bool) -> None: ...


class LongestDrafts(DraftPolicy):
    """Drafts all that may be drafted, whether it pays or not; the very first pass drafts nothing,
    so that it is known what others gain."""

    def length(self, evidence: int, most: int) -> int:
        return most if self.costs.is_known else 0


class Speculation:
    """Of a model on an executor. What was learned stays from one answer to the next."""

    def __init__(
        self, sources: Sequence[DraftSource] = (), policy: LengthPolicy | None = None
    ) -> None:
        self.sources = tuple(sources) or (LookupSource(),)
        self.policy = policy or DraftPolicy()
        self.timing: PassTiming | None = None  # to be done while the engine is idle

    def begin(self, tokens: Sequence[int]) -> None:
        """Another text: a prompt, and what was answered so far."""
        for source in self.sources:
            source.begin(tokens)

    def add(self, token: int) -> None:
        for source in self.sources:
            source.add(token)

    def propose(self, most: int) -> Draft:
        """What the first source says that says anything; not yet cut to a length that pays."""
        proposals = (source.draft(most) for source in self.sources)
        return next((draft for draft in proposals if draft.tokens), NO_DRAFT)


def speculation_of(speculate: Speculate) -> Speculation | None:
    """As a person chose; None where nothing is drafted."""
    match speculate:
        case "off":
            return None
        case "auto":
            speculation = Speculation()
            speculation.timing = PassTiming(speculation.policy.costs)
            return speculation
        case "lookup":
            return Speculation(policy=LongestDrafts())
