"""What is kept of a conversation beside its messages: gains of heads, and a draft."""

from __future__ import annotations

from llm_lite.core.attached_text import Attachment
from llm_lite.core.messages import ModelGains
from llm_lite.core.records import dataclass


@dataclass(frozen=True, slots=True)
class DraftedFile:
    """A file that goes with a draft."""

    path: str  # "" where it is a text of its own
    name: str
    attached: Attachment | None = None  # None: it was not read yet


@dataclass(frozen=True, slots=True)
class ConversationExtras:
    gains: ModelGains | None = None  # None: all are 1
    draft: str = ""
    files: tuple[DraftedFile, ...] = ()
