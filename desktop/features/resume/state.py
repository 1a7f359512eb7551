"""Caches of conversations that are kept on disk, and the offer to the one in the chat.

Times are in seconds since the epoch.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

from msgspec import Struct

from llm_lite.core.messages import CheckKept, ResumeKept, ToolSpec, Unfit
from llm_lite.core.records import replace

ResumeMode = Literal["off", "ask", "always"]
OfferPhase = Literal["waiting", "checking", "ready", "unfit", "resuming", "resumed"]
BUDGET = 2 << 30
# Model, mode, activations, types of keys and values; the tools and values that it is told.
RunWith = tuple[str, str, str, str, str, tuple[tuple[ToolSpec, ...], tuple[Any, ...]]]


class KeptCache(Struct, frozen=True):
    """The cache of a conversation, with its title as it was when the list was read."""

    conversation: int
    title: str
    bytes: int
    created: float


class Offer(Struct, frozen=True):
    """A kept cache that is offered to the conversation in the chat."""

    conversation: int
    path: str
    phase: OfferPhase = "waiting"  # for a model
    tokens: int = 0  # that need not be read again
    total: int = 0  # tokens of the conversation
    bytes: int = 0
    unfit: Unfit = ""
    problem: str = ""
    seconds: float = 0.0  # that it took to resume
    asked: CheckKept | ResumeKept | None = None  # the command that uses the file now
    lead: int = 0  # messages sent before those of the conversation
    checked_for: RunWith | None = None


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
