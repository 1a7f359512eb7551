"""Writes conversations to files, in one of several formats."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from llm_lite.core.errors import RequestError
from llm_lite.core.files.places import fit_name
from llm_lite.core.files.writing import write_file
from llm_lite.core.history.exchange.document import to_json
from llm_lite.core.history.exchange.html import to_html
from llm_lite.core.history.exchange.markdown import to_markdown
from llm_lite.core.history.records import StoredConversation

ExportFormat = Literal["markdown", "html", "json"]
ENDINGS: dict[ExportFormat, str] = {"markdown": ".md", "html": ".html", "json": ".json"}
_UNFIT = '<>:"/\\|?*'
_RESERVED = {"con", "prn", "aux", "nul", *(f"{n}{i}" for n in ("com", "lpt") for i in range(10))}


def exported(conversations: Sequence[StoredConversation], kind: ExportFormat) -> bytes:
    """Return the conversations in a format. RequestError for more than one conversation in a format
    that people read."""
    if kind == "json":
        return to_json(conversations)
    if len(conversations) != 1:
        raise RequestError(f"a {kind} file holds one conversation, found {len(conversations)}")
    text = (to_markdown if kind == "markdown" else to_html)(conversations[0])
    return text.encode(errors="replace")


def export_file(
    conversations: Sequence[StoredConversation], kind: ExportFormat, path: Path
) -> None:
    """Write conversations to a file, which is replaced whole. FileError if it cannot be written."""
    write_file(path, exported(conversations, kind))


def file_name(title: str) -> str:
    """Return a file name made from a title, without an ending, fit for Linux, macOS and Windows."""
    plain = "".join(" " if char in _UNFIT or not char.isprintable() else char for char in title)
    name = fit_name(" ".join(plain.split()))
    if not name or name.partition(".")[0].lower() in _RESERVED:
        name = f"conversation {name}".strip()
    return name
