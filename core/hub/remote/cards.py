"""The documents of a repository: its card as a few plain sentences, its config.json."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path
from typing import Any

from llm_lite.core.errors import LlmLiteError
from llm_lite.core.files.json_text import parse_object
from llm_lite.core.hub.remote.access import Stop, headers, library, translated
from llm_lite.core.hub.remote.repositories import Repository
from llm_lite.core.plain_text import one_line

_CARD, _CONFIG = "README.md", "config.json"
_MOST_CONFIG_BYTES = 1 << 20
_MOST_BYTES = 64 << 10  # of a card are read: what it is about stands at its beginning
_LONGEST, _SHORTEST = 400, 40  # characters
_FRONT = re.compile(r"\A\s*---\n.*?\n---\s*\n", re.DOTALL)
# What begins and has no end goes on to the end: each of many would be looked for again otherwise.
_HIDDEN = re.compile(
    r"<!--.*?(?:-->|\Z)|<(script|style)\b.*?(?:</\1>|\Z)|```.*?(?:```|\Z)", re.DOTALL | re.I
)
_TAG = re.compile(r"</?[a-zA-Z][^<>]{0,2000}>")
_IMAGE = re.compile(r"!\[[^\]]{0,500}\]\([^)]{0,2000}\)")
_LINK = re.compile(r"\[([^\[\]]{0,500})\]\([^()]{0,2000}\)")
_MARKS = re.compile(r"[*_`]{1,3}(?=\S)|(?<=\S)[*_`]{1,3}")
_NO_PROSE = ("#", "|", "- ", "* ", "> ", "+ ", "1.", "$", "=")


def description_of(found: Repository, stop: Stop) -> str:
    """Return the description; "" if there is no card, or it cannot be read: the rest is worth
    showing without it."""
    return first_sentences(_document(found, _CARD, _MOST_BYTES, stop).decode(errors="replace"))


def config_of(found: Repository, stop: Stop) -> str:
    """Return the text of a checkpoint's config.json; "" if it has none, or it cannot be read."""
    return _document(found, _CONFIG, _MOST_CONFIG_BYTES, stop).decode(errors="replace")


def context_of(config: str) -> int:
    """Return the context in a config.json; 0 if it has none."""
    with contextlib.suppress(LlmLiteError):
        fields = parse_config(config)
        inner = fields.get("text_config")
        for part in (inner if isinstance(inner, dict) else {}, fields):
            value = part.get("max_position_embeddings")
            if type(value) is int and 0 < value < 1 << 31:
                return value
    return 0


def parse_config(text: str) -> dict[str, Any]:
    """Parse a config.json. FileError if it is no JSON object, or one too deep."""
    return parse_object(text.encode(), Path(_CONFIG), "the file")


def _document(found: Repository, name: str, most: int, stop: Stop) -> bytes:
    """Return the first bytes of a small file; none if it is not there, or fails."""
    hub = found.hub
    if stop() or not any(file.path == name for file in found.files):
        return b""

    def read() -> bytes:
        url = library().hf_hub_url(found.repo, name, revision=found.commit, endpoint=hub.endpoint)
        asked = {**headers(), "Range": f"bytes=0-{most - 1}"}
        answer = library().utils.get_session().get(url, headers=asked)
        library().utils.hf_raise_for_status(answer)
        content: bytes = answer.content[:most]
        return content

    with contextlib.suppress(LlmLiteError):
        return translated(hub, read, repo=found.repo)
    return b""


def first_sentences(card: str) -> str:
    """Return the first paragraph of a card that is prose, without markup."""
    text = _HIDDEN.sub("", _FRONT.sub("", card.replace("\r\n", "\n")))
    text = _LINK.sub(r"\1", _IMAGE.sub("", _TAG.sub(" ", text)))
    for block in re.split(r"\n\s*\n", text):
        rows = [row.strip() for row in block.splitlines()]
        prose = " ".join(row for row in rows if row and not row.startswith(_NO_PROSE))
        plain = " ".join(one_line(_MARKS.sub("", prose)).split())
        if len(plain) >= _SHORTEST and re.search(r"[a-zà-ÿ]{3}", plain):
            return _cut(plain)
    return ""


def _cut(text: str) -> str:
    if len(text) <= _LONGEST:
        return text
    head = text[:_LONGEST]
    end = max(head.rfind(mark) for mark in (". ", "! ", "? "))
    if end >= _SHORTEST:
        return head[: end + 1]
    return head.rpartition(" ")[0] + " …"
