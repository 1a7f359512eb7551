"""Actions on kept conversations, and what the history answers.

Actions that need the file (`NeedsHistory`) are carried out by the history's host, on a thread of
its own; its results come back as the actions at the end. The handlers here change the state.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from msgspec import field

from llm_lite.core.attached_text import ConversationExtras
from llm_lite.core.history.tree import ConversationTree
from llm_lite.core.messages import Level
from llm_lite.core.records import replace
from llm_lite.desktop.features.chat.model import extras_of, turn_to
from llm_lite.desktop.features.history.state import (
    LONGEST_QUERY,
    ConversationRow,
    FoundRow,
    HistoryPart,
)
from llm_lite.desktop.features.program.action import Action, HostAction
from llm_lite.desktop.features.program.notices import notify
from llm_lite.desktop.features.program.requests import Result
from llm_lite.desktop.features.program.state import AppState, Message
from llm_lite.desktop.features.tree.model import ShowMessage, as_known
from llm_lite.desktop.language.incoming import fit_line
from llm_lite.desktop.language.translate import tr

TITLE = 200  # characters
FileKind = Literal["markdown", "html", "json"]


class ShowHistory(Action, frozen=True):
    shown: bool


class OpenConversation(Action, frozen=True):
    """Bring a conversation into the chat; at a message, whose version is then shown."""

    id: int
    message: int | None = None


class DismissUnshown(Action, frozen=True):
    """A person has read that the model in use does not show the conversation that was opened."""


class BeginRename(Action, frozen=True):
    id: int | None  # None: leave it as it was


class RenameConversation(Action, frozen=True):
    id: int
    title: str


class PinConversation(Action, frozen=True):
    id: int
    pinned: bool


class ArchiveConversation(Action, frozen=True):
    id: int
    archived: bool


class DeleteConversation(Action, frozen=True):
    """Delete a conversation, which can be restored."""

    id: int


class DeleteAll(Action, frozen=True):
    """Delete all conversations, which can be restored."""


class RestoreConversation(Action, frozen=True):
    id: int


class EmptyTrash(Action, frozen=True):
    """Delete for good the conversations that are deleted."""


class UndoHistory(Action, frozen=True):
    pass


class RedoHistory(Action, frozen=True):
    pass


class ForkConversation(HostAction, frozen=True):
    """Make a conversation with the path to a message of the chat, by its id, and nothing else."""

    message: int


class SearchHistory(Action, frozen=True):
    query: str


class ShowHistoryPart(Action, frozen=True):
    part: HistoryPart


class WantMoreRows(HostAction, frozen=True):
    """The end of the list is in sight."""


class ExportConversation(HostAction, frozen=True):
    id: int
    kind: FileKind
    path: str


class ChooseConversations(HostAction, frozen=True):
    """Open the dialog for a file of conversations to import."""


class ImportConversations(HostAction, frozen=True):
    path: str


class RowsRead(Action, frozen=True):
    """Rows of a part, from the first, or those that follow `after`."""

    part: HistoryPart
    rows: tuple[ConversationRow, ...]
    more: bool
    after: int | None = None  # id of the row before them


class RowsChanged(Action, frozen=True):
    rows: tuple[ConversationRow, ...]
    gone: tuple[int, ...] = ()  # ids of conversations that there are no more


class ConversationRead(Action, frozen=True):
    """The conversation that `OpenConversation` requested. `reveal` is the id of its message."""

    id: int
    tree: ConversationTree[Message]
    system_prompt: str
    reveal: int | None = None
    extras: ConversationExtras = field(default_factory=ConversationExtras)


class ConversationMissing(Action, frozen=True):
    id: int
    problem: str


class SearchAnswered(Action, frozen=True):
    query: str
    found: tuple[FoundRow, ...]
    complete: bool


class ConversationBegun(Action, frozen=True):
    """The messages in the chat are kept as this one."""

    id: int


class Reveal(Action, frozen=True):
    """Scroll to the message of this id; None: it has been done."""

    message: int | None


class LeaveConversations(Action, frozen=True):
    """Conversations that are no longer in the list, and leave the chat too."""

    ids: frozenset[int]


class TellHistory(Action, frozen=True):
    """A notice."""

    level: Level
    text: str
    undo: bool = False


NeedsHistory = (
    OpenConversation
    | RenameConversation
    | PinConversation
    | ArchiveConversation
    | DeleteConversation
    | DeleteAll
    | RestoreConversation
    | EmptyTrash
    | UndoHistory
    | RedoHistory
    | SearchHistory
    | ShowHistoryPart
    | WantMoreRows
    | ExportConversation
    | ImportConversations
    | ForkConversation
)
HistoryAction = (
    NeedsHistory
    | ShowHistory
    | BeginRename
    | RowsRead
    | RowsChanged
    | ConversationRead
    | ConversationMissing
    | ConversationBegun
    | SearchAnswered
    | Reveal
    | LeaveConversations
    | TellHistory
)


def _with(state: AppState, **changes: Any) -> AppState:
    return replace(state, history=replace(state.history, **changes))


def _show_history(action: ShowHistory, state: AppState, now: float) -> Result:
    return _with(state, renaming=None), ()


def _open(action: OpenConversation, state: AppState, now: float) -> Result:
    return _with(state, opening=action.id), ()


def _dismiss_unshown(action: DismissUnshown, state: AppState, now: float) -> Result:
    return _with(state, unshown=False), ()


def _begin_rename(action: BeginRename, state: AppState, now: float) -> Result:
    return _with(state, renaming=action.id), ()


def _rename(action: RenameConversation, state: AppState, now: float) -> Result:
    """Show the new title at once; an empty title changes nothing."""
    state = done_since(state)
    title, history = fit_title(action.title), replace(state.history, renaming=None)
    if title:
        rows = (replace(r, title=title) if r.id == action.id else r for r in history.rows)
        history = replace(history, rows=tuple(rows))
    return replace(state, history=history), ()


def fit_title(title: str) -> str:
    return fit_line(" ".join(title.split()), TITLE)


def _take_away(action: DeleteConversation | DeleteAll, state: AppState, now: float) -> Result:
    """Remove the conversation from the chat; the list follows when the history has deleted it."""
    history = state.history
    if history.open is None or (
        isinstance(action, DeleteConversation) and action.id != history.open
    ):
        return state, ()
    return turn_to(state)


def _search(action: SearchHistory, state: AppState, now: float) -> Result:
    query = action.query[:LONGEST_QUERY]
    history = replace(state.history, query=query)
    if not query.strip():
        history = replace(history, found=(), found_for="", complete=True)
    return replace(state, history=history), ()


def _show_history_part(action: ShowHistoryPart, state: AppState, now: float) -> Result:
    if action.part == state.history.part:
        return state, ()
    return _with(state, part=action.part, rows=(), more=False, read=False, renaming=None), ()


def _rows_read(action: RowsRead, state: AppState, now: float) -> Result:
    history = state.history
    if action.part != history.part:
        return state, ()
    rows = action.rows
    if action.after is not None:
        known = {row.id for row in rows}  # rows may have come, gone and moved since the request
        every = [*(row for row in history.rows if row.id not in known), *rows]
        rows = tuple(sorted(every, key=lambda row: row.place, reverse=True))
    return _with(state, rows=rows, more=action.more, read=True), ()


def _rows_changed(action: RowsChanged, state: AppState, now: float) -> Result:
    history = state.history.with_rows(action.rows).without(action.gone)
    return (state if history is state.history else replace(state, history=history)), ()


def _conversation_read(action: ConversationRead, state: AppState, now: float) -> Result:
    if action.id != state.history.opening:
        return state, ()
    if action.id == state.history.open and action.reveal is None:
        return _with(state, opening=None, unshown=not state.holds_conversations), ()
    if action.id == state.history.open:  # what is typed here is newer than what was read
        action = replace(action, extras=extras_of(state), system_prompt=state.system_prompt)
    own = state.history.own_prompt
    own = state.system_prompt if own is None else own
    tree = action.tree
    if action.system_prompt.strip() == state.system_prompt.strip():
        known = as_known(tree.path, state.messages)  # of a fork: what it was made of
        tree = tree.with_path(known)
    state, commands = turn_to(state, tree, action.extras)
    state = _with(
        state,
        open=action.id,
        reveal=action.reveal,
        own_prompt=own,
        unshown=not state.holds_conversations,
    )
    return replace(state, system_prompt=action.system_prompt), commands


def _conversation_missing(action: ConversationMissing, state: AppState, now: float) -> Result:
    if action.id == state.history.opening:
        state = _with(state, opening=None)
    history = state.history if action.problem else state.history.without([action.id])
    problem = action.problem or tr("This conversation is not there any more.")
    return notify(replace(state, history=history), "warning", problem, now), ()


def _conversation_begun(action: ConversationBegun, state: AppState, now: float) -> Result:
    return _with(state, open=action.id), ()


def _search_answered(action: SearchAnswered, state: AppState, now: float) -> Result:
    if action.query != state.history.query:
        return state, ()
    found = {"found": action.found, "found_for": action.query, "complete": action.complete}
    return _with(state, **found), ()


def revealing(state: AppState, message: int | None) -> AppState:
    """Return the state that brings a message into sight."""
    return _with(state, reveal=message)


def reveal_shown(action: object, before: AppState, result: Result, now: float) -> Result:
    """Bring a message into sight that a person chose in the tree, once its version is shown."""
    state, commands = result
    if not isinstance(action, ShowMessage) or state.tree.index(action.id) is None:
        return result
    return revealing(state, action.id), commands


def _reveal(action: Reveal, state: AppState, now: float) -> Result:
    return _with(state, reveal=action.message, opening=None), ()


def _tell(action: TellHistory, state: AppState, now: float) -> Result:
    if action.undo:
        state = done_since(state)
    return notify(state, action.level, action.text, now, action.undo), ()


def _leave(action: LeaveConversations, state: AppState, now: float) -> Result:
    return turn_to(state) if state.history.open in action.ids else (state, ())


def _journalled(action: NeedsHistory, state: AppState, now: float) -> Result:
    return done_since(state), ()


def done_since(state: AppState) -> AppState:
    """Remove the undo from notices of earlier changes, as it would undo what is done last."""
    if not any(notice.undo for notice in state.notices):
        return state
    return replace(state, notices=tuple(replace(n, undo=False) for n in state.notices))


HANDLERS: dict[type[Any], Callable[[Any, AppState, float], Result]] = {
    ShowHistory: _show_history,
    OpenConversation: _open,
    DismissUnshown: _dismiss_unshown,
    BeginRename: _begin_rename,
    RenameConversation: _rename,
    PinConversation: _journalled,
    ArchiveConversation: _journalled,
    DeleteConversation: _take_away,
    DeleteAll: _take_away,
    RestoreConversation: _journalled,
    SearchHistory: _search,
    ShowHistoryPart: _show_history_part,
    RowsRead: _rows_read,
    RowsChanged: _rows_changed,
    ConversationRead: _conversation_read,
    ConversationMissing: _conversation_missing,
    ConversationBegun: _conversation_begun,
    SearchAnswered: _search_answered,
    Reveal: _reveal,
    LeaveConversations: _leave,
    TellHistory: _tell,
}
