"""What is kept of a conversation, as the page reads it: JSON values."""

from __future__ import annotations

import base64
import json
from typing import Any

from llm_lite.core.attached_text import message_text
from llm_lite.core.errors import RequestError
from llm_lite.core.history import (
    ConversationPage,
    ConversationSummary,
    ConversationTree,
    FoundMessage,
    PageCursor,
    StoredConversation,
    StoredMessage,
)

Json = dict[str, Any]


def page_of(found: ConversationPage) -> Json:
    return {
        "conversations": [summary_of(summary) for summary in found.conversations],
        "next": _cursor_text(found.next) if found.next else None,
    }


def summary_of(summary: ConversationSummary) -> Json:
    return {
        "id": str(summary.id),
        "title": summary.title,
        "updated": summary.updated,
        "created": summary.created,
        "pinned": summary.pinned,
        "system_prompt": summary.system_prompt,
    }


def conversation_of(conversation: StoredConversation) -> Json:
    """The path that is shown; each message names the versions that stand in its place."""
    tree = ConversationTree.of(conversation)
    path = [message_of(message, tree) for message in tree.path()]
    return {**summary_of(conversation.summary), "messages": path}


def message_of(message: StoredMessage, tree: ConversationTree | None = None) -> Json:
    versions = tree.versions(message) if tree else (message,)
    made: Json = {
        "id": str(message.id),
        "parent": str(message.parent) if message.parent is not None else None,
        "role": "user" if message.role == "text" else message.role,  # the page knows chats only
        "text": message.text,
        "thought": message.thought,
        "created": message.created,
        "finished": message.finished,
        "versions": [str(version.id) for version in versions],
        "has_tokens": bool(message.tokens),
    }
    if message.attachments:  # what the model is told, and what a person sees
        made["content"] = message_text(message.text, message.attachments)
        made["attachments"] = [attached.name for attached in message.attachments]
    if message.run is not None:
        made["model"], made["mode"] = message.run.model.name, message.run.mode
    if message.end is not None:
        stats = message.end.stats
        made["reason"], made["problem"] = message.end.stop_reason, message.end.problem
        made["new_tokens"] = stats.new_tokens if stats else 0
        made["tok_s"] = stats.decode_tok_s if stats else 0.0
        made["ttft_ms"] = stats.ttft_ms if stats else 0.0
    return made


def found_of(found: FoundMessage) -> Json:
    return {
        "conversation": str(found.conversation),
        "title": found.title,
        "message": str(found.message) if found.message is not None else None,
        "snippet": found.snippet,
        "marks": [list(mark) for mark in found.marks],
        "created": found.created,
    }


def _cursor_text(cursor: PageCursor) -> str:
    values = json.dumps([cursor.pinned, cursor.updated, str(cursor.id)])
    return base64.urlsafe_b64encode(values.encode()).decode()


def cursor_from(said: str) -> PageCursor:
    """Of `_cursor_text`. RequestError for any other text."""
    try:
        pinned, updated, number = json.loads(base64.urlsafe_b64decode(said[:200]))
        return PageCursor(bool(pinned), float(updated), int(number) & (1 << 63) - 1)
    except (ValueError, TypeError, OverflowError, RecursionError):
        raise RequestError("after: expected the `next` of a page before") from None
