"""Our own file of conversations: JSON with all versions of all messages.

    {"format": "llm-lite-conversations", "version": 1, "conversations": [
      {"title", "title_source", "created", "updated", "pinned", "archived", "system_prompt",
       "selected", "messages": [
         {"parent", "role", "text", "thought", "tokens", "created", "finished", "selected",
          "based_on", "kept_tokens", "run", "end", "attachments", "likelihoods"}]}]}

Messages are named by their place in the list, and a parent stands before its children. What is as
usual is left out. Times are in seconds since 1970.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from llm_lite.core.attached_text import ATTACHMENT_KINDS, Attachment, kind_of_text
from llm_lite.core.files.json_text import check_depth
from llm_lite.core.history.database.rows import (
    STOP_REASONS,
    from_mapping,
    run_from_mapping,
    stop_reason,
    storable_in,
)
from llm_lite.core.history.exchange.entry import JsonEntry
from llm_lite.core.history.ids import new_id
from llm_lite.core.history.records import (
    STORED_ROLES,
    TITLE_SOURCES,
    AnswerEnd,
    ConversationSummary,
    StoredConversation,
    StoredMessage,
)
from llm_lite.core.messages import AnswerRun, GenerationStats, ModelIdentity
from llm_lite.core.records import asdict

FORMAT = "llm-lite-conversations"
VERSION = 1
_LARGEST_TOKEN = 0xFFFF_FFFF
_LARGEST = 1 << 62
_MOST_LEVELS = 64  # of objects and lists in a run or an end


def to_json(conversations: Iterable[StoredConversation]) -> bytes:
    document = {
        "format": FORMAT,
        "version": VERSION,
        "conversations": [_conversation(conversation) for conversation in conversations],
    }
    return json.dumps(document, ensure_ascii=False, indent=1).encode()


def check_version(document: JsonEntry) -> None:
    """Raise FileError for a file of a program newer than this one."""
    version = document.get("version")
    if version.value != VERSION:
        raise version.refused(f"{VERSION}, the version that this program reads")


def from_json(entry: JsonEntry) -> StoredConversation:
    """Read one of the file's conversations, under new ids. FileError."""
    number = new_id()
    items = list(entry.get("messages").items())
    ids = [new_id() for _ in items]
    messages = tuple(_read_message(item, at, number, ids) for at, item in enumerate(items))
    parents = {message.id: message.parent for message in messages}
    selected = _place(entry.get("selected"), ids)
    if selected is not None and parents[selected] is not None:
        raise entry.get("selected").refused("a message without a parent")
    for item, message in zip(items, messages, strict=True):
        if message.selected is not None and parents[message.selected] != message.id:
            raise item.get("selected").refused("one of the message's children")
    created = entry.get("created").time(0.0)
    source = entry.get("title_source")
    known = next((name for name in TITLE_SOURCES if name == source.text("none")), None)
    if known is None:
        raise source.refused(f"one of {', '.join(TITLE_SOURCES)}")
    summary = ConversationSummary(
        number,
        entry.get("title").text(""),
        known,
        created,
        entry.get("updated").time(created),
        entry.get("pinned").flag(),
        entry.get("archived").flag(),
        None,
        entry.get("system_prompt").text(""),
        selected,
    )
    return StoredConversation(summary, messages)


def _conversation(conversation: StoredConversation) -> dict[str, Any]:
    s = conversation.summary
    places = {message.id: place for place, message in enumerate(conversation.messages)}
    head = {
        "title": s.title,
        "title_source": s.title_source,
        "created": s.created,
        "updated": s.updated,
        "pinned": s.pinned,
        "archived": s.archived,
        "system_prompt": s.system_prompt,
        "selected": places.get(s.selected) if s.selected is not None else None,
    }
    return {**head, "messages": [_message(m, places) for m in conversation.messages]}


def _message(m: StoredMessage, places: dict[int, int]) -> dict[str, Any]:
    always = {
        "parent": places.get(m.parent) if m.parent is not None else None,
        "role": m.role,
        "text": m.text,
        "created": m.created,
    }
    at_times = {
        "thought": m.thought,
        "tokens": list(m.tokens),
        "selected": places.get(m.selected) if m.selected is not None else None,
        "based_on": places.get(m.based_on) if m.based_on is not None else None,
        "kept_tokens": m.kept_tokens or None,
        "run": asdict(m.run) if m.run else None,
        "end": asdict(m.end) if m.end else None,
        "attachments": [asdict(attachment) for attachment in m.attachments],
        "likelihoods": [round(p, 6) if p >= 0 else None for p in m.likelihoods],
    }
    present = {name: value for name, value in at_times.items() if value not in (None, "", [])}
    return {**always, **({} if m.finished else {"finished": False}), **present}


