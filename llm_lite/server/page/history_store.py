"""`HistoryStore` opens the history for the page when it is first asked for, in threads of its
own; functions beside it return what is kept of a conversation as JSON values."""

from __future__ import annotations

import asyncio
import base64
import json
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from starlette.responses import Response

from llm_lite.core.attached_text import message_text
from llm_lite.core.checked import CheckError
from llm_lite.core.history import (
    ConversationPage,
    ConversationSummary,
    ConversationTree,
    FoundMessage,
    History,
    HistoryChangedElsewhere,
    HistoryOpened,
    HistoryRefused,
    HistoryRepaired,
    HistorySaved,
    HistorySavedAgain,
    HistoryUnsaved,
    PageCursor,
    StoredConversation,
    StoredMessage,
)
from llm_lite.server.sending import LargeResponse

T = TypeVar("T")
Json = dict[str, Any]
_THREADS = 2  # readings have a connection a thread
_TELLING = 10.0  # seconds, in which every page asks for the status
_OPENING = 3.0  # seconds: then one that cannot be opened is gone on without


class HistoryStore:
    """A server has one. The window is another writer of the same file: each sees what the other
    has saved."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._history: History | None = None
        self._threads: ThreadPoolExecutor | None = None
        self._lock = threading.Lock()
        self._waited = False
        self.changes = 0  # counts what was saved, by whomever
        self._problem = ""  # a sentence while nothing can be saved
        self._refusal, self._refused_at = "", 0.0  # of a change that had no place any more

    @property
    def problem(self) -> str:
        """Return a sentence while nothing can be saved, and for a while after a change was
        dropped."""
        is_new = time.monotonic() - self._refused_at < _TELLING
        return self._problem or (self._refusal if is_new else "")

    async def answer(self, work: Callable[[History], Json], status: int = 200) -> Response:
        """Answer with what `work` returns, as JSON, which is written in the same thread."""
        return await self.run(lambda history: LargeResponse(work(history), status))

    async def run(self, work: Callable[[History], T]) -> T:
        """Return what `work` finds or changes, without holding up other requests."""
        with self._lock:
            if self._threads is None:
                self._threads = ThreadPoolExecutor(_THREADS, "page history")
            threads = self._threads
        return await asyncio.get_running_loop().run_in_executor(threads, self._work, work)

    def _work(self, work: Callable[[History], T]) -> T:
        return work(self._opened())

    def _opened(self) -> History:
        with self._lock:
            if self._history is None:
                self._history = History(self._path)
            history = self._history
        if not self._waited:
            history.wait_until_open(_OPENING)
            self._waited = True
        return history

    def poll(self) -> None:
        """Note what the history has reported since the last call."""
        if self._history is None:
            return
        for event in self._history.poll():
            match event:
                case HistorySaved() | HistoryChangedElsewhere():
                    self.changes += 1
                case HistoryRefused(message):
                    self._refusal, self._refused_at = message, time.monotonic()
                case HistoryUnsaved(message):
                    self._problem = message
                case HistoryOpened(message) | HistoryRepaired(message):
                    self._problem = message
                case HistorySavedAgain():
                    self._problem = ""

    def close(self) -> None:
        """Save what is left."""
        with self._lock:
            threads, self._threads = self._threads, None
            history, self._history = self._history, None
        if threads is not None:
            threads.shutdown()
        if history is not None:
            history.close()


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
    """Return the path that is shown; each message names the versions that stand in its place."""
    tree = ConversationTree.of(conversation)
    path = [message_of(m, tree.versions(index)) for index, m in enumerate(tree.path)]
    return {**summary_of(conversation.summary), "messages": path}


def added_to(conversation: StoredConversation, message: StoredMessage) -> Json:
    """Return a message that was just added beside those that the conversation had."""
    beside = [one.id for one in conversation.messages if one.parent == message.parent]
    return message_of(message, (*beside, message.id))


def message_of(message: StoredMessage, versions: Sequence[int]) -> Json:
    """Return a message; `versions` are the ids of all in its place, the oldest first."""
    made: Json = {
        "id": str(message.id),
        "parent": str(message.parent) if message.parent is not None else None,
        "role": "user" if message.role == "text" else message.role,  # the page knows chats only
        "text": message.text,
        "thought": message.thought,
        "created": message.created,
        "finished": message.finished,
        "versions": [str(version) for version in versions],
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


def cursor_from(text: str) -> PageCursor:
    """Return the cursor of a text by `_cursor_text`; raise CheckError for any other text."""
    try:
        pinned, updated, number = json.loads(base64.urlsafe_b64decode(text[:200]))
        return PageCursor(bool(pinned), float(updated), int(number) & (1 << 63) - 1)
    except (ValueError, TypeError, OverflowError, RecursionError):
        raise CheckError("after", "expected the `next` of a page before") from None
