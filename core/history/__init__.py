"""Conversations, kept: one database, written as they happen; lists, search, undo, files."""

from llm_lite.core.attached_text import Attachment
from llm_lite.core.history.caches import CacheCatalogue
from llm_lite.core.history.events import (
    HistoryChangedElsewhere,
    HistoryEvent,
    HistoryOpened,
    HistoryRefused,
    HistoryRepaired,
    HistorySaved,
    HistorySavedAgain,
    HistoryUnsaved,
)
from llm_lite.core.history.history import History, history_path
from llm_lite.core.history.journal import Journal, JournalEntry
from llm_lite.core.history.records import (
    AnswerEnd,
    ConversationPage,
    ConversationSummary,
    FoundMessage,
    PageCursor,
    SavedCache,
    SearchResults,
    StoredConversation,
    StoredMessage,
    StoredRole,
    TitleSource,
)
from llm_lite.core.history.titles import title_of, title_of_model
from llm_lite.core.history.tree import ConversationTree
from llm_lite.core.messages import AnswerRun, ModelIdentity

__all__ = [
    "AnswerEnd",
    "AnswerRun",
    "Attachment",
    "CacheCatalogue",
    "ConversationPage",
    "ConversationSummary",
    "ConversationTree",
    "FoundMessage",
    "History",
    "HistoryChangedElsewhere",
    "HistoryEvent",
    "HistoryOpened",
    "HistoryRefused",
    "HistoryRepaired",
    "HistorySaved",
    "HistorySavedAgain",
    "HistoryUnsaved",
    "Journal",
    "JournalEntry",
    "ModelIdentity",
    "PageCursor",
    "SavedCache",
    "SearchResults",
    "StoredConversation",
    "StoredMessage",
    "StoredRole",
    "TitleSource",
    "history_path",
    "title_of",
    "title_of_model",
]