def _read_message(item: JsonEntry, at: int, conversation: int, ids: list[int]) -> StoredMessage:
    role = next((name for name in STORED_ROLES if name == item.get("role").value), None)
    if role is None:
        raise item.get("role").refused(f"one of {', '.join(STORED_ROLES)}")
    run, end = item.get("run"), item.get("end")
    attached = item.get("attachments")
    return StoredMessage(
        ids[at],
        conversation,
        _place(item.get("parent"), ids[:at]),
        role,
        item.get("text").text(),
        item.get("thought").text(""),
        read_tokens(item.get("tokens")),
        item.get("created").time(0.0),
        item.get("finished").flag(True),
        _place(item.get("selected"), ids),
        _place(item.get("based_on"), ids),
        item.get("kept_tokens").whole(_LARGEST_TOKEN, 0),
        None if run.is_null else _run(run),
        None if end.is_null else _end(end),
        () if attached.is_null else tuple(_attachment(one) for one in attached.items()),
        _likelihoods(item.get("likelihoods")),
    )


def _place(entry: JsonEntry, ids: list[int]) -> int | None:
    """Return the id of a message by its place in the list; a parent must be before its child, so
    that there are no cycles."""
    if entry.is_null:
        return None
    if type(entry.value) is not int or not 0 <= entry.value < len(ids):
        raise entry.refused(f"a place in the list of messages below {len(ids)}")
    return ids[entry.value]


def read_tokens(entry: JsonEntry) -> tuple[int, ...]:
    if entry.is_null:
        return ()
    if not isinstance(entry.value, list) or not all(
        type(token) is int and 0 <= token <= _LARGEST_TOKEN for token in entry.value
    ):
        raise entry.refused(f"a list of whole numbers up to {_LARGEST_TOKEN}")
    return tuple(entry.value)


def _likelihoods(entry: JsonEntry) -> tuple[float, ...]:
    if entry.is_null:
        return ()
    if not isinstance(entry.value, list) or not all(
        p is None or (type(p) in (int, float) and 0 <= p <= 1) for p in entry.value
    ):
        raise entry.refused("a list of probabilities from 0 to 1, or null")
    return tuple(-1.0 if p is None else float(p) for p in entry.value)


def _run(entry: JsonEntry) -> AnswerRun:
    model = entry.get("model")
    identity = ModelIdentity()
    if not model.is_null:
        identity = ModelIdentity(
            model.get("name").text(""),
            model.get("path").text(""),
            model.get("bytes").whole(_LARGEST, 0),
            model.get("modified").number(0.0),
            model.get("fingerprint").text(""),
        )
    return run_from_mapping(_storable(entry), identity)


def _storable(entry: JsonEntry) -> dict[str, Any]:
    """Return an object with whole characters only. FileError where it nests too deep."""
    try:
        check_depth(entry.object(), _MOST_LEVELS)
    except ValueError:
        raise entry.refused(f"at most {_MOST_LEVELS} levels of objects and lists") from None
    stored: dict[str, Any] = storable_in(entry.object())
    return stored


def _end(entry: JsonEntry) -> AnswerEnd | None:
    stats = entry.get("stats")
    reason = entry.get("stop_reason")
    known = stop_reason(reason.text("")) if not reason.is_null else None
    if known is None and not reason.is_null:
        raise reason.refused(f"one of {', '.join(STOP_REASONS)}")
    measured = None if stats.is_null else from_mapping(GenerationStats, _storable(stats))
    problem, seconds = entry.get("problem").text(""), entry.get("seconds").number(0.0)
    end = AnswerEnd(known, measured, problem, seconds)
    return None if end == AnswerEnd() else end


def _attachment(entry: JsonEntry) -> Attachment:
    name, kind = entry.get("name").text(), entry.get("kind")
    known = next((one for one in ATTACHMENT_KINDS if one == kind.value), None)
    if known is None and not kind.is_null:
        raise kind.refused(f"one of {', '.join(ATTACHMENT_KINDS)}")
    return Attachment(
        name,
        entry.get("text").text(""),
        entry.get("tokens").whole(_LARGEST, 0),
        known or kind_of_text(name),
        entry.get("whole").whole(_LARGEST, 0),
    )
