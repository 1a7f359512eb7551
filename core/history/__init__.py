"""Conversations, kept: one database, written as they happen; lists, search, undo, files.

`history.py` is the one face of it. A change (`database/changes.py`) is a frozen record that writes
itself with SQL; callers put it into a queue and go on. One thread commits: the text of an answer in
progress every half second, all else at once, each commit synced to the disk. Readings have
connections of their own and see one state of the file; pending changes are applied to a copy of the
rows in memory by the same SQL, so that nobody waits for a disk and a full one hides nothing.
Messages are a tree: an edit, another answer or a fork is a sibling, and each node keeps which child
is shown; the shown path and its last message follow from that. `tree.py` is that tree for all that
hold a conversation: the file, the window, the page, exports.

A commit that fails leaves its changes in the queue; a sentence says so once, and another when they
are saved. A change that can never be saved (another window has purged its conversation) is dropped
with a sentence. SQLite says what is damaged: an index of words is made again; a file is moved aside
and read row by row, from both ends and from between. Files of other programs come in through
`exchange/entry.py`, which knows where each value stands and says what it is not.
"""

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
from llm_lite.core.history.tree import ConversationTree, fork
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
    "fork",
    "history_path",
    "title_of",
    "title_of_model",
]
