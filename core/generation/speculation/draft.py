"""What a source of drafts offers: tokens that may follow a text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from llm_lite.core.records import dataclass


@dataclass(frozen=True, slots=True)
class Draft:
    """Tokens that may follow, and how much speaks for them: of a source that looks tokens up, how
    many last tokens of the text it has found elsewhere."""

    tokens: tuple[int, ...] = ()
    evidence: int = 0


NO_DRAFT = Draft()


class DraftSource(Protocol):
    """Follows a text and proposes how it goes on."""

    def begin(self, tokens: Sequence[int]) -> None:
        """This is the text now."""
        ...

    def add(self, token: int) -> None:
        """The text goes on with this token."""
        ...

    def draft(self, most: int) -> Draft:
        """At most so many tokens that may follow; NO_DRAFT where nothing speaks for any."""
        ...
