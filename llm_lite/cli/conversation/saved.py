"""A conversation to a file and back, and the cache behind it.

A conversation is a JSON object: "llm-lite" (the version, 1), "model", "system", and "messages" with
role, content and, of an answer, the tokens that it was and what was thought before it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from llm_lite.cli.conversation.conversation import TerminalConversation
from llm_lite.cli.terminal.answering import execute, report
from llm_lite.cli.terminal.output import note
from llm_lite.core.errors import FileError, RequestError
from llm_lite.core.files.json_text import read_object
from llm_lite.core.files.places import expanded
from llm_lite.core.files.regular import open_regular
from llm_lite.core.files.writing import check_place, write_file
from llm_lite.core.kv_cache.on_disk import MAGIC
from llm_lite.core.messages import CacheStatus, ChatMessage, Event, Logged, OpenCache, SaveCache

VERSION = 1
_ROLES = (("user", "text"), ("assistant",))


def save(talk: TerminalConversation, argument: str) -> None:
    """FileError where there is such a file already, or it cannot be written."""
    path = _place(argument, "save")
    text = json.dumps(_document(talk), indent=1)
    write_file(path, text.encode(), new=True)
    others = len(talk.tree.aside)
    note(
        f"{path}: {len(talk.messages)} messages"
        + (f", {others} of other versions left out" if others else "")
    )


def save_cache(talk: TerminalConversation, argument: str) -> None:
    path = _place(argument, "save-cache")
    talk.refuse_elsewhere("save-cache")
    _file_away(talk, SaveCache(str(path)))


def open_kept(talk: TerminalConversation, argument: str) -> None:
    """A conversation takes the place of the one that there is. FileError where it is damaged."""
    path = _path(argument, "open")
    if _begins(path).startswith(MAGIC):
        talk.refuse_elsewhere("open")
        _file_away(talk, OpenCache(str(path)))
        return
    _restore(talk, read_object(path), path)
    note(f"{path}: {len(talk.messages)} messages")


def _file_away(talk: TerminalConversation, command: SaveCache | OpenCache) -> None:
    """Save the cache or open one, and print what the engine logs."""

    def take(event: Event) -> None:
        report(event)
        if isinstance(event, Logged) and event.level == "info":
            note(event.text)
        if isinstance(event, CacheStatus):
            talk.cache = event

    execute(talk.engine, command, take=take)


def _document(talk: TerminalConversation) -> dict[str, Any]:
    return {
        "llm-lite": VERSION,
        "model": talk.model.name,
        "system": talk.system,
        "messages": [
            {
                "role": m.role,
                "content": m.content,
                "tokens": list(m.tokens),
                **({"thought": m.thought} if m.thought else {}),
            }
            for m in talk.messages
        ],
    }


def _restore(talk: TerminalConversation, document: dict[str, Any], path: Path) -> None:
    if document.get("llm-lite") != VERSION or not isinstance(document.get("messages"), list):
        raise FileError(path, f"is no conversation of version {VERSION}")
    same = document.get("model") == talk.model.name
    messages = tuple(
        _message(item, i, talk, path, same) for i, item in enumerate(document["messages"])
    )
    if len(messages) % 2:
        raise FileError(path, "messages: expected questions and answers in turns")
    system = document.get("system", "")
    talk.system = _text(system, path, "system")
    talk.begin(messages)
    if any(message.role == "text" for message in messages):
        talk.form = "completion"


def _message(
    item: Any, number: int, talk: TerminalConversation, path: Path, same: bool
) -> ChatMessage:
    name, roles = f"messages[{number}]", _ROLES[number % 2]
    role = item.get("role") if isinstance(item, dict) else None
    if role not in roles:
        raise FileError(path, f"{name}: expected a message of role {' or '.join(roles)}")
    content, tokens = _text(item.get("content"), path, f"{name}.content"), item.get("tokens", [])
    if role in ("user", "text"):
        return ChatMessage("text" if role == "text" else "user", content)
    thought = _text(item.get("thought", ""), path, f"{name}.thought")
    if not same:  # another model's
        return ChatMessage("assistant", content, (), thought)
    most = talk.model.vocabulary
    if not isinstance(tokens, list) or not all(type(t) is int and 0 <= t < most for t in tokens):
        raise FileError(path, f"{name}.tokens: expected numbers below {most}")
    return ChatMessage("assistant", content, tuple(tokens), thought)


def _text(value: Any, path: Path, name: str) -> str:
    try:
        value.encode()
    except (AttributeError, UnicodeEncodeError):
        raise FileError(path, f"{name}: expected a text") from None
    return str(value)


def _begins(path: Path) -> bytes:
    with open_regular(path) as file:
        return file.read(len(MAGIC))


def _place(argument: str, command: str) -> Path:
    path = _path(argument, command)
    check_place(path)
    if path.exists():
        raise FileError(path, "there is such a file already; choose another name")
    return path


def _path(argument: str, command: str) -> Path:
    if not argument:
        raise RequestError(f"/{command}: expected a file")
    return expanded(argument)
