"""The file that /save of `llm-lite chat` writes: {"llm-lite": 1, "model", "system", "messages"},
where messages have role, content and, of an answer, tokens and thought."""

from __future__ import annotations

import time

from llm_lite.core.history.exchange.document import read_tokens
from llm_lite.core.history.exchange.entry import JsonEntry
from llm_lite.core.history.ids import new_id
from llm_lite.core.history.records import (
    STORED_ROLES,
    ConversationSummary,
    StoredConversation,
    StoredMessage,
    TitleSource,
)
from llm_lite.core.history.titles import title_of
from llm_lite.core.messages import AnswerRun, ModelIdentity
from llm_lite.core.records import replace

_VERSION = 1


def is_terminal(entry: JsonEntry) -> bool:
    return "llm-lite" in entry and "messages" in entry


def from_terminal(entry: JsonEntry, notes: list[str]) -> StoredConversation:
    """Read such a file, which has no times: its messages get the present one. FileError."""
    if entry.get("llm-lite").value != _VERSION:
        raise entry.get("llm-lite").refused(f"{_VERSION}, the version that this program reads")
    number, now = new_id(), time.time()
    run = AnswerRun(ModelIdentity(entry.get("model").text("")))
    messages: list[StoredMessage] = []
    for item in entry.get("messages").items():
        role = next((name for name in STORED_ROLES if name == item.get("role").value), None)
        if role is None:
            raise item.get("role").refused(f"one of {', '.join(STORED_ROLES)}")
        message = StoredMessage(
            new_id(),
            number,
            messages[-1].id if messages else None,
            role,
            item.get("content").text(),
            item.get("thought").text(""),
            read_tokens(item.get("tokens")),
            now,
            run=run if role == "assistant" else None,
        )
        if messages:
            messages[-1] = replace(messages[-1], selected=message.id)
        messages.append(message)
    first = messages[0] if messages else None
    title = title_of(first.text) if first else ""
    source: TitleSource = "message" if title else "none"
    prompt = entry.get("system").text("")
    summary = ConversationSummary(
        number, title, source, now, now, system_prompt=prompt, selected=first.id if first else None
    )
    return StoredConversation(summary, tuple(messages))
