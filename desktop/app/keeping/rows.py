"""Rows of the list and of a search, fit for the screen."""

from __future__ import annotations

from llm_lite.core.history import ConversationSummary, FoundMessage
from llm_lite.desktop.actions import history as does
from llm_lite.desktop.state.history_state import ConversationRow, FoundRow, Shelf

SNIPPET = 400  # characters


def row_of(summary: ConversationSummary) -> ConversationRow:
    shelf: Shelf = "archived" if summary.archived else "all"
    if summary.deleted is not None:
        shelf = "deleted"
    title = does.fit_title(summary.title)
    return ConversationRow(summary.id, title, summary.updated, summary.pinned, shelf)


def found_row(found: FoundMessage) -> FoundRow:
    """Its snippet on one line: whitespace is one character each, so that the marks stay."""
    snippet = "".join(char if char.isprintable() else " " for char in found.snippet[:SNIPPET])
    marks = tuple((a, min(b, len(snippet))) for a, b in found.marks if a < len(snippet))
    title = does.fit_title(found.title)
    return FoundRow(found.conversation, title, found.message, found.created, snippet, marks)
