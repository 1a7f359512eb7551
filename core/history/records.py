"""The records of a conversation: frozen records, read and handed in.

Times are in seconds since the epoch, sizes in bytes. Ids are numbers of `core.history.ids`.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct, field

from llm_lite.core.attached_text import Attachment, ConversationExtras
from llm_lite.core.messages import AnswerRun, GenerationStats, StopReason

TitleSource = Literal["none", "message", "model", "person"]
TITLE_SOURCES: tuple[TitleSource, ...] = ("none", "message", "model", "person")
# What a tool said stands in conversations that other programs began.
StoredRole = Literal["system", "user", "assistant", "tool", "text"]
STORED_ROLES: tuple[StoredRole, ...] = ("system", "user", "assistant", "tool", "text")


class AnswerEnd(Struct, frozen=True):
    """The end of an answer."""

    stop_reason: StopReason | None = None
    stats: GenerationStats | None = None
    problem: str = ""  # a sentence, where it ended early
    seconds: float = 0.0  # from the request to the last token


class StoredMessage(Struct, frozen=True):
    """A node of the tree. Its text never changes once it is finished."""

    id: int
    conversation: int
    parent: int | None  # None: it begins the conversation, or another version of its beginning
    role: StoredRole
    text: str = ""
    thought: str = ""  # of an answer: what came before it said `text`
    tokens: tuple[int, ...] = ()  # ids; () where they are not known
    created: float = 0.0
    finished: bool = True  # False: it was being written when the program last saved it
    selected: int | None = None  # the child that is shown; None: the newest
    based_on: int | None = None  # the version that it was edited or forked from
    kept_tokens: int = 0  # how many of that version's first tokens it begins with
    run: AnswerRun | None = None  # of an answer that a model gave
    end: AnswerEnd | None = None
    attachments: tuple[Attachment, ...] = ()
    # Of the tokens, how likely the model found each; -1: not scored; () where that is not known.
    likelihoods: tuple[float, ...] = ()


class ConversationSummary(Struct, frozen=True):
    """A conversation without its messages."""

    id: int
    title: str = ""
    title_source: TitleSource = "none"
    created: float = 0.0
    updated: float = 0.0  # when something was last said
    pinned: bool = False
    archived: bool = False
    deleted: float | None = None  # when; None: it is not
    system_prompt: str = ""
    selected: int | None = None  # the first message that is shown; None: the newest


class StoredConversation(Struct, frozen=True):
    """A conversation with all versions of its messages, parents before their children."""

    summary: ConversationSummary
    messages: tuple[StoredMessage, ...] = ()
    extras: ConversationExtras = field(default_factory=ConversationExtras)


class PageCursor(Struct, frozen=True):
    """The place where a page of the list ends."""

    pinned: bool
    updated: float
    id: int


class ConversationPage(Struct, frozen=True):
    conversations: tuple[ConversationSummary, ...]
    next: PageCursor | None = None  # None: there are no more


class FoundMessage(Struct, frozen=True):
    """A message with the searched words. `marks` are the begins and ends of words in `snippet`."""

    conversation: int
    title: str
    message: int | None  # None: they stand in the title
    role: StoredRole | None
    created: float
    snippet: str
    marks: tuple[tuple[int, int], ...] = ()


class SearchResults(Struct, frozen=True):
    found: tuple[FoundMessage, ...] = ()
    complete: bool = True  # False: there may be more; the limit or the time was used up


class SavedCache(Struct, frozen=True):
    """A file with the keys and values of a conversation, up to a message."""

    id: int
    conversation: int | None  # None: it was purged, and the file may go
    message: int | None
    file: str  # its name in the folder of caches
    bytes: int
    model: str  # the identity in the file's header
    created: float
    used: float
