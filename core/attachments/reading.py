"""A file as an attachment, or one sentence why it cannot be one. It reads the disk: for a thread
that may wait."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from llm_lite.core.attached_text import LONGEST_NAME, LONGEST_TEXT, Attachment, kind_of_text
from llm_lite.core.attachments import kinds
from llm_lite.core.attachments.decoding import decode
from llm_lite.core.attachments.pdf import pdf_text
from llm_lite.core.errors import FileError
from llm_lite.core.files.regular import open_regular, unreadable
from llm_lite.core.plain_text import one_line

LARGEST_TEXT = LONGEST_TEXT  # bytes: some million tokens, more than models read
LARGEST_PDF = 64 << 20
_HEAD = 1 << 12


class FoundModelError(FileError):
    """It is a model: to be opened, not attached."""


def read_attachment(path: Path) -> Attachment:
    """FileError where it cannot be attached; FoundModelError for a model."""
    _check_place(path)
    head, raw, size = _read(path)
    name = one_line(path.name)[:LONGEST_NAME]
    if not raw:
        raise FileError(path, "is empty: there is nothing to attach")
    if kinds.is_model(head):
        raise FoundModelError(path, "is a model")
    if kinds.is_picture(head):
        return Attachment(name, kind="picture")
    if kinds.is_pdf(head):
        _check_size(path, size, LARGEST_PDF, "PDF")
        return replace(pdf_text(path, raw), name=name)
    _check_size(path, size, LARGEST_TEXT, "text")
    text = decode(raw)
    if text is None:
        known = kinds.known_binary(head)
        raise FileError(path, f"is no text but {known or 'binary data'}")
    if not text.strip():
        raise FileError(path, "holds nothing but spaces: there is nothing to attach")
    return Attachment(name, text, kind=kind_of_text(path.name))


def _check_place(path: Path) -> None:
    """What is known before it is opened. FileError."""
    try:
        is_model = kinds.is_named_as_model(path) or kinds.is_model_folder(path)
        is_folder = path.is_dir()
    except (OSError, ValueError) as error:  # a folder that may not be entered, say
        raise unreadable(path, error) from error
    if is_model:
        raise FoundModelError(path, "is a model")
    if is_folder:
        raise FileError(path, "is a folder; attach the files in it")


def _read(path: Path) -> tuple[bytes, bytes, int]:
    """The beginning, as much as is of use, and the size, of which no more is believed than read."""
    with open_regular(path) as stream:
        try:
            size = os.fstat(stream.fileno()).st_size
            head = stream.read(_HEAD)
            if kinds.is_picture(head) or kinds.is_model(head):
                return head, head, size
            most = LARGEST_PDF if kinds.is_pdf(head) else LARGEST_TEXT
            if size > most:
                return head, head, size
            raw = head + stream.read(most + 1 - len(head))
        except OSError as error:
            raise unreadable(path, error) from error
    return head, raw, max(size, len(raw))


def _check_size(path: Path, size: int, most: int, what: str) -> None:
    if size > most:
        problem = f"has {size / 1e6:,.1f} MB, and a {what} of at most {most / 1e6:.0f} MB"
        raise FileError(path, f"{problem} can be attached")
