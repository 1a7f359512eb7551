"""The messages about what is kept from one day to another: a conversation's cache, a title for it,
and what drafts learned from answers.

Paths name files that the history knows; conversations are numbers of the history.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from msgspec import field

from llm_lite.core.messages.answers import ChatMessage, PromptToken
from llm_lite.core.messages.kinds import Command, Event
from llm_lite.core.messages.tools import ToolSpec

# Why a kept file is of no use: what it was made with differs, the conversation begins otherwise, or
# it will never be of use again.
Unfit = Literal[
    "", "model", "weights", "heads", "types", "context", "beginning", "damaged", "failed"
]


class KeepConversation(Command, frozen=True):
    """Write what the cache holds of a conversation to a file, beside other work: CacheKept follows,
    unless the file holds just that already. Where it cannot be written, the file of before stays.
    Done also where a Shutdown waits behind it."""

    conversation: int
    path: str
    most_bytes: int  # a larger cache is not written


class CheckKept(Command, frozen=True):
    """Ask whether a kept file is of any use to the conversation as it stands: KeptChecked."""

    conversation: int
    path: str
    messages: tuple[ChatMessage, ...]
    thinking: bool = True
    tools: tuple[ToolSpec, ...] = ()  # that are offered
    values: Mapping[str, Any] = field(default_factory=dict)  # as in `Generate`


class ResumeKept(Command, frozen=True):
    """Bring a kept file into the cache, as far as it is of this conversation: KeptResumed."""

    conversation: int
    path: str
    messages: tuple[ChatMessage, ...]
    thinking: bool = True
    tools: tuple[ToolSpec, ...] = ()  # that are offered
    values: Mapping[str, Any] = field(default_factory=dict)  # as in `Generate`


class MakeTitle(Command, frozen=True):
    """Ask the model for a title of a conversation, when nothing else is to be done: TitleMade. The
    cache is afterwards as it was. Any other command ends it, as if it had been cancelled."""

    conversation: int
    messages: tuple[ChatMessage, ...]
    thinking: bool = True


class CacheKept(Event, frozen=True):
    """A cache was kept."""

    tokens: int
    bytes: int
    model: str  # the identity in the file's header
    held_up: float  # seconds for which the engine did nothing else
    seconds: float  # until the disk had it


class KeptChecked(Event, frozen=True):
    """A kept file was checked. `problem` is a sentence if the file is of no use now."""

    tokens: int = 0  # that the cache will hold
    total: int = 0  # of the conversation
    bytes: int = 0
    unfit: Unfit = ""
    problem: str = ""


class KeptResumed(Event, frozen=True):
    """A kept file was brought into the cache. `problem` is a sentence if it is of no use."""

    prompt: tuple[PromptToken, ...] = ()  # all that the cache holds now, by position
    total: int = 0  # tokens of the conversation
    seconds: float = 0.0
    unfit: Unfit = ""
    problem: str = ""
    is_cut: bool = False  # it lacks tokens of the conversation, which was not read to its end


class TitleMade(Event, frozen=True):
    text: str  # the model's answer, still to be checked


class ForgetLearnedDrafts(Command, frozen=True):
    """Delete what drafts learned from answers, of all models, in memory and on disk: DraftsLearned
    follows."""


class DraftsLearned(Event, frozen=True):
    """The drafts learned from answers of the model in use, and the disk space of the files of all
    models."""

    answers: int
    tokens: int  # of these answers
    disk_bytes: int
