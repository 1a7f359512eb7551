"""Caches of conversations that are kept on disk, and the offer to the one in the chat.

Times are in seconds since the epoch.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from msgspec import Struct

from llm_lite.core.messages import Unfit
from llm_lite.core.records import replace

ResumeMode = Literal["off", "ask", "always"]
OfferPhase = Literal["checking", "ready", "unfit", "resuming", "resumed"]
BUDGET = 2 << 30


class KeptCache(Struct, frozen=True):
    """The cache of a conversation, with its title as it was when the list was read."""

    conversation: int
    title: str
    bytes: int
    created: float


class Offer(Struct, frozen=True):
    """The kept cache of the conversation in the chat."""

    conversation: int
    path: str


class OfferStatus(Struct, frozen=True):
    """The phase of an offer, for the conversation as it is in front."""

    phase: OfferPhase
    tokens: int = 0  # that need not be read again
    total: int = 0  # tokens of the conversation
    bytes: int = 0
    unfit: Unfit = ""
    seconds: float = 0.0  # that it took to resume


class ResumeState(Struct, frozen=True):
    mode: ResumeMode = "ask"
    budget: int = BUDGET
    folder: str = ""  # of the files; "": conversations are not kept at all
    kept: tuple[KeptCache, ...] = ()  # the newest first
    offer: Offer | None = None
    kept_tokens: int = 0  # that were in the cache when it was written last
    dismissed: bool = False  # the strip, for this conversation

    def of_next_conversation(self) -> ResumeState:
        return replace(self, offer=None, kept_tokens=0, dismissed=False)

    def of_next_model(self) -> ResumeState:
        return self

    @property
    def used(self) -> int:
        return sum(cache.bytes for cache in self.kept)

    @property
    def keeps(self) -> bool:
        return self.mode != "off" and bool(self.folder) and self.budget > 0


def newest_first(caches: Iterable[KeptCache]) -> tuple[KeptCache, ...]:
    return tuple(sorted(caches, key=lambda cache: cache.created, reverse=True))
