"""Reads a file of conversations, ours or another program's, which its shape tells."""

from __future__ import annotations

import codecs
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct

from llm_lite.core.errors import FileError
from llm_lite.core.files.json_text import parse_json, read_bytes
from llm_lite.core.history.exchange import document
from llm_lite.core.history.exchange.chatgpt import from_chatgpt, is_chatgpt
from llm_lite.core.history.exchange.entry import JsonEntry
from llm_lite.core.history.exchange.lm_studio import from_lm_studio, is_lm_studio
from llm_lite.core.history.exchange.terminal import from_terminal, is_terminal
from llm_lite.core.history.records import StoredConversation

MOST_BYTES = 256 << 20  # of a file; what Python makes of it takes some six times as much memory
_MOST_NOTES = 200

Reader = Callable[[JsonEntry, list[str]], StoredConversation]


class Imported(Struct, frozen=True):
    """The result of reading a file, as `History.add` takes it. A note is a sentence on something
    that could not be kept, or on a conversation that was left out."""

    conversations: tuple[StoredConversation, ...]
    notes: tuple[str, ...] = ()


def read_conversations(path: Path, limit: int = MOST_BYTES) -> Imported:
    """Read the conversations of a file. FileError if the file is too large or of no known form. One
    conversation that is wrong takes no other with it."""
    raw = read_bytes(path, limit).removeprefix(codecs.BOM_UTF8)
    whole = JsonEntry(path, "", parse_json(raw, path, "the file", any_number=True))
    notes: list[str] = []
    found = []
    for entry, read in _entries(whole):
        try:
            found.append(read(entry, notes))
        except FileError as error:
            notes.append(f"{error}; this conversation was left out")
    if notes and not found:
        raise FileError(path, notes[0].removeprefix(f"{path}: "))
    left_out = len(notes) - _MOST_NOTES
    if left_out > 0:
        notes[_MOST_NOTES:] = [f"{path}: {left_out} more notes were left out"]
    return Imported(tuple(found), tuple(notes))


def _entries(whole: JsonEntry) -> list[tuple[JsonEntry, Reader]]:
    """Return each conversation of the file with the function that reads it. FileError for a file of
    no known form."""
    if isinstance(whole.value, dict) and whole.get("format").value == document.FORMAT:
        document.check_version(whole)
        return [(entry, _ours) for entry in whole.get("conversations").items()]
    if isinstance(whole.value, list) and any(map(is_chatgpt, whole.items())):
        return [(entry, from_chatgpt) for entry in whole.items()]
    for is_known, read in (
        (is_chatgpt, from_chatgpt),
        (is_lm_studio, from_lm_studio),
        (is_terminal, from_terminal),
    ):
        if is_known(whole):
            return [(whole, read)]
    raise whole.refused(
        "conversations of llm-lite, ChatGPT's conversations.json or a conversation of LM Studio"
    )


def _ours(entry: JsonEntry, notes: list[str]) -> StoredConversation:
    return document.from_json(entry)
