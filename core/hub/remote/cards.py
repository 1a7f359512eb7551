"""What a model card says of its model, as one or two plain sentences."""

from __future__ import annotations

import contextlib
import re

from llm_lite.core.errors import LlmLiteError
from llm_lite.core.hub.remote.access import Hub, Stop, headers, library, translated
from llm_lite.core.hub.remote.repositories import Repository
from llm_lite.core.plain_text import one_line

_CARD = "README.md"
_MOST_BYTES = 64 << 10  # of a card are read: what it is about stands at its beginning
_LONGEST, _SHORTEST = 400, 40  # characters
_FRONT = re.compile(r"\A\s*---\n.*?\n---\s*\n", re.DOTALL)
_HIDDEN = re.compile(r"<!--.*?-->|<(script|style)\b.*?</\1>|```.*?(?:```|\Z)", re.DOTALL | re.I)
_TAG = re.compile(r"</?[a-zA-Z][^<>]{0,2000}>")
_IMAGE = re.compile(r"!\[[^\]]{0,500}\]\([^)]{0,2000}\)")
_LINK = re.compile(r"\[([^\[\]]{0,500})\]\([^()]{0,2000}\)")
_MARKS = re.compile(r"[*_`]{1,3}(?=\S)|(?<=\S)[*_`]{1,3}")
_NO_PROSE = ("#", "|", "- ", "* ", "> ", "+ ", "1.", "$", "=")


def description_of(hub: Hub, found: Repository, stop: Stop) -> str:
    """ "" where there is no card, or it cannot be had: the rest is worth showing without it."""
    if stop() or not any(file.path == _CARD for file in found.files):
        return ""
    with contextlib.suppress(LlmLiteError):
        return first_sentences(translated(hub, lambda: _read(hub, found), repo=found.repo))
    return ""


def _read(hub: Hub, found: Repository) -> str:
    url = library().hf_hub_url(found.repo, _CARD, revision=found.commit, endpoint=hub.endpoint)
    asked = {**headers(), "Range": f"bytes=0-{_MOST_BYTES - 1}"}
    answer = library().utils.get_session().get(url, headers=asked)
    library().utils.hf_raise_for_status(answer)
    text: bytes = answer.content[:_MOST_BYTES]
    return text.decode(errors="replace")


def first_sentences(card: str) -> str:
    """The first paragraph that is prose, without markup."""
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
